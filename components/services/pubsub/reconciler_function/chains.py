"""Jobs that wait for others: once these are complete, the reconciler publishes what a submit has left for it.

Submitters alone write to `fleet/held`: user code can name no job here, and no topic (ADR 94). The run that finds the
others complete creates `begun`, and publishes. What a client has begun and not published the reconciler finishes.
Published twice, a chunk runs twice at worst, and its first record counts.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import datetime
from typing import Any

from tidemill import layout
from tidemill.completion import Hindrance
from tidemill.fleet import HeldJob

from .answers import iso
from .cloud import CallError, Cloud, LateError, base
from .late_jobs import end_late
from .objects import Objects, end_job, is_cancelled, rounds_of
from .predecessors import Others

BY = "reconciler"
_GOLDEN = 0.6180339887498949
"""Multiples of it, without their whole parts, spread evenly: few runs reach every job."""
CLIENT_SECONDS = 90.0
"""How long a client that let a job begin has for publishing it. Other clients wait longer before they give up a round
(tidemill/client/rounds/deliveries.py), so a round is never published by both."""


def release(cloud: Cloud, topics: Collection[str], run: float = 0.0) -> tuple[list[str], list[str]]:
    """Publish every job that is due.

    Args:
        cloud: Google's APIs.
        topics: Full names of the topics of the stack's queues: nothing is published elsewhere.
        run: The run's number. Each run begins with another job, so that one which is out of time leaves out others.

    Returns:
        What was done, in words, and the failures.
    """
    objects = Objects(cloud)
    others = Others(objects)
    done: list[str] = []
    failures: list[str] = []
    try:
        generations = objects.generations(layout.FLEET_HELD)
    except (CallError, ValueError) as error:
        return [], [str(error)]
    names = _in_turn(list(generations), run)
    for count, name in enumerate(names):
        try:
            line = _look_at(cloud, objects, others, name, topics)
            if line:
                # A client may have left another round there meanwhile, which is the next run's.
                objects.remove(name, generations[name])
        except LateError:
            done.append(f"{len(names) - count} of {len(names)} jobs that wait are left to the next run")
            break
        except Exception as error:
            failures.append(f"{name}: {error if isinstance(error, CallError) else f'{type(error).__name__} {error}'}")
        else:
            done += [line] if line else []
    return done, failures


def _in_turn(names: list[str], run: float) -> list[str]:
    """The names, from another one on each time: those of successive runs are far apart."""
    first = int(run * _GOLDEN % 1 * len(names))
    return [*names[first:], *names[:first]]


def _look_at(cloud: Cloud, objects: Objects, others: Others, name: str, topics: Collection[str]) -> str | None:
    """Handle a held round, or a job's limit for its start. Returns a line about it when it needs nothing more, and
    None while it waits."""
    if name.endswith(layout.START_LIMIT):
        return end_late(cloud, objects, name)
    held = HeldJob.parse(objects.get(name))
    if layout.held(held.job) != name or held.topic not in topics:
        raise ValueError(f"it names the job {held.job!r} and the topic {held.topic!r}, which is not of this stack")
    if _is_over(objects, held):
        return f"{held.job}: round {held.round} is not wanted any more"
    begun = objects.find(layout.begun(held.job))
    if begun is None:
        unmet = [others.missing(job, success) for job, success in held.after.items()]
        never = next((each for each in unmet if isinstance(each, Hindrance)), None)
        if never:
            end_job(objects, held.job, held.round, never.reason(held.job), iso(cloud.now()))
            return f"{held.job} can never begin: {never.why}"
        note = {"at": iso(cloud.now()), "by": BY}
        if any(unmet) or not objects.create(layout.begun(held.job), json.dumps(note).encode()):
            return None
    elif not _is_mine(json.loads(begun), cloud.now()):
        return None
    count = _publish(cloud, objects, held)
    return f"{held.job}: published {count} chunks of round {held.round}"


def _is_over(objects: Objects, held: HeldJob) -> bool:
    """True if a round has nothing left to publish: its job has expired or is cancelled, or a later round runs it."""
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
