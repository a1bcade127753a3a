"""Notifications of Cloud Storage as the sender reads them, against fakes of Pub/Sub."""

from __future__ import annotations

from typing import Any, cast

from tidemill.clouds.events import ArrivedObject
from tidemill.clouds.gcp import messages
from tidemill.clouds.gcp.events import GcpEvents
from tidemill.clouds.gcp.session import GoogleSession

SUBSCRIPTION = "projects/p/subscriptions/tiles"


class Session:
    """Answers pulls in turn, then with nothing."""

    def __init__(self, *pulls: list[dict[str, str]]) -> None:
        self._pulls, self.calls = list(pulls), list[tuple[str, dict[str, Any]]]()

    def call(self, api: str, method: str, path: str, body: dict[str, Any], *, action: str) -> dict[str, Any]:
        self.calls.append((path, body))
        found = self._pulls.pop(0) if path.endswith(":pull") and self._pulls else []
        return {"receivedMessages": [{"ackId": f"a{n}", "message": {"attributes": a}} for n, a in enumerate(found)]}


def told(name: str, **changes: str) -> dict[str, str]:
    event = {"eventType": "OBJECT_FINALIZE", "eventTime": "2026-11-23T01:00:00.5Z", "objectGeneration": "7"}
    return {**event, "bucketId": "incoming", "objectId": name, **changes}


def test_new_objects_are_told_by_name_and_generation_and_the_rest_is_forgotten_with_them():
    session = Session([], [told("a b"), told("gone", eventType="OBJECT_DELETE"), {"other": "message"}])
    events = GcpEvents(cast(GoogleSession, session), SUBSCRIPTION)
    batch = events.take()
    assert batch.objects == [ArrivedObject("gs://incoming/a b", "7", 1795395600.5)]
    assert batch.receipts == ["a0", "a1", "a2"], "an empty pull may have missed some"
    events.forget(batch)
    assert session.calls[-1] == (f"v1/{SUBSCRIPTION}:acknowledge", {"ackIds": ["a0", "a1", "a2"]})
    assert events.take().receipts == []


def test_a_request_acknowledges_as_many_as_fit():
    session = Session()
    messages.acknowledge(cast(GoogleSession, session), SUBSCRIPTION, [str(n) for n in range(1001)])
    assert [len(body["ackIds"]) for _, body in session.calls] == [500, 500, 1]
