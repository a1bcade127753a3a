"""Mutant: what was published before a submit broke off is not looked up."""

from tidemill.descriptor import Queue
from tidemill.services.backend import ArrayState
from tidemill.services.pubsub.backend import GcpPubSub


def none(self: GcpPubSub, queue: Queue, job: str, round_: int | None = None) -> list[ArrayState]:
    return []


def apply() -> None:
    GcpPubSub.describe = none  # type: ignore[method-assign]
