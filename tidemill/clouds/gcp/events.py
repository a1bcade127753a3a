"""Objects that have arrived in a bucket of Cloud Storage, from the subscription of its notifications.

https://cloud.google.com/storage/docs/pubsub-notifications
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidemill.clouds.events import ArrivedObject, EventBatch
from tidemill.clouds.gcp.account import GcpAccount
from tidemill.clouds.gcp.messages import EMPTY_PULLS, acknowledge, pull
from tidemill.clouds.gcp.session import GoogleSession
from tidemill.clouds.gcp.times import seconds
from tidemill.descriptor import Descriptor

_FINALIZE = "OBJECT_FINALIZE"


class GcpEvents:
    """A subscription, by its full name, used with the caller's own login."""

    def __init__(self, session: GoogleSession, subscription: str) -> None:
        self._session, self._subscription = session, subscription

    def take(self) -> EventBatch:
        """See `ArrivalEvents.take`."""
        for _ in range(EMPTY_PULLS):
            if messages := pull(self._session, self._subscription):
                found = (_object(message.get("attributes", {})) for message in messages.values())
                return EventBatch([each for each in found if each], list(messages))
        return EventBatch([], [])

    def forget(self, batch: EventBatch) -> None:
        """See `ArrivalEvents.forget`."""
        acknowledge(self._session, self._subscription, batch.receipts)


def _object(told: Mapping[str, Any]) -> ArrivedObject | None:
    """The object of a message; None if the message tells of none that is new."""
    try:
        if told["eventType"] != _FINALIZE:
            return None
        uri = f"gs://{told['bucketId']}/{told['objectId']}"
        return ArrivedObject(uri, told["objectGeneration"], seconds(told["eventTime"]))
    except (KeyError, ValueError):
        return None


def open_events(descriptor: Descriptor, queue: str) -> GcpEvents:
    return GcpEvents(GcpAccount(descriptor).session, queue)
