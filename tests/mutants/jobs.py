"""Jobs without one of the safeguards of their client, their ledger or their workers."""

from dataclasses import replace
from typing import Any

import pytest

from tidemill.client import Status
from tidemill.client.rounds import deliveries, rounds
from tidemill.client.rounds.rounds import send_again
from tidemill.client.watch import wait
from tidemill.ledger import ChunkLedger, Commit
from tidemill.services.pubsub.backend import GcpPubSub
from tidemill.worker.chunks import held_chunks
from tidemill.worker.chunks.jobs import LeasedJob
from tidemill.worker.machine.idle import IdlePolicy


def dead_letters_unseen(patch: pytest.MonkeyPatch) -> None:
    """Dead letters are never checked."""
    patch.setattr(GcpPubSub, "dead_letters", lambda *_: [])


def gate_left_open(patch: pytest.MonkeyPatch) -> None:
    """A worker runs the items of a job that waits for another one."""
    patch.setattr(LeasedJob, "gate", lambda self: None)


def impatient_resume(patch: pytest.MonkeyPatch) -> None:
    """`resume` treats everything that the queue does not show as lost, however young it is."""

    def reconcile(*arguments: Any, **more: Any) -> deliveries.Deliveries:
        with patch.context() as inner:
            inner.setattr(deliveries, "_young", lambda written, now, grace_seconds: False)
            return deliveries.reconcile(*arguments, **more)

    patch.setattr(rounds, "reconcile", reconcile)


def leave_at_once(patch: pytest.MonkeyPatch) -> None:
    """A worker treats one empty pull as idleness."""
    patch.setattr(IdlePolicy, "leave", lambda self: self._empty >= 1)


def limit_unseen(patch: pytest.MonkeyPatch) -> None:
    """No worker adds up what a job has cost."""
    patch.setattr(held_chunks, "ends_job", lambda *_: False)


def marker_after_record(patch: pytest.MonkeyPatch) -> None:
    """The number of failed items of a chunk is written after its record instead of before."""
    sound, mark = ChunkLedger.commit, ChunkLedger.derive_marker

    def commit(self: ChunkLedger, *arguments: Any, **more: Any) -> Commit:
        patch.setattr(ChunkLedger, "derive_marker", lambda self, record: None)
        try:
            done = sound(self, *arguments, **more)
        finally:
            patch.setattr(ChunkLedger, "derive_marker", mark)
        mark(self, done.record)
        return done

    patch.setattr(ChunkLedger, "commit", commit)


def publishes_forgotten(patch: pytest.MonkeyPatch) -> None:
    """What was published before a submit broke off is not looked up."""
    patch.setattr(GcpPubSub, "describe", lambda *_, **__: [])


def self_repair_off(patch: pytest.MonkeyPatch) -> None:
    """`wait` does not enqueue items again that the cloud has lost."""
    patch.setattr(wait.Repairs, "worth_it", lambda self, status: False)


def stale_plans(patch: pytest.MonkeyPatch) -> None:
    """A retry or resume whose round number is taken uses the next number with its old plan."""
    sound = rounds._send

    def send(pipeline: Any, spec: Any, plan: Any, *code: Any, **more: Any) -> Any:
        while not (sent := sound(pipeline, spec, plan, *code, **more)):
            plan = replace(plan, number=plan.number + 1)
        return sent

    patch.setattr(rounds, "_send", send)


def two_watchers(patch: pytest.MonkeyPatch) -> None:
    """A watcher enqueues what was lost at its last look, whatever others have enqueued since."""

    def enqueue(self: wait.Repairs, status: Status) -> None:
        watched = self._job
        send_again(watched.site, watched.spec, watched.ledger.listing(), status.chunks.lost)

    patch.setattr(wait.Repairs, "enqueue", enqueue)
