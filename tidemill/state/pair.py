"""Which item of another job is the same as one of ours."""

from __future__ import annotations

import json

from tidemill.job import Item
from tidemill.manifest import ManifestIndex, read_chunk, read_items
from tidemill.store import Store


def key_of(item: Item) -> str:
    """Identity of an item, wherever it stands in its job: its name and its metadata."""
    return json.dumps([item.uri, item.meta], sort_keys=True)


def pair(store: Store, job: str, item: Item) -> int | None:
    """The index of the only item of a job that is the same; of several, the one at the same place.

    Raises:
        DamagedError: The manifest of the job is damaged.
        StoreMissingError: There is none: the job has expired.
    """
    index, key = ManifestIndex.load(store, job), key_of(item)
    if item.index < index.items:
        # Mostly both lists have the same order: then two short reads are enough.
        chunk = read_chunk(store, job, index.chunk_of(item.index))
        if key_of(chunk[item.index - chunk[0].index]) == key:
            return item.index
    indexes = [other.index for other in read_items(store, job, index) if key_of(other) == key]
    return indexes[0] if len(indexes) == 1 else None
