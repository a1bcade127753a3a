"""A queue on Pub/Sub in the descriptor."""

from __future__ import annotations

from typing import Any, Protocol

import pulumi

from ...config import Queue
from ...describe import queue_block
from .keys import types


class WorkerPool(Protocol):
    """The part of a queue on GCP that the descriptor describes."""

    topic: pulumi.Output[str]
    subscription: pulumi.Output[str]
    dead_letters: pulumi.Output[str]


def described(settings: Queue, pool: WorkerPool, image: pulumi.Input[str]) -> dict[str, Any]:
    """A queue on GCP in the descriptor; ``image`` is the reference that its machines pull."""
    names = {"topic": pool.topic, "subscription": pool.subscription, "dead_letters": pool.dead_letters}
    return {**queue_block(settings, {"default": {"ref": image}}, types(settings)), "gcp": names}
