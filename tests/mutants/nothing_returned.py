"""Mutant: a draining worker keeps its messages until their leases expire. Starts the worker."""

import runpy

from tests.worker import hasty
from tidemill.services.pubsub.lease import holder

CALL = holder.Holder._call


def call(self: holder.Holder, what: holder._What, ack_ids: list[str]) -> None:
    if what != "release":
        CALL(self, what, ack_ids)


def apply() -> None:
    holder.Holder._call = call  # type: ignore[method-assign]


if __name__ == "__main__":
    hasty.apply()
    apply()
    runpy.run_module("tidemill.worker", run_name="__main__")
