"""Outcomes that a job shares with earlier ones: `jobs/<job>/shared/<sha256>`, written at the submit.

The document says for each item that does not run where its outcome is: the job, the round and the item that it was
committed for. That job has computed it; a job which shares it itself is never named. A record of a round never
changes, so a retry of the other job changes no shared outcome.

It is compressed with zstd: a line of JSON with the sources, then a run of items per 24 bytes, little endian (first item
u64, items u32, source u32, first item at the source u64). The runs are sorted, and none overlaps another.
"""

from __future__ import annotations

import hashlib
import json
import struct
from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Annotated, NamedTuple

import zstandard
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from tidemill import layout
from tidemill.errors import DamagedError, StoreMissingError, decoding
from tidemill.job import JOB_PATTERN, JobSpec
from tidemill.ledger.chunk import ChunkLedger
from tidemill.ledger.records import Outcome
from tidemill.ledger.removal_mark import is_mark
from tidemill.manifest import ManifestIndex
from tidemill.store import Store

_RUN = struct.Struct("<QIIQ")
_CACHED = 256
"""Chunks of other jobs whose outcomes are kept: neighbours in a list are neighbours there, too."""
_MOST_BYTES = 512 * 2**20


class SharedRound(BaseModel):
    """A round of another job, from which outcomes are shared."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    job: Annotated[str, StringConstraints(pattern=JOB_PATTERN)]
    round: int = Field(ge=0)
    at: float = Field(ge=0, allow_inf_nan=False)
    """Time of what expires first of the job's spec and these records, in seconds since the epoch."""
    recipe: str = ""
    """Digest of the code and settings that the outcomes follow from."""


class SharedRange(NamedTuple):
    """Items in a row whose outcomes are in a row at their source."""

    first: int
    items: int
    source: int
    origin: int
    """Index of the first item at the source."""


class SharedOutcomes:
    """The document in memory: 24 bytes a run."""

    def __init__(self, sources: Sequence[SharedRound], runs: bytes) -> None:
        self.sources, self._runs = sources, runs

    @classmethod
    def of(cls, sources: Sequence[SharedRound], items: Iterable[tuple[int, int, int]]) -> SharedOutcomes:
        """The document about some items, in their order: index, number of the source, and index there."""
        runs, last = bytearray(), SharedRange(0, 0, 0, 0)
        for index, source, origin in items:
            follows = (last.first + last.items, last.source, last.origin + last.items)
            if last.items and (index, source, origin) == follows:
                last = last._replace(items=last.items + 1)
                continue
            runs += _RUN.pack(*last) if last.items else b""
            last = SharedRange(index, 1, source, origin)
        runs += _RUN.pack(*last) if last.items else b""
        return cls(sources, bytes(runs))

    @classmethod
    def load(cls, store: Store, job: str, sha256: str) -> SharedOutcomes:
        """Read the document of a job.

        Raises:
            DamagedError: It is not what was written, or no such document.
        """
        name = layout.shared(job, sha256)
        data = store.get(name)
        if hashlib.sha256(data).hexdigest() != sha256:
            raise DamagedError(f"{store.uri_of(name)} is not what was submitted: its SHA-256 differs.")
        with decoding(store.uri_of(name)):
            return cls._decoded(data)

    @classmethod
    def _decoded(cls, data: bytes) -> SharedOutcomes:
        try:
            if not 0 < zstandard.frame_content_size(data) <= _MOST_BYTES:
                raise ValueError(f"it does not say that it has at most {_MOST_BYTES} bytes")
            text = zstandard.ZstdDecompressor().decompress(data)
            head, _, runs = text.partition(b"\n")
            sources = [SharedRound.model_validate(each) for each in json.loads(head)["sources"]]
        except (zstandard.ZstdError, ValidationError) as error:
            raise ValueError(str(error)) from None
        end = 0
        for run in _RUN.iter_unpack(runs):
            first, items, source, _ = run
            if first < end or not items or source >= len(sources):
                raise ValueError("its runs overlap, or are of no source")
            end = first + items
        return cls(sources, runs)

    def encode(self) -> bytes:
        """The object's bytes. The same outcomes give the same bytes."""
        head = json.dumps({"sources": [source.model_dump() for source in self.sources]}, separators=(",", ":"))
        return zstandard.ZstdCompressor(write_content_size=True).compress(head.encode() + b"\n" + self._runs)

    # ---- what it holds ------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return sum(run.items for run in self.runs())

    def runs(self, first: int = 0, end: int | None = None) -> Iterator[SharedRange]:
        """The runs of the items from `first` to `end`, cut there."""
        numbers = range(len(self._runs) // _RUN.size)
        for number in numbers[max(0, bisect_right(numbers, first, key=lambda n: self._run(n).first) - 1) :]:
            run = self._run(number)
            if end is not None and run.first >= end:
                return
            before = max(0, first - run.first)
            after = 0 if end is None else max(0, run.first + run.items - end)
            if run.items > before + after:
                yield SharedRange(run.first + before, run.items - before - after, run.source, run.origin + before)

    def _run(self, number: int) -> SharedRange:
        return SharedRange(*_RUN.unpack_from(self._runs, number * _RUN.size))

    @cached_property
    def by_job(self) -> dict[str, int]:
        """How many outcomes are of each job, the most first."""
        counts: dict[str, int] = {}
        for run in self.runs():
            job = self.sources[run.source].job
            counts[job] = counts.get(job, 0) + run.items
        return dict(sorted(counts.items(), key=lambda one: -one[1]))


class SharedReader:
    """Reads shared outcomes where they were committed.

    Args:
        store: The job store: outcomes of another are never shared.
        shared: Where they are.
    """

    def __init__(self, store: Store, shared: SharedOutcomes) -> None:
        self._store, self._shared = store, shared
        self._origin = lru_cache(None)(self._read_origin)
        self._chunk = lru_cache(_CACHED)(self._read_chunk)

    def outcomes(self, first: int, end: int, without: Container[int] = ()) -> Iterator[Outcome]:
        """The shared outcomes of the items from `first` to `end` except some, in order, each with its `origin`.

        Raises:
            StoreMissingError: One is not there any more.
        """
        for run in self._shared.runs(first, end):
            source = self._shared.sources[run.source]
            for number in range(run.items):
                if run.first + number in without:
                    continue
                item = run.origin + number
                if (found := self._origin(source.job)) is None:
                    raise self._gone(run.first + number, source.job, item)
                index, prefix = found
                if item >= index.items:
                    raise DamagedError(
                        f"an outcome is shared with item {item} of {source.job}, which has {index.items}."
                    )
                outcome = self._chunk(source.job, source.round, index.chunk_of(item)).get(item)
                if outcome is None:
                    raise self._gone(run.first + number, source.job, item)
                if outcome.output is not None and not outcome.output.startswith(f"{prefix}/"):
                    raise DamagedError(f"the output of item {item} of {source.job} is not below {prefix}.")
                yield replace(outcome, index=run.first + number, origin=f"{source.job}/{item}")

    def _gone(self, item: int, job: str, origin: int) -> StoreMissingError:
        return StoreMissingError(
            f"item {item} shares the outcome of item {origin} of {job}, which is not in {self._store.uri} any more.",
            "The same submit with `--changed` (`changed=True`) runs it again.",
            what="job",
            value=job,
        )

    def _read_origin(self, job: str) -> tuple[ManifestIndex, str] | None:
        """A job's index, and where its outputs are; None when it is not in the store any more."""
        data = self._store.find(layout.spec(job))
        if data is None or is_mark(data):
            return None
        with decoding(self._store.uri_of(layout.spec(job))):
            spec = JobSpec.model_validate_json(data)
        return ManifestIndex.load(self._store, job, spec.manifest), spec.output_prefix(self._store.uri)

    def _read_chunk(self, job: str, number: int, chunk: int) -> dict[int, Outcome]:
        part = ChunkLedger(self._store, layout.ChunkKey(job, number, chunk), list)
        record = part.committed()
        if record is None:
            return part.progress()
        return {outcome.index: outcome for outcome in record.outcomes}
