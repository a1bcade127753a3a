"""Messages of a subscription of Pub/Sub: pulls that do not wait, and requests that settle many messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidemill.clouds.gcp.session import GoogleSession

PULL = 1000
ACKS = 500
"""Acknowledge ids per request: each has about 200 bytes, and a request at most 512 KiB
(https://cloud.google.com/pubsub/quotas)."""
EMPTY_PULLS = 2
"""Pulls without a message that end the reading: a pull that returns at once may miss messages."""
_CONSUME = "pubsub.subscriptions.consume"


def pull(session: GoogleSession, subscription: str) -> dict[str, dict[str, Any]]:
    """At most `PULL` messages by their acknowledge ids."""
    body = {"maxMessages": PULL, "returnImmediately": True}
    answer = session.call("pubsub", "POST", f"v1/{subscription}:pull", body, action=_CONSUME)
    return {one["ackId"]: one.get("message", {}) for one in answer.get("receivedMessages", [])}


def acknowledge(session: GoogleSession, subscription: str, ids: Sequence[str]) -> None:
    """Remove messages for good."""
    _settle(session, f"{subscription}:acknowledge", ids, {})


def give_back(session: GoogleSession, subscription: str, ids: Sequence[str]) -> None:
    """Let messages be delivered again at once."""
    _settle(session, f"{subscription}:modifyAckDeadline", ids, {"ackDeadlineSeconds": 0})


def _settle(session: GoogleSession, path: str, ids: Sequence[str], more: dict[str, Any]) -> None:
    for start in range(0, len(ids), ACKS):
        body = {"ackIds": ids[start : start + ACKS], **more}
        session.call("pubsub", "POST", f"v1/{path}", body, action=_CONSUME)
