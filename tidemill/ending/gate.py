"""Who tells the end of a job, so that it is told once, or twice if its teller dies with the work half done.

A teller creates `told/r<round>~<n>` before it sends, and `told/r<round>.sent` when the receiver has the message. While
the newest of the former is young, others leave the message to its writer. One that has grown old without the latter is
of a teller that died or failed: the next one tries again, `TELLERS` times at most.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable
from datetime import UTC, datetime

from tidemill import layout
from tidemill.ending.message import Message
from tidemill.store import Store

TELLER_SECONDS = 120.0
"""A teller has failed, or died, when it has not sent its message after so long. It gives up much earlier."""
TELLERS = 3
_CLAIM = re.compile(r"r(\d+)~(\d+)$")


class UntoldError(Exception):
    """The receiver did not take a message. Its text never holds an address."""


Send = Callable[[Message], None]
"""Sends a message within bounds, or raises `UntoldError`."""


def tell(store: Store, message: Message, by: str, send: Send, refusal: Callable[[], str] = str) -> str:
    """Tell the end of a job, unless that was done or another one does it.

    Args:
        store: The job store.
        message: What there is to tell.
        by: Who tells, for people.
        send: Sends it.
        refusal: Says why this teller may not send it, and leaves it to others; empty where it may.

    Returns:
        `sent`, `sending`, or why the message was not sent.
    """
    job, _, number = message.id.rpartition("/r")
    claims, status = _claimed(store, job, number)
    if status := status or refusal():
        return status
    note = {"by": by, "at": datetime.now(UTC).isoformat(timespec="seconds"), "nonce": secrets.token_hex(8)}
    if not store.create(layout.told_claim(job, int(number), claims), json.dumps(note).encode()).ours:
        return "sending"
    try:
        send(message)
    except UntoldError as error:
        store.put(f"{layout.told_claim(job, int(number), claims)}.failed", str(error).encode())
        return str(error)
    store.put(layout.told_sent(job, int(number)), b"")
    return "sent"


def _claimed(store: Store, job: str, number: str) -> tuple[int, str]:
    """How many tellers a round has had, and why no other one is wanted now; empty where one is."""
    names = {entry.name.rpartition("/")[2]: entry for entry in store.entries(layout.told(job))}
    if f"r{number}.sent" in names:
        return 0, "sent"
    claims = [entry for name, entry in names.items() if (claim := _CLAIM.match(name)) and claim[1] == number]
    if claims and _now(store, job) - max(entry.modified for entry in claims) < TELLER_SECONDS:
        return len(claims), _failure(store, job, number, len(claims)) or "sending"
    if len(claims) >= TELLERS:
        return len(claims), _failure(store, job, number, len(claims)) or "its senders died"
    return len(claims), ""


def _now(store: Store, job: str) -> float:
    """The store's own time, which its claims have: the caller's clock may be minutes ahead."""
    store.put(layout.told_now(job), b"")
    return max(entry.modified for entry in store.entries(layout.told(job)))


def _failure(store: Store, job: str, number: str, claims: int) -> str:
    data = store.find(f"{layout.told_claim(job, int(number), claims - 1)}.failed")
    return (data or b"").decode(errors="replace")
