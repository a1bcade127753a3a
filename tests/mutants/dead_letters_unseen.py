"""Mutant: dead letters are never checked."""

from tidemill.descriptor import Queue
from tidemill.services.backend import DeadLetter
from tidemill.services.pubsub.backend import GcpPubSub


def none(self: GcpPubSub, queue: Queue, job: str) -> list[DeadLetter]:
    return []


def apply() -> None:
    GcpPubSub.dead_letters = none  # type: ignore[method-assign]
