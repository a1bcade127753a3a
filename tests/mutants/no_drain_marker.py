"""Mutant: a draining worker leaves without a marker. Starts the ordinary worker."""

import runpy

from tidemill.ledger import MarkerWriter


def silent(self: MarkerWriter, *_: object) -> None:
    """Leave the marker in the store unchanged: it still says that the attempt is at work."""


def apply() -> None:
    MarkerWriter.drained = silent  # type: ignore[method-assign]


if __name__ == "__main__":
    apply()
    runpy.run_module("tidemill.worker", run_name="__main__")
