"""Outcomes and the record that commits those of a chunk."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from pydantic import JsonValue

from tidemill.errors import decoding


@dataclass(slots=True, kw_only=True)
class Outcome:
    """Outcome of one item."""

    index: int
    uri: str
    status: Literal["succeeded", "failed"]
    reason: str | None = None
    """Why it failed: exit, exception, signal, timeout, memory, poison, input, output, scratch or start; else None."""
    exit_code: int | None = None
    """Of the last attempt that ran; negative for a signal."""
    attempts: int = 0
    """Attempts that ran to their end. Reclaims are not among them."""
    reclaims: int = 0
    """Drains that interrupted the item."""
    wall_seconds: float = 0.0
    """Of the last attempt, its staging not included."""
    cpu_seconds: float = 0.0
    """User and system time of the last attempt and its children."""
    peak_memory_mib: float = 0.0
    """Largest resident memory of the last attempt's process group."""
    memory_mib: int | None = None
    """Memory that its last attempt was given, where that was not what the job asks for."""
    peak_gpu_memory_mib: float | None = None
    """Largest memory in use on the GPUs that it was given; None without any, or when it ended between two samples."""
    gpu_percent: float | None = None
    """Mean share of time in which these GPUs were computing."""
    output: str | None = None
    """URI of the prefix that holds the outputs, with a trailing slash."""
    error: str | None = None
    """The end of what it wrote to stderr, or what we have to say."""
    value: JsonValue = None
    """The function's value for the item, where it is JSON and not long."""
    meta: dict[str, JsonValue] | None = None
    """Metadata of the item, where it was asked for: records do not repeat it."""
    origin: str | None = None
    """The job and the item that it was computed for, `<job>/<index>`, where an earlier job did that."""
    value_file: str | None = None
    """Name below `output` of the file that holds what the function returned, where `value` does not."""

    def line(self) -> str:
        # Three times as fast as `dataclasses.asdict`, which copies every value.
        return _encode(dict(zip(_FIELDS, _values(self), strict=True)))

    @classmethod
    def parse(cls, line: str | bytes | dict[str, Any]) -> Outcome:
        """An outcome from its line; keys that a newer worker wrote are ignored."""
        data = line if isinstance(line, dict) else json.loads(line)
        return cls(**{key: data[key] for key in _FIELDS if key in data})


_encode = json.JSONEncoder(separators=(",", ":")).encode
_FIELDS = tuple(field.name for field in fields(Outcome) if field.name not in ("meta", "origin"))
_values = attrgetter(*_FIELDS)


class Header(NamedTuple):
    """The first line of a record: who committed it."""

    chunk: int
    attempt: str
    round: int
    worker: str
    items: int
    failed: int
    committed_at: str
    backend: dict[str, Any]
    """The backend's names for this run: on AWS Batch ``job_id`` and ``attempt``."""
    digest: dict[str, Any] | None = None
    """See `tidemill.ledger.digest`; workers always write one."""


class Record(NamedTuple):
    """A chunk's committed outcomes in a round: `done/<x>/<chunk>.jsonl`."""

    header: Header
    outcomes: list[Outcome]

    def encode(self) -> bytes:
        """The object's bytes: the header's line, then a line an outcome."""
        head = {key: value for key, value in self.header._asdict().items() if value is not None}
        lines = [json.dumps(head, separators=(",", ":"))]
        lines += [outcome.line() for outcome in self.outcomes]
        return ("\n".join(lines) + "\n").encode()

    @classmethod
    def decode(cls, data: bytes, what: str = "a committed record") -> Record:
        """A record from its bytes. `what` names the object in the `DamagedError` that bad bytes raise."""
        lines = data.splitlines()
        with decoding(what):
            head = json.loads(lines[0])
            header = Header(**{key: head[key] for key in Header._fields if key in head})
            return cls(header, parse_lines(lines[1:]))


def encode_lines(outcomes: Iterable[Outcome]) -> bytes:
    return "".join(outcome.line() + "\n" for outcome in outcomes).encode()


def parse_lines(lines: Iterable[bytes]) -> list[Outcome]:
    return [Outcome.parse(line) for line in lines if line.strip()]
