"""Maps errors to a worker's exit codes, which the queue's retry rules read."""

from __future__ import annotations

from tidemill.descriptor import WorkerExit
from tidemill.errors import CallerError, DamagedError, StoreError
from tidemill.ledger.documents import TamperedError, UnreadableError

EXPECTED = (CallerError, StoreError, OSError)
"""Errors that end a worker in an orderly way; any other is a bug of the worker and is raised."""


def exit_of(error: BaseException) -> WorkerExit:
    """`STOPPED` if another attempt would fail in the same way, and otherwise `STORE_UNAVAILABLE`."""
    if isinstance(error, (CallerError, DamagedError, TamperedError, UnreadableError)):
        return WorkerExit.STOPPED
    return WorkerExit.STORE_UNAVAILABLE
