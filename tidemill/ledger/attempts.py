"""Attempts on a chunk: who tried it, what was in flight when they ended, and what that tells about an item.

A marker is written when a chunk is leased and names the items that start at once; afterwards it follows at the pace
of progress. When an earlier attempt died, this one is *careful*: the marker is written before every start and progress
after every end. So a healthy chunk costs one request, and an item that kills its worker is named.

An item that is named when a worker dies is *suspected*, no more: another item may have been the cause. Only the
death of a worker on which nothing else was running is the item's own. So nothing becomes poison for the company that it
was in (ADR 24).

Where a chunk may be delivered a second time while it is being worked on (Pub/Sub), an attempt that has not ended need
not be dead: there its marker is written once a minute, a heartbeat.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tidemill import layout
from tidemill.errors import decoding
from tidemill.store import Store

POISON_ATTEMPTS = 3
"""An item that has ended this many attempts while it ran alone is recorded as failed."""
MISSED_BEATS = 3
"""Missed heartbeats after which an attempt has ended."""
REST_SECONDS = 1.1
"""Seconds between two writes to one name: Cloud Storage takes one per second (https://cloud.google.com/storage/quotas#objects)."""


@dataclass
class History:
    """History of a chunk: its earlier attempts, added up."""

    attempts: int = 0
    reclaims: Counter[int] = field(default_factory=Counter)
    """By item: drains that interrupted it."""
    suspected: Counter[int] = field(default_factory=Counter)
    """By item: attempts that died while it may have been running, alone or not."""
    deaths: Counter[int] = field(default_factory=Counter)
    """By item: attempts that it ended: the worker died while nothing else ran there, or failed on this very item."""
    errors: dict[int, str] = field(default_factory=dict)
    """By item: how the worker failed on it, where it lived to say so."""
    careful: bool = False
    """True if an earlier attempt died while something was in flight."""

    @property
    def poison(self) -> set[int]:
        return {item for item, count in self.deaths.items() if count >= POISON_ATTEMPTS}


def read_history(store: Store, keys: Iterable[layout.ChunkKey]) -> History:
    """Read the history of a chunk, given its key in each round whose attempts count."""
    history = History()
    for key in keys:
        newest = newest_markers(store, key)
        with decoding(store.uri_of(layout.attempts(key))):
            for marker in newest:
                history.attempts += 1
                _count(history, marker, store, key)
    return history


def newest_markers(store: Store, key: layout.ChunkKey) -> list[dict[str, Any]]:
    """The newest marker of each attempt on a chunk in a round."""
    newest: dict[str, dict[str, Any]] = {}
    for name in store.list(layout.attempts(key)):
        data = store.find(name)
        if data is None:
            continue
        with decoding(store.uri_of(name)):
            marker, attempt = json.loads(data), layout.attempt_of(name)
            if attempt not in newest or marker.get("writes", 0) > newest[attempt].get("writes", 0):
                newest[attempt] = marker
    return list(newest.values())


def _count(history: History, marker: dict[str, Any], store: Store, key: layout.ChunkKey) -> None:
    in_flight, ended = marker.get("in_flight", []), marker.get("ended")
    if ended == "broke":
        history.deaths.update(in_flight)
        history.errors.update({int(item): text for item, text in marker.get("errors", {}).items()})
    elif ended == "drained" or (ended is None and store.exists(layout.drained(key, marker["attempt"]))):
        history.reclaims.update(in_flight)
    elif ended is None and in_flight and not is_alive(marker):
        history.careful = True
        history.suspected.update(in_flight)
        if marker.get("alone"):
            history.deaths.update(in_flight)


def is_alive(marker: dict[str, Any], now: datetime | None = None) -> bool:
    """True if the heartbeat of an attempt's marker is recent. A clock that runs ahead only delays a judgement."""
    beats, at = marker.get("beats"), marker.get("at")
    if not beats or not at or marker.get("ended") is not None:
        return False
    return ((now or datetime.now(UTC)) - datetime.fromisoformat(at)).total_seconds() < MISSED_BEATS * beats


class MarkerWriter:
    """An attempt's own marker.

    Its first name is ``<attempt>``. What is written within a second of the write before goes to ``<attempt>.<n>``, and
    of all of them the one with the most ``writes`` counts.
    """

    def __init__(
        self,
        store: Store,
        key: layout.ChunkKey,
        attempt: str,
        *,
        delivery: int,
        backend: dict[str, Any],
        machine: dict[str, Any] | None = None,
    ) -> None:
        self._store, self._key, self.attempt = store, key, attempt
        self._name = f"{layout.attempts(key)}/{attempt}"
        self._written_at: list[float] = []
        self._marker: dict[str, Any] = {
            "chunk": key.chunk,
            "attempt": attempt,
            "delivery": delivery,
            "started_at": _now(),
            "backend": backend,
            "machine": machine,
            "writes": 0,
            "in_flight": [],
            "alone": False,
            "ended": None,
        }

    def beats(self, seconds: float) -> None:
        """Say how often the marker is written while the attempt is alive."""
        self._marker["beats"] = seconds

    def write(self, in_flight: Collection[int], *, alone: bool = False) -> None:
        """Say which items are in flight, and whether it is certain that nothing else runs on this worker."""
        self._marker |= {"in_flight": sorted(in_flight), "alone": alone}
        self._put()

    def drained(self, in_flight: Collection[int], told: Mapping[str, Any] | None = None) -> None:
        """Say that this attempt ends by a drain, which items it interrupts, and what the attempt was
        (`tidemill.ledger.digest.interrupted`)."""
        data = json.dumps(told, separators=(",", ":")).encode() if told else b""
        self._store.put(layout.drained(self._key, self.attempt), data)
        self._marker["ended"] = "drained"
        self.write(in_flight)

    def broke(self, errors: Mapping[int, str]) -> None:
        """Say that the worker lives but failed on some items in a way that nothing foresaw: how, by item."""
        self._marker |= {"ended": "broke", "errors": {str(item): text for item, text in errors.items()}}
        self.write(errors)

    def ended(self, how: str) -> None:
        """Say that this attempt ended in an orderly way that is neither a commit nor a drain."""
        self._marker["ended"] = how
        self._put()

    def _put(self) -> None:
        if "beats" in self._marker:
            self._marker["at"] = _now()
        self._marker["writes"] += 1
        now = time.monotonic()
        rested = (n for n, at in enumerate(self._written_at) if now - at >= REST_SECONDS)
        number = next(rested, len(self._written_at))
        self._written_at[number : number + 1] = [now]
        name = f"{self._name}.{number}" if number else self._name
        self._store.put(name, json.dumps(self._marker, separators=(",", ":")).encode())


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
