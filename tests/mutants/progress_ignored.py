"""Mutant: a worker restarts a chunk and ignores what an earlier attempt has finished. Starts the ordinary worker."""

import runpy

from tidemill.ledger import ChunkLedger, Outcome


def nothing(self: ChunkLedger) -> dict[int, Outcome]:
    return {}


def apply() -> None:
    ChunkLedger.progress = nothing  # type: ignore[method-assign]


if __name__ == "__main__":
    apply()
    runpy.run_module("tidemill.worker", run_name="__main__")
