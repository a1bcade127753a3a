"""Dead letters: chunks that Pub/Sub has put aside because they reached the delivery limit.

They wait in a subscription of their own, which only this module reads: pull, look, give back. Two readers at once do
not see each other's letters. https://cloud.google.com/pubsub/docs/handling-failures
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tidemill.clouds.gcp.messages import EMPTY_PULLS, acknowledge, give_back, pull
from tidemill.clouds.gcp.session import GoogleSession
from tidemill.services.backend import DeadLetter

MOST = 20_000
"""Letters read at once; when there are more, the rest is seen when these are gone."""
DELIVERIES = "CloudPubSubDeadLetterSourceDeliveryCount"


def look(session: GoogleSession, subscription: str) -> dict[str, list[DeadLetter]]:
    by_job: dict[str, list[DeadLetter]] = {}
    with _held(session, subscription) as messages:
        for message in messages.values():
            if letter := _letter(message):
                by_job.setdefault(message["attributes"]["job"], []).append(letter)
    return {job: sorted(set(letters), key=lambda one: (one.round, one.chunk)) for job, letters in by_job.items()}


def forget(session: GoogleSession, subscription: str, job: str, wanted: Callable[[DeadLetter], bool]) -> int:
    """Acknowledge letters of a job; returns how many."""
    with _held(session, subscription) as messages:
        gone = [
            ack
            for ack, message in messages.items()
            if (letter := _letter(message)) and message["attributes"]["job"] == job and wanted(letter)
        ]
        acknowledge(session, subscription, gone)
        for ack in gone:
            del messages[ack]
    return len(gone)


@contextmanager
def _held(session: GoogleSession, subscription: str) -> Iterator[dict[str, dict[str, Any]]]:
    held: dict[str, dict[str, Any]] = {}
    empty = 0
    try:
        while empty < EMPTY_PULLS and len(held) < MOST:
            received = pull(session, subscription)
            empty = 0 if received else empty + 1
            held |= received
        yield held
    finally:
        give_back(session, subscription, list(held))


def _letter(message: dict[str, Any]) -> DeadLetter | None:
    """The letter of a message; None if no submit of ours published it."""
    labels = message.get("attributes", {})
    try:
        count = labels.get(DELIVERIES, "0")
        return DeadLetter(int(labels["round"]), int(labels["chunk"]), int(count)) if labels["job"] else None
    except (KeyError, ValueError):
        return None
