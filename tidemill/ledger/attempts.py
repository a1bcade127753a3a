"""Attempts on a chunk: who tried it, what was in flight when they ended, and what that says of an item.

A marker is written when a chunk is leased and names the items that start at once; afterwards it follows at the pace
of progress. When an earlier attempt ended without a trace, this one is *careful*: the marker is written before every
start and progress after every end. So a healthy chunk costs one request, and an item that kills its worker is named.

Where a chunk may be delivered a second time while it is being worked on (Pub/Sub), an attempt that has not ended need
not be dead: there its marker is written once a minute, a heartbeat.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tidemill.errors import decoding
from tidemill.ledger import names
from tidemill.store import Store

POISON_ATTEMPTS = 3
"""An item in flight in this many attempts that ended without commit, drain or notice is recorded as failed."""
MISSED_BEATS = 3
"""So many heartbeats late, an attempt has ended."""


@dataclass
class Past:
    """What earlier attempts on a chunk tell."""

    attempts: int = 0
    reclaims: Counter[int] = field(default_factory=Counter)
    """By item: drains that interrupted it."""
    deaths: Counter[int] = field(default_factory=Counter)
    """By item: attempts that ended without a trace while it was in flight."""
    careful: bool = False
    """Whether an earlier attempt ended without a trace."""

    @property
    def poison(self) -> set[int]:
        """Items that are not tried again."""
        return {item for item, count in self.deaths.items() if count >= POISON_ATTEMPTS}


def read_past(store: Store, place: names.Place) -> Past:
    """What earlier attempts on a chunk left."""
    past = Past()
    for name in store.list(names.attempts(place)):
        marker = store.find(name)
        if marker is None:
            continue
        past.attempts += 1
        with decoding(store.uri_of(name)):
            _count(past, json.loads(marker), store, place)
    return past


def _count(past: Past, marker: dict[str, Any], store: Store, place: names.Place) -> None:
    in_flight = marker.get("in_flight", [])
    drained = marker.get("ended") == "drained" or (
        marker.get("ended") is None and store.exists(names.drained(place, marker["attempt"]))
    )
    if drained:
        past.reclaims.update(in_flight)
    elif marker.get("ended") is None and not is_alive(marker):
        past.careful = True
        past.deaths.update(in_flight)


def is_alive(marker: dict[str, Any], now: datetime | None = None) -> bool:
    """Whether the heartbeat of an attempt's marker is recent. A clock that is ahead makes it look so, which only
    delays a judgement."""
    beats, at = marker.get("beats"), marker.get("at")
    if not beats or not at or marker.get("ended") is not None:
        return False
    return ((now or datetime.now(UTC)) - datetime.fromisoformat(at)).total_seconds() < MISSED_BEATS * beats


class MarkerWriter:
    """An attempt's own marker."""

    def __init__(
        self, store: Store, place: names.Place, attempt: str, *, delivery: int, backend: dict[str, Any]
    ) -> None:
        self._store, self._place, self.attempt = store, place, attempt
        self._name = f"{names.attempts(place)}/{attempt}"
        self._marker: dict[str, Any] = {
            "chunk": place.chunk,
            "attempt": attempt,
            "delivery": delivery,
            "started_at": _now(),
            "backend": backend,
            "in_flight": [],
            "ended": None,
        }

    def beats(self, seconds: float) -> None:
        """Say how often the marker is written while the attempt is alive."""
        self._marker["beats"] = seconds

    def write(self, in_flight: Collection[int]) -> None:
        """Say which items are in flight."""
        self._marker["in_flight"] = sorted(in_flight)
        self._put()

    def drained(self, in_flight: Collection[int]) -> None:
        """Say that this attempt ends by a drain, and which items it interrupts."""
        self._store.put(names.drained(self._place, self.attempt), b"")
        self._marker["ended"] = "drained"
        self.write(in_flight)

    def ended(self, how: str) -> None:
        """Say that this attempt ended in an orderly way that is neither a commit nor a drain."""
        self._marker["ended"] = how
        self._put()

    def _put(self) -> None:
        if "beats" in self._marker:
            self._marker["at"] = _now()
        self._store.put(self._name, json.dumps(self._marker, separators=(",", ":")).encode())


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
