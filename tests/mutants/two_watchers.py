"""Mutant: a watcher enqueues what was lost at its last look, whatever others have enqueued since."""

from __future__ import annotations

from tidemill.client import Status, job
from tidemill.client.rounds import send_again


def enqueue(self: job._Repairs, status: Status) -> None:
    watched = self._job
    send_again(watched._site, watched.spec, watched._ledger.snapshot(), status.chunks.lost)


def apply() -> None:
    job._Repairs.enqueue = enqueue  # type: ignore[method-assign]
