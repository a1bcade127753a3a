"""Jobs that wait for others: once these are complete, the reconciler publishes what a submit has left for it.

The run that finds the others complete creates `begun`, and publishes. What a client has begun and not published the
reconciler finishes. Published twice, a chunk runs twice at worst, and its first record counts.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from tidemill import layout
from tidemill.completion import Never, Row, gone, hindrance, rows_of, settle
from tidemill.fleet import HeldJob

from .answers import iso
from .cloud import CallError, Cloud, base
from .objects import Objects, is_cancelled, rounds_of

BY = "reconciler"
CLIENT_SECONDS = 90.0
"""How long a client that let a job begin has for publishing it. Other clients wait longer before they give up a round
(tidemill/client/deliveries.py), so a round is never published by both."""


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


def release(cloud: Cloud) -> tuple[list[str], list[str]]:
    """Publish every job that is due; returns what was done, in words, and the failures."""
    objects = Objects(cloud)
    done: list[str] = []
    failures: list[str] = []
    try:
        names = list(objects.names(layout.FLEET_HELD))
    except CallError as error:
        return [], [str(error)]
    for name in names:
        try:
            said = _look_at(cloud, objects, name)
        except (CallError, AttributeError, KeyError, TypeError, ValueError) as error:
            failures.append(f"{name}: {error if isinstance(error, CallError) else f'{type(error).__name__} {error}'}")
        else:
            done += [said] if said else []
    return done, failures


def _look_at(cloud: Cloud, objects: Objects, name: str) -> str | None:
    held = HeldJob.parse(objects.get(name))
    if _is_over(objects, held):
        objects.remove(name)
        return f"{held.job}: round {held.round} is not wanted any more"
    begun = objects.find(layout.begun(held.job))
    if begun is None:
        never = _what_is_missing(objects, held)
        if isinstance(never, Never):
            _end(cloud, objects, held, never)
            objects.remove(name)
            return f"{held.job} can never begin: {never.why}"
        note = {"at": iso(cloud.now()), "by": BY}
        if never or not objects.create(layout.begun(held.job), json.dumps(note).encode()):
            return None
    elif not _is_mine(json.loads(begun), cloud.now()):
        return None
    count = _publish(cloud, objects, held)
    objects.remove(name)
    return f"{held.job}: published {count} chunks of round {held.round}"


def _is_over(objects: Objects, held: HeldJob) -> bool:
    """Whether a round has nothing left to publish: its job has expired or is cancelled, or a later round runs it."""
    rounds = rounds_of(objects, held.job)
    return not rounds or rounds[-1] > held.round or is_cancelled(objects, held.job, held.round)


def _is_mine(begun: dict[str, Any], now: float) -> bool:
    return begun.get("by") == BY or now - datetime.fromisoformat(begun["at"]).timestamp() > CLIENT_SECONDS


def _publish(cloud: Cloud, objects: Objects, held: HeldJob) -> int:
    """Publish what is not recorded as published; returns how many chunks that were."""
    recorded = {layout.parse_published(name)[:2] for name in objects.names(layout.published(held.job))}
    count = 0
    for array, chunks in held.arrays.items():
        if (held.round, int(array)) in recorded:
            continue
        cloud.answer("POST", f"{base('PUBSUB')}v1/{held.topic}:publish", json={"messages": held.messages(array)})
        objects.create(layout.publication(held.job, held.round, int(array), len(chunks)))
        count += len(chunks)
    return count


def _end(cloud: Cloud, objects: Objects, held: HeldJob, never: Never) -> None:
    """Write the tombstone of a job that can never begin."""
    note = {"by": "worker", "reason": never.reason(held.job), "at": iso(cloud.now()), "rounds": held.round + 1}
    content = json.dumps(note).encode()
    if not objects.create(layout.cancelled(held.job), content):
        objects.create(layout.cancelled_round(held.job, held.round), content)


# ---- the other jobs -------------------------------------------------------------------------------------------------


def _what_is_missing(objects: Objects, held: HeldJob) -> Never | bool:
    """Why a job can never begin; or whether one of the others is not complete yet."""
    found = [_look_at_other(objects, job, success) for job, success in held.after.items()]
    return next((each for each in found if isinstance(each, Never)), any(found))


def _look_at_other(objects: Objects, job: str, success: bool) -> Never | bool:
    spec = objects.find(layout.spec(job))
    if spec is None:
        return gone(job)
    values, numbers = json.loads(spec), rounds_of(objects, job)
    rounds = [_round(objects, job, number) for number in numbers]
    read = [_names(objects, job, number) for number in numbers]
    waiting, failed = settle(values["chunks_total"], rounds, [done for done, _ in read], [marks for _, marks in read])
    cancelled = bool(waiting) and is_cancelled(objects, job, numbers[-1] if numbers else 0)
    total = sum(failed.values())
    never = hindrance(job, values["items_total"], total, finished=not waiting, cancelled=cancelled, success=success)
    return never or bool(waiting)


def _round(objects: Objects, job: str, number: int) -> Round:
    values = json.loads(objects.get(layout.round_(job, number)))
    chosen = values.get("chosen")
    return Round(values, rows_of(objects.get(layout.chosen(job, number, chosen))) if chosen else None)


def _names(objects: Objects, job: str, number: int) -> tuple[set[int], dict[int, int]]:
    """The chunks that are done in a round, and how many items of each have failed.

    Markers of failures are listed after the records: each is written before its record.
    """
    done = {layout.chunk_of_done(name) for name in objects.names(layout.of_round(job, number, "done"))}
    found = [layout.chunk_of_marker(name) for name in objects.names(layout.of_round(job, number, "failed"))]
    marks = Counter(chunk for chunk, _ in found)
    failed = {chunk: int(count) for chunk, count in found}
    for chunk in (chunk for chunk, several in marks.items() if several > 1 and chunk in done):
        # Where there are several markers, the record decides.
        record = objects.get(layout.done(job, number, chunk))
        failed[chunk] = json.loads(record.splitlines()[0])["failed"]
    return done, failed
