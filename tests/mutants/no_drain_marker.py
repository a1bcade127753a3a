"""Mutant: a worker that drains leaves without a word. Starts the ordinary worker."""

import runpy
from collections.abc import Collection

from tidemill.ledger import MarkerWriter


def silent(self: MarkerWriter, in_flight: Collection[int]) -> None:
    """What stands in the store is the marker of an attempt that is at work."""


def apply() -> None:
    MarkerWriter.drained = silent  # type: ignore[method-assign]


if __name__ == "__main__":
    apply()
    runpy.run_module("tidemill.worker", run_name="__main__")
