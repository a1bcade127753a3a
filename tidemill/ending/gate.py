"""Who tells the end of a job, so that it is told once, or twice if its teller dies with the work half done.

A teller creates `told/r<round>~<n>` before it sends, and `told/r<round>.sent` when the receiver has the message. While
the newest of the former is young, others leave the message to its writer. One that has grown old without the latter is
of a teller that died or failed: the next one tries again, `TELLERS` times at most.
"""

from __future__ import annotations

import json
import re
import secrets
import time
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


def tell(store: Store, message: Message, by: str, send: Send) -> str:
    """Tell the end of a job, unless that was done or another one does it.

    Args:
        store: The job store.
        message: What there is to tell.
        by: Who tells, for people.
        send: Sends it.

    Returns:
        `sent`, `sending`, or why the message was not sent.
    """
    job, _, number = message.id.rpartition("/r")
    names = {entry.name.rpartition("/")[2]: entry for entry in store.entries(layout.told(job))}
    if f"r{number}.sent" in names:
        return "sent"
    found = [entry for name, entry in names.items() if (claim := _CLAIM.match(name)) and claim[1] == number]
    if found and time.time() - max(entry.modified for entry in found) < TELLER_SECONDS:
        return _failure(store, job, number, len(found)) or "sending"
    if len(found) >= TELLERS:
        return _failure(store, job, number, len(found)) or "its senders died"
    note = {"by": by, "at": datetime.now(UTC).isoformat(timespec="seconds"), "nonce": secrets.token_hex(8)}
    if not store.create(layout.told_claim(job, int(number), len(found)), json.dumps(note).encode()).ours:
        return "sending"
    try:
        send(message)
    except UntoldError as error:
        store.put(f"{layout.told_claim(job, int(number), len(found))}.failed", str(error).encode())
        return str(error)
    store.put(layout.told_sent(job, int(number)), b"")
    return "sent"


def _failure(store: Store, job: str, number: str, claims: int) -> str:
    data = store.find(f"{layout.told_claim(job, int(number), claims - 1)}.failed")
    return (data or b"").decode(errors="replace")
