"""Mutant: an item that kills every worker is run again without limit. Starts the ordinary worker."""

import runpy

from tidemill.ledger.attempts import History


def apply() -> None:
    History.poison = property(lambda self: set())  # type: ignore[assignment,method-assign]


if __name__ == "__main__":
    apply()
    runpy.run_module("tidemill.worker", run_name="__main__")
