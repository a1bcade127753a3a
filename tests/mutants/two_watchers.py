"""Mutant: a watcher enqueues what was lost at its last look, whatever others have enqueued since."""

from __future__ import annotations

from tidemill.client import Status, waiting
from tidemill.client.rounds import send_again


def enqueue(self: waiting.Repairs, status: Status) -> None:
    watched = self._job
    send_again(watched.site, watched.spec, watched.ledger.listing(), status.chunks.lost)


def apply() -> None:
    waiting.Repairs.enqueue = enqueue  # type: ignore[method-assign]
