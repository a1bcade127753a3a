"""The machines that work on jobs, as the markers of attempts on chunks name them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any

from tidemill import layout
from tidemill.client.site import Site
from tidemill.errors import decoding
from tidemill.job import JobSpec
from tidemill.ledger import Ledger
from tidemill.ledger.attempts import is_alive
from tidemill.store import Entry

MARKERS = 1000
"""Markers that are read of a job at most: the newest ones."""
_PARALLEL = 16


@dataclass(frozen=True)
class MachineRow:
    """A machine that works on jobs. Null is unknown.

    Attributes:
        id: Its name in the cloud; several workers of an unknown machine count as several.
        market: `spot` or `on_demand`.
        age_seconds: How long it has run.
        items: Items in flight, as its workers wrote down last.
        gpus: GPUs that these items hold.
        jobs: The jobs that it works on, in alphabetical order.
    """

    id: str | None
    type: str | None
    zone: str | None
    market: str | None
    age_seconds: float | None
    items: int
    gpus: int
    jobs: list[str]


def read_machines(site: Site, specs: Iterable[JobSpec]) -> list[MachineRow]:
    """The machines of jobs, the oldest first. One that vanished stays until its work is delivered again."""
    found: dict[str, list[tuple[JobSpec, dict[str, Any]]]] = defaultdict(list)
    for spec in specs:
        for marker in _running(Ledger(site.store, spec.job, spec.manifest)):
            found[(marker.get("machine") or {}).get("id") or marker["attempt"]].append((spec, marker))
    rows = [_row(some, site.account.now()) for some in found.values()]
    return sorted(rows, key=lambda row: (-(row.age_seconds or 0.0), row.id or ""))


def _running(ledger: Ledger) -> Iterator[dict[str, Any]]:
    """The markers of attempts that have not ended."""
    listing, store = ledger.listing(), ledger.store
    folders = [layout.of_round(ledger.job, round_.round, "attempts") for round_ in listing.rounds]
    newest: dict[int, Entry] = {}
    for entry in chain.from_iterable(map(store.entries, folders)):
        chunk = int(entry.name.split("/")[-2])
        if chunk in listing.waiting and (chunk not in newest or entry.modified >= newest[chunk].modified):
            newest[chunk] = entry
    names = [entry.name for entry in sorted(newest.values(), key=lambda entry: -entry.modified)[:MARKERS]]
    with ThreadPoolExecutor(_PARALLEL) as pool:
        for name, data in zip(names, pool.map(store.find, names), strict=True):
            with decoding(store.uri_of(name)):
                marker = json.loads(data or b"{}")
                if data and marker["ended"] is None and (not marker.get("beats") or is_alive(marker)):
                    yield marker


def _row(some: list[tuple[JobSpec, dict[str, Any]]], now: float) -> MachineRow:
    machine = some[0][1].get("machine") or {}
    booted = machine.get("booted_at")
    age = None if booted is None else round(max(0.0, now - datetime.fromisoformat(booted).timestamp()), 1)
    return MachineRow(
        id=machine.get("id"),
        type=machine.get("type"),
        zone=machine.get("zone"),
        market=machine.get("market"),
        age_seconds=age,
        items=sum(len(marker["in_flight"]) for _, marker in some),
        gpus=sum(len(marker["in_flight"]) * spec.resources.gpus for spec, marker in some),
        jobs=sorted({spec.job for spec, _ in some}),
    )
