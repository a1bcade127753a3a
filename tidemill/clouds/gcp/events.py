"""Objects that have arrived in a bucket of Cloud Storage, from the subscription of its notifications.

https://cloud.google.com/storage/docs/pubsub-notifications
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidemill.clouds.events import ArrivedObject, EventBatch
from tidemill.clouds.findings import Finding
from tidemill.clouds.gcp.account import GcpAccount
from tidemill.clouds.gcp.messages import EMPTY_PULLS, acknowledge, pull
from tidemill.clouds.gcp.session import GoogleSession
from tidemill.clouds.gcp.times import seconds
from tidemill.descriptor import Arrival, Descriptor

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


def check_bucket(descriptor: Descriptor, check: str, arrival: Arrival) -> Finding:
    """See `bucket_finding`."""
    return bucket_finding(GcpAccount(descriptor).session, check, arrival)


def bucket_finding(session: GoogleSession, check: str, arrival: Arrival) -> Finding:
    """Check that a bucket has a notification for the topic of the arrivals.

    Raises:
        CloudError: Pub/Sub or Cloud Storage does not tell.
    """
    bucket, _, start = arrival.prefix.removeprefix("gs://").partition("/")
    subscription = session.call("pubsub", "GET", f"v1/{arrival.queue}", action="pubsub.subscriptions.get")
    path = f"storage/v1/b/{bucket}/notificationConfigs"
    listed = session.call("storage", "GET", path, action="storage.buckets.get").get("items", [])
    if any(_tells(each, subscription.get("topic", ""), start) for each in listed):
        return Finding(check, "ok", f"{bucket} tells of new objects")
    detail = f"{bucket} has no notification for {subscription.get('topic')}, so no file arrives"
    return Finding(check, "fault", detail, "pulumi up --refresh", owner=True)


def _tells(notification: Mapping[str, Any], topic: str, start: str) -> bool:
    """Source: https://cloud.google.com/storage/docs/json_api/v1/notifications#resource"""
    kinds, prefix = notification.get("event_types", [_FINALIZE]), notification.get("object_name_prefix", "")
    return notification.get("topic", "").endswith(f"/{topic}") and _FINALIZE in kinds and start.startswith(prefix)
