"""The tombstone of a job: who cancelled it, why, and which rounds it covers.

The first tombstone states how many rounds it covers. A later one that covers more adds an object per round, which is
only ever created: two people who cancel at once do not undo each other's work.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from tidemill import layout
from tidemill.store import Store

_UNREADABLE = {"by": "", "reason": "the tombstone cannot be read", "at": ""}
"""Stands for a damaged tombstone. Somebody did cancel, so it covers every round until another one replaces it."""


def bury(store: Store, job: str, rounds: int, *, by: str, reason: str, max_usd: float | None = None) -> None:
    """Write a tombstone for a job's first `rounds` rounds; `max_usd` is the limit that ended the job, if one did."""
    at = datetime.now(UTC).isoformat(timespec="seconds")
    fields: dict[str, Any] = {"by": by, "reason": reason, "at": at, "rounds": rounds}
    note = json.dumps(fields if max_usd is None else fields | {"max_usd": max_usd}).encode()
    created = store.create(layout.cancelled(job), note)
    tombstone = _parsed(created.content)
    if created.ours or (tombstone is not _UNREADABLE and _covers(tombstone, rounds - 1)):
        return
    for number in range(tombstone.get("rounds", 0), rounds):
        store.create(layout.cancelled_round(job, number), note)
    # The job's own object is read first, and a damaged one is replaced.
    store.put(layout.cancelled(job), note)


def covering(store: Store, job: str, data: bytes, number: int) -> dict[str, Any] | None:
    """The fields of the tombstone that covers a round (``by``, ``reason``, ``at``, ``max_usd``), or None. `data` is
    the job's."""
    note = _parsed(data)
    if _covers(note, number):
        return note
    own = store.find(layout.cancelled_round(job, number))
    return None if own is None else _parsed(own)


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        note = json.loads(data)
    except ValueError:
        return _UNREADABLE
    return note if isinstance(note, dict) else _UNREADABLE


def _covers(note: dict[str, Any], number: int) -> bool:
    return number < note.get("rounds", number + 1)
