"""Facts of Pub/Sub and Monitoring: a topic, its subscription and its backlog."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.explain.facts import CloudFacts
from tidemill.services.pubsub import SERVICE


@dataclass(frozen=True)
class PubSubQueue:
    """A topic and its subscription.

    Attributes:
        topic: Its full name; empty when the descriptor names none.
        subscription: Its full name.
        topic_there: Whether it is there.
        reads: The topic that the subscription reads; None when there is no subscription.
    """

    topic: str = ""
    subscription: str = ""
    topic_there: bool = False
    reads: str | None = None


@dataclass(frozen=True)
class GcpFacts(CloudFacts):
    """Facts from Pub/Sub and Monitoring. None means that it could not be seen.

    Attributes:
        backlog: Messages that are not done, leased ones included, those of other jobs too.
        backlog_at: When that was sampled.
        oldest: Age of the oldest of them in seconds.
    """

    service = SERVICE
    queue: PubSubQueue | None = None
    backlog: int | None = None
    backlog_at: float = 0.0
    oldest: float | None = None
