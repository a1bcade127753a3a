"""A queue on AWS Batch in the descriptor."""

from __future__ import annotations

from typing import Any, Protocol

import pulumi

from ...config import Queue
from ...describe import queue_block
from .keys import types


class BatchQueue(Protocol):
    """The part of a queue on AWS that the descriptor describes."""

    arn: pulumi.Output[str]
    markets: dict[str, pulumi.Output[str]]
    job_definitions: dict[str, pulumi.Output[str]]


def described(settings: Queue, queue: BatchQueue) -> dict[str, Any]:
    """A queue on AWS in the descriptor."""
    images = {
        name: {"ref": reference, "job_definition": queue.job_definitions[name]}
        for name, reference in settings.images.items()
    }
    return {**queue_block(settings, images, types(settings)), "aws": {"job_queue": queue.arn, "markets": queue.markets}}
