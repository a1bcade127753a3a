"""Mutant: a chunk is acknowledged before its record is in the store. Starts the worker."""

import runpy
import time

from tests.worker import hasty
from tidemill.ledger import Commit
from tidemill.worker.chunks.chunk import ChunkRun

commit = ChunkRun.commit


def acknowledged(self: ChunkRun) -> Commit:
    lease = self.lease
    self.leases.ack()
    # The acknowledgement has its own path; here it is always the faster one.
    messages = lease._finish.__self__._holder._messages  # type: ignore[attr-defined]
    while lease._ack_id in messages:  # type: ignore[attr-defined]
        time.sleep(0.01)
    return commit(self)


def apply() -> None:
    ChunkRun.commit = acknowledged  # type: ignore[method-assign]


if __name__ == "__main__":
    hasty.apply()
    apply()
    runpy.run_module("tidemill.worker", run_name="__main__")
