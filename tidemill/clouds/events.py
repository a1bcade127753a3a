"""Events of a bucket: objects that have arrived, as a queue of the cloud delivers them.

A queue may deliver an event twice, late and out of order, and again while it is not forgotten. The module `events` of a
cloud's folder has `open_events(descriptor, queue) -> ArrivalEvents` and `check_bucket(descriptor, check, arrival) ->
Finding`, which says whether the bucket tells of new objects at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class ArrivedObject(NamedTuple):
    """An object that has arrived.

    Attributes:
        uri: Its URI.
        tag: Its ETag on AWS, its generation on GCP: another content has another one.
        at: When it was written, in seconds since the epoch.
    """

    uri: str
    tag: str
    at: float


@dataclass(frozen=True)
class EventBatch:
    """Messages of a queue.

    Attributes:
        objects: The objects that they tell of; none for messages that tell of nothing else.
        receipts: What `forget` needs of the messages.
    """

    objects: Sequence[ArrivedObject]
    receipts: Sequence[str]


class ArrivalEvents(Protocol):
    """The queue of one bucket prefix. Each method may raise `CloudError`."""

    def take(self) -> EventBatch:
        """Messages that wait, without waiting for more; no receipts when there are none."""
        ...

    def forget(self, batch: EventBatch) -> None:
        """Remove messages from the queue. Those that are not removed are delivered again."""
        ...
