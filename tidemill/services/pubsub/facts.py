"""Reads facts from Pub/Sub and Monitoring about a queue, for `tidemill explain` and `tidemill doctor`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tidemill.clouds.findings import access_command
from tidemill.clouds.gcp.session import DeniedError, GoogleSession
from tidemill.descriptor import GcpQueue
from tidemill.errors import CloudError, one_line
from tidemill.explain.answer import Unseen
from tidemill.services.pubsub.backlog import METRIC, OLDEST, backlog
from tidemill.services.pubsub.model import GcpFacts, PubSubQueue

COMMAND = access_command("gs://")
T = TypeVar("T")


def read_queue(session: GoogleSession, queue: GcpQueue) -> PubSubQueue:
    """A topic and its subscription.

    Raises:
        CloudError: Pub/Sub does not tell.
    """
    if session.find(queue.topic, "pubsub.topics.get") is None:
        return PubSubQueue(queue.topic, queue.subscription)
    settings = session.find(queue.subscription, "pubsub.subscriptions.get")
    topic = None if settings is None else str(settings.get("topic", ""))
    return PubSubQueue(queue.topic, queue.subscription, True, topic)


class PubSubReader:
    """The calls of one look: four at most. What is denied, or does not answer, is noted in `unseen`."""

    def __init__(self, session: GoogleSession) -> None:
        self._session = session
        self.unseen: list[Unseen] = []

    def job(self, queue: GcpQueue | None) -> GcpFacts:
        """Everything about the queue of a job."""
        if queue is None:
            return GcpFacts(PubSubQueue())
        seen = self._guarded("pubsub.topics.get", lambda: read_queue(self._session, queue))
        name = queue.subscription
        waiting = self._guarded("monitoring.timeSeries.list", lambda: backlog(self._session, name, METRIC)) or []
        oldest = self._guarded("monitoring.timeSeries.list", lambda: backlog(self._session, name, OLDEST)) or []
        newest = max(waiting, default=None)
        return GcpFacts(
            seen,
            newest.backlog if newest else None,
            newest.at if newest else 0.0,
            float(max(oldest).backlog) if oldest else None,
        )

    def _guarded(self, action: str, ask: Callable[[], T]) -> T | None:
        try:
            return ask()
        except CloudError as error:
            command = (error.command or COMMAND) if isinstance(error, DeniedError) else ""
            seen = Unseen(action, one_line(error.problem), command)
            self.unseen += [] if seen in self.unseen else [seen]
            return None
