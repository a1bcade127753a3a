"""The jobs for which others wait, by the names of their objects. Each is looked at once in a run.

Programs on machines may write anything below `jobs/`. So everything that is read here has a bound, and a job whose
objects cannot be read ends those that wait for it, and nothing else.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tidemill import layout
from tidemill.completion import Hindrance, Row, damaged, gone, hindrance, last_chunks, owners, rows_of, settle

from .cloud import CallError
from .objects import MOST_BYTES, Objects, is_cancelled, rounds_of

MOST_CHUNKS = 50_000
"""Of a job (`tidemill.job.MAX_CHUNKS`)."""
MOST_LISTS = 3 * MOST_BYTES
"""Of the lists of a job's large rounds. Parsed, they take six times as much memory."""


@dataclass(frozen=True)
class Round:
    """A round of a job, from its object."""

    values: dict[str, Any]
    chosen: list[Row] | None

    @cached_property
    def _rows(self) -> dict[int, Row]:
        return {row.chunk: row for row in self.chosen or ()}

    def enqueued(self) -> Iterator[int]:
        """See `tidemill.completion.RoundLike`."""
        for count, chunk in enumerate(self._enqueued(), start=1):
            if count > MOST_CHUNKS:
                raise ValueError(f"a round of more than {MOST_CHUNKS} chunks")
            yield chunk

    def _enqueued(self) -> Iterator[int]:
        if self.chosen is not None:
            yield from self._rows
            return
        for array in self.values["arrays"]:
            first, count = array.get("first", 0), array.get("count", 0)
            yield from array["chunks"] if array.get("chunks") is not None else range(first, first + count)

    def runs(self, chunk: int) -> list[int] | None:
        """See `tidemill.completion.RoundLike`."""
        if self.chosen is not None:
            return self._rows[chunk].items if chunk in self._rows else None
        return (self.values.get("items") or {}).get(str(chunk))

    def had_failed(self, chunk: int) -> int:
        """See `tidemill.completion.RoundLike`."""
        if self.chosen is not None:
            return self._rows[chunk].failed_before if chunk in self._rows else 0
        return (self.values.get("failed_before") or {}).get(str(chunk), 0)


@dataclass(frozen=True)
class JobProgress:
    """A job in numbers, and if it is complete or cancelled."""

    items: int
    failed: int = 0
    finished: bool = False
    cancelled: bool = False


class Others:
    """Other jobs, each looked at once in a run of the reconciler."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._seen: dict[str, JobProgress | Hindrance | CallError] = {}

    def missing(self, job: str, success: bool) -> Hindrance | bool:
        """Why a job after this one can never begin; or whether this one is not complete yet.

        Raises:
            CallError: It could not be read.
        """
        if job not in self._seen:
            self._seen[job] = self._look_at(job)
        seen = self._seen[job]
        if isinstance(seen, CallError):
            raise seen
        if isinstance(seen, Hindrance):
            return seen
        never = hindrance(
            job, seen.items, seen.failed, finished=seen.finished, cancelled=seen.cancelled, success=success
        )
        return never or not seen.finished

    def _look_at(self, job: str) -> JobProgress | Hindrance | CallError:
        try:
            return self._read(job)
        except CallError as error:
            return error
        except Exception:
            return damaged(job)

    def _read(self, job: str) -> JobProgress | Hindrance:
        spec = self._objects.find(layout.spec(job))
        if spec is None:
            return gone(job)
        chunks, items = (int(json.loads(spec)[key]) for key in ("chunks_total", "items_total"))
        numbers = rounds_of(self._objects, job)
        if chunks > MOST_CHUNKS:
            raise ValueError(f"a job of more than {MOST_CHUNKS} chunks")
        rounds = self._rounds(job, numbers)
        # A job of 50,000 chunks has hundreds of pages of names, and most of its time its last ones are not done.
        last = last_chunks(owners(rounds)).items()
        waiting = not all(self._objects.has(layout.done(job, numbers[at], chunk)) for at, chunk in last)
        failed: dict[int, int] = {}
        if not waiting:
            read = [self._names(job, number) for number in numbers]
            left, failed = settle(chunks, rounds, [done for done, _ in read], [marks for _, marks in read])
            waiting = bool(left)
        cancelled = waiting and is_cancelled(self._objects, job, numbers[-1] if numbers else 0)
        return JobProgress(items, sum(failed.values()), not waiting, cancelled)

    def _rounds(self, job: str, numbers: list[int]) -> list[Round]:
        """A job's rounds, which are held together, so their sum has a bound."""
        rounds: list[Round] = []
        size = lists = 0
        for number in numbers:
            data, rows = self._objects.get(layout.round_(job, number)), None
            size += len(data)
            if size > MOST_BYTES:
                raise ValueError(f"the rounds of {job} have more than {MOST_BYTES} bytes")
            values = json.loads(data)
            if chosen := values.get("chosen"):
                data = self._objects.get(layout.chosen(job, number, chosen))
                lists += len(data)
                if lists > MOST_LISTS:
                    raise ValueError(f"the lists of {job} have more than {MOST_LISTS} bytes")
                rows = rows_of(data)
            rounds.append(Round(values, rows))
        return rounds

    def _names(self, job: str, number: int) -> tuple[set[int], dict[int, int]]:
        """The chunks that are done in a round, and how many items of each have failed.

        Markers of failures are listed after the records: each is written before its record.
        """
        objects = self._objects
        done = {layout.chunk_of_done(name) for name in objects.names(layout.of_round(job, number, "done"))}
        chunks = [layout.chunk_of_marker(name) for name in objects.names(layout.of_round(job, number, "failed"))]
        marks = Counter(chunk for chunk, _ in chunks)
        failed = {chunk: int(count) for chunk, count in chunks}
        for chunk in (chunk for chunk, several in marks.items() if several > 1 and chunk in done):
            # Where there are several markers, the record decides.
            failed[chunk] = json.loads(objects.first_line(layout.done(job, number, chunk)))["failed"]
        return done, failed
