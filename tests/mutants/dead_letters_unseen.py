"""Mutant: dead letters are never checked."""

from tidemill.backends import DeadLetter
from tidemill.backends.gcp.pubsub import GcpPubSub
from tidemill.descriptor import Queue


def none(self: GcpPubSub, queue: Queue, job: str) -> list[DeadLetter]:
    return []


def apply() -> None:
    GcpPubSub.dead_letters = none  # type: ignore[method-assign]
