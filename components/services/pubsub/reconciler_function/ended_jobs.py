"""Messages of jobs that have ended, on a queue without a worker: the reconciler acknowledges them.

A worker acknowledges such messages when it receives them. While no machine can run its worker, they would stay for up
to 31 days, and the autoscaler would start machines for them again and again.

Each look delivers every message once, and a hundredth delivery makes a message a dead letter. So a look is followed by
another one only when a job that it found has ended, or when new messages have arrived.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

from tidemill import layout

from .cloud import CallError, Cloud, base
from .decide import BROKEN_SECONDS, QueueState, waiting
from .objects import Objects, is_cancelled, rounds_of

LOOK_SECONDS = BROKEN_SECONDS
"""Between two looks at the messages of a queue."""
ASKED = 50
"""Rounds about which one run asks."""
MOST = 10_000
"""Messages of one look."""
_PULL = 1000
_ACKS = 500
"""Acknowledge ids per request: each has about 200 bytes, and a request at most 512 KiB.
Source: https://cloud.google.com/pubsub/quotas"""
TELLERS = 3
"""Most claims to tell a job's end (`tidemill.ending.gate.TELLERS`)."""
_EMPTY_PULLS = 2
"""Pulls without a message that end a look: a pull that returns at once may miss messages."""


@dataclass(frozen=True)
class Look:
    """Result of one look at a queue's messages; kept in the store until the next look."""

    at: float = 0.0
    rounds: list[list[Any]] = field(default_factory=list)
    """Job and number of each round that still waits."""
    left: int = 0
    """Messages that were given back."""


def unserved(queue: QueueState, now: float) -> bool:
    """True if work has waited for the whole window while no machine has a worker that is alive."""
    machines = [machine for group in queue.groups for machine in group.of("up")]
    served = any(machine.alive_at is not None and not machine.silent(now) for machine in machines)
    return not served and waiting(queue, now)


def drop(cloud: Cloud, queue: QueueState, subscription: str) -> int:
    """Acknowledge messages of ended jobs on a queue without a worker; returns how many.

    Raises:
        CallError: A call failed; what was not acknowledged is delivered again.
    """
    if not unserved(queue, cloud.now()):
        return 0
    jobs, name = _Jobs(Objects(cloud)), f"{layout.FLEET_UNSERVED}/{queue.name}"
    last = _parsed(jobs.objects.find(name))
    if last and last.at <= cloud.now() and not _is_due(jobs, last, queue, cloud.now()):
        return 0
    path = f"{base('PUBSUB')}v1/projects/{cloud.project}/subscriptions/{subscription}"
    left = _pull(cloud, path)
    # A run that fails from here on must not deliver everything again in the next one.
    _note(cloud, name, left)
    over = [ack for ack, labels in left.items() if jobs.drops(labels)]
    _send(cloud, f"{path}:acknowledge", over)
    for ack in over:
        del left[ack]
    _send(cloud, f"{path}:modifyAckDeadline", list(left), ackDeadlineSeconds=0)
    if over:
        _note(cloud, name, left)
    return len(over)


def _note(cloud: Cloud, name: str, left: Mapping[str, Mapping[str, str]]) -> None:
    rounds = sorted({each for labels in left.values() if (each := _round(labels))})
    look = Look(cloud.now(), [list(each) for each in rounds], len(left))
    cloud.write(name, json.dumps(asdict(look)), "application/json")


def _parsed(data: bytes | None) -> Look | None:
    """The last look; None for a note that is missing or damaged: machines may write there too."""
    try:
        values = json.loads(data or b"")
        rounds = [[str(job), int(number)] for job, number in values["rounds"]]
        return Look(float(values["at"]), rounds, int(values["left"]))
    except (KeyError, TypeError, ValueError):
        return None


def _is_due(jobs: _Jobs, last: Look, queue: QueueState, now: float) -> bool:
    if any(jobs.is_over(job, number) for job, number in last.rounds[:ASKED]):
        return True
    newer = [sample.value for sample in queue.backlog or () if sample.at > last.at]
    return now - last.at >= LOOK_SECONDS and max(newer, default=0) > last.left


def _pull(cloud: Cloud, path: str) -> dict[str, dict[str, str]]:
    """The attributes of the waiting messages, by acknowledge id."""
    by_id: dict[str, dict[str, str]] = {}
    empty = 0
    while empty < _EMPTY_PULLS and len(by_id) < MOST:
        answer = cloud.answer("POST", f"{path}:pull", json={"maxMessages": _PULL, "returnImmediately": True}).json()
        received = answer.get("receivedMessages", [])
        empty = 0 if received else empty + 1
        by_id.update((one["ackId"], one.get("message", {}).get("attributes", {})) for one in received)
    return by_id


def _send(cloud: Cloud, url: str, ids: Sequence[str], **more: Any) -> None:
    for start in range(0, len(ids), _ACKS):
        cloud.answer("POST", url, json={"ackIds": ids[start : start + _ACKS], **more})


def _round(labels: Mapping[str, str]) -> tuple[str, int] | None:
    """Job and round of a message; None if no submit of ours published it."""
    job, number = labels.get("job", ""), labels.get("round", "")
    return (job, int(number)) if job and number.isdecimal() else None


class _Jobs:
    """Reads the state of jobs from the store, once for each round. A damaged job is a worker's to end."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self.is_over = cache(self._is_over)
        self._dropped = cache(self._dropped_chunks)

    def _is_over(self, job: str, number: int) -> bool:
        """True if a round is cancelled, or its job has expired."""
        try:
            return not rounds_of(self.objects, job) or is_cancelled(self.objects, job, number)
        except CallError:
            raise
        except Exception:
            return False

    def _dropped_chunks(self, job: str, number: int) -> set[int]:
        """The chunks that are done, once nothing is left to tell: the worker that gets one of them tells."""
        try:
            names = self.objects.names(layout.of_round(job, number, "done"))
            done = {layout.chunk_of_done(name) for name in names}
            return set() if done and self._is_untold(job) else done
        except CallError:
            raise
        except Exception:
            return set()

    def _is_untold(self, job: str) -> bool:
        """True if the end of a job with `--notify` has still to be told (tidemill/ending/gate.py)."""
        spec = self.objects.find(layout.spec(job))
        if spec is None or not json.loads(spec).get("notify"):
            return False
        newest = rounds_of(self.objects, job)[-1]
        over = {layout.told_sent(job, newest), layout.told_claim(job, newest, TELLERS - 1)}
        return over.isdisjoint(self.objects.names(layout.told(job)))

    def drops(self, labels: Mapping[str, str]) -> bool:
        """True if a worker would acknowledge a message without running anything. Foreign messages are left to it."""
        of = _round(labels)
        if of is None:
            return False
        chunk = labels.get("chunk", "")
        return self.is_over(*of) or (chunk.isdecimal() and int(chunk) in self._dropped(*of))
