"""The note of a job's first item: how long the job waited for machines."""

from __future__ import annotations

import json
from datetime import datetime

from tidemill import layout
from tidemill.errors import decoding
from tidemill.job import JobSpec
from tidemill.ledger.gate import begun_at
from tidemill.store import Store


def note_first_item(store: Store, spec: JobSpec, at: datetime, attempt: str) -> float | None:
    """Note when an attempt has started an item, unless another one did before.

    Returns:
        Seconds since the submit, or since the jobs were complete that this one waited for; None where another attempt
        has noted them.
    """
    name = layout.first_item(spec.job)
    if store.exists(name):
        return None
    waited = round(max(0.0, (at - (begun_at(store, spec) or spec.created_at)).total_seconds()), 3)
    note = {"at": at.isoformat(timespec="milliseconds"), "waited_seconds": waited, "attempt": attempt}
    return waited if store.create(name, json.dumps(note).encode()).ours else None


def first_item_seconds(store: Store, job: str) -> float | None:
    """The seconds that `note_first_item` has noted; None while no item has started, and of a job of earlier workers."""
    name = layout.first_item(job)
    if (data := store.find(name)) is None:
        return None
    with decoding(store.uri_of(name)):
        return float(json.loads(data)["waited_seconds"])
