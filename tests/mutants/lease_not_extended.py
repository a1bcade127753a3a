"""Mutant: a lease is held only as long as the subscription grants it. Starts the worker."""

import runpy

from tests.worker import hasty
from tidemill.services.pubsub.lease import holder


def apply() -> None:
    holder.Holder.hold = lambda self, ack_id: None  # type: ignore[method-assign]


if __name__ == "__main__":
    hasty.apply()
    apply()
    runpy.run_module("tidemill.worker", run_name="__main__")
