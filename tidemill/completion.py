"""Judges by the names of a job's objects if it is complete, and if the jobs after it may run; and says by when it must
have started.

The reconciler's function ships this module, so it is a leaf of the standard library alone.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

MAGIC = b"TMC1"
HEADER = struct.Struct("<4sI")
"""Of the object with the lists of a large round, all little endian: the magic, and how many rows follow, one per child
in the order of the round's arrays. Then come the indexes of items (u64)."""
ROW = struct.Struct("<IIIQ")
"""Chunk, how many of its items had failed before, how many of them run (0: all), and where their indexes begin. Rows
are sorted by chunk."""


class Row(NamedTuple):
    """A child of a large round."""

    chunk: int
    failed_before: int
    items: list[int] | None
    """None for the whole chunk."""


def rows_of(data: bytes) -> list[Row]:
    """The rows of such an object.

    Raises:
        ValueError: It is another object, or cut.
    """
    try:
        magic, count = HEADER.unpack_from(data)
        rows = [ROW.unpack_from(data, HEADER.size + number * ROW.size) for number in range(count)]
        if 8 * sum(items for _, _, items, _ in rows) > len(data):
            raise ValueError("the lists of a round overlap")
        lists = [list(struct.unpack_from(f"<{items}Q", data, at)) if items else None for _, _, items, at in rows]
    except struct.error as error:
        raise ValueError(f"the lists of a round are cut: {error}") from None
    if magic != MAGIC:
        raise ValueError("not the lists of a round")
    return [Row(chunk, before, items) for (chunk, before, *_), items in zip(rows, lists, strict=True)]


class RoundLike(Protocol):
    """The part of a round that completeness depends on."""

    def enqueued(self) -> Iterable[int]:
        """Its chunks."""
        ...

    def runs(self, chunk: int) -> list[int] | None:
        """The items of a chunk that it runs; None for all of them."""
        ...

    def had_failed(self, chunk: int) -> int:
        """How many of these items had failed before."""
        ...


def owners(rounds: Iterable[RoundLike]) -> dict[int, int]:
    """By chunk, the position of the newest round that enqueued it: the one that has to do it."""
    return {chunk: number for number, round_ in enumerate(rounds) for chunk in round_.enqueued()}


def last_chunks(owners: Mapping[int, int]) -> dict[int, int]:
    """By a round's position: the highest of its chunks. Chunks end about in their order, so one question about each of
    these mostly tells that a job is not complete."""
    last: dict[int, int] = {}
    for chunk, number in owners.items():
        last[number] = max(chunk, last.get(number, 0))
    return last


def settle(
    chunks: int,
    rounds: Sequence[RoundLike],
    done: Sequence[Collection[int]],
    failed: Sequence[Mapping[int, int]],
) -> tuple[set[int], dict[int, int]]:
    """Chunks that the newest round which enqueued them has not done, and by chunk how many of its items have failed.

    Args:
        chunks: All of the job's.
        rounds: Oldest first.
        done: By round: the chunks that are committed in it.
        failed: By round: how many items of a committed chunk failed, where any did.
    """
    # The first round leaves out a chunk only if none of its items has to run.
    waiting = set[int]() if rounds else set(range(chunks))
    failures: dict[int, int] = {}
    last: dict[int, tuple[list[int] | None, int]] = {}
    for round_, committed, marked in zip(rounds, done, failed, strict=True):
        waiting.update(round_.enqueued())
        waiting.difference_update(committed)
        for chunk in committed:
            ran = round_.runs(chunk)
            if ran is None:
                # A round that runs a whole chunk replaces the outcomes of earlier ones.
                others = 0
            elif chunk in last and last[chunk][0] == ran:
                # The round before seemed lost, but was committed after all.
                others = last[chunk][1]
            else:
                others = max(0, failures.get(chunk, 0) - round_.had_failed(chunk))
            last[chunk] = ran, others
            failures[chunk] = others + marked.get(chunk, 0)
    return waiting, failures


SUBMIT_AGAIN = "Submit it again."
"""Advice on a job that nothing lets begin: to resume it would not help."""


@dataclass(frozen=True)
class Hindrance:
    """Why a job can never begin.

    Attributes:
        job: The other job.
        why: The reason, as a clause about it: `tiles-0123abcd is cancelled`.
        fix: The command that mends the other job; empty where nothing does.
    """

    job: str
    why: str
    fix: str = ""

    def reason(self, job: str) -> str:
        """Why the waiting job has ended, and what to do, for its tombstone."""
        then = f"`{self.fix}`, then `tidemill resume {job}` continues it." if self.fix else SUBMIT_AGAIN
        return f"{self.why}, and this job runs after it. {then}"


def gone(job: str) -> Hindrance:
    return Hindrance(job, f"{job} is not in the store any more")


def damaged(job: str) -> Hindrance:
    return Hindrance(job, f"what the store has of {job} is damaged")


def hindrance(job: str, items: int, failed: int, *, finished: bool, cancelled: bool, success: bool) -> Hindrance | None:
    """Why a job after this one can never begin as things are, or None.

    Args:
        job: The job's id.
        items: How many it has.
        failed: How many of them have failed.
        finished: Whether it is complete.
        cancelled: Whether its newest round is cancelled.
        success: Whether all of its items must have succeeded.
    """
    if finished:
        text = f"{failed} of the {items} items of {job} failed"
        return Hindrance(job, text, f"tidemill retry {job} --failed") if success and failed else None
    return Hindrance(job, f"{job} is cancelled", f"tidemill resume {job}") if cancelled else None


@dataclass(frozen=True)
class StartLimit:
    """A job's limit for its start, in `fleet/held`: the reconciler ends the job if no worker has begun with it by then.

    Attributes:
        job: The job's id.
        until: Seconds since the epoch.
        reason: Why it ends, for its tombstone.
    """

    job: str
    until: float
    reason: str

    @classmethod
    def parse(cls, data: bytes) -> StartLimit:
        """A limit from JSON.

        Raises:
            TypeError: A field is missing or unknown.
        """
        return cls(**json.loads(data))
