"""Mutant: what was published before a submit broke off is not looked up."""

from tidemill.backends import ArrayState
from tidemill.backends.gcp.pubsub import GcpPubSub
from tidemill.descriptor import Queue


def none(self: GcpPubSub, queue: Queue, job: str, round_: int | None = None) -> list[ArrayState]:
    return []


def apply() -> None:
    GcpPubSub.describe = none  # type: ignore[method-assign]
