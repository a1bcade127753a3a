"""Mutant: a watcher enqueues what was lost at its last look, whatever others have enqueued since."""

from __future__ import annotations

from tidemill.client import Status
from tidemill.client.rounds.rounds import send_again
from tidemill.client.watch import wait


def enqueue(self: wait.Repairs, status: Status) -> None:
    watched = self._job
    send_again(watched.site, watched.spec, watched.ledger.listing(), status.chunks.lost)


def apply() -> None:
    wait.Repairs.enqueue = enqueue  # type: ignore[method-assign]
