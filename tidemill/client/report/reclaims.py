"""Cost of reclaims: reads the markers of the attempts that they ended, with the machine and time of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic_core import from_json

from tidemill import layout
from tidemill.client.report.model import ReclaimLoss
from tidemill.client.report.sampling import evenly
from tidemill.errors import decoding
from tidemill.ledger import Listing
from tidemill.store import Entry, Store, read_heads

MOST_READ = 2000
"""Markers that are read, evenly over the job. Where there are more, figures are scaled up."""
_LONGEST = 1024


@dataclass
class _Sum:
    reclaims: int = 0
    held: float = 0.0
    lost: float = 0.0


def drained_of(store: Store, job: str, listing: Listing) -> list[Entry]:
    """The markers of a job's attempts that reclaims ended."""
    folders = (layout.of_round(job, each.round, "drained") for each in listing.rounds)
    return [entry for folder in folders for entry in store.entries(folder)] if listing.counts.reclaims else []


def read_reclaims(store: Store, drained: Sequence[Entry], most: int | None = None) -> list[ReclaimLoss]:
    """Reclaims by type and market of the machine, most frequent first. `most` is how many markers are read."""
    names, step = evenly([entry.name for entry in drained], most or MOST_READ)
    sums: defaultdict[tuple[str | None, str | None], _Sum] = defaultdict(_Sum)

    def take(position: int, data: bytes) -> None:
        with decoding(store.uri_of(names[position])):
            fields = from_json(data)
            machine = fields["machine"]
            one = sums[machine["type"], machine["market"]]
            one.reclaims, one.held, one.lost = one.reclaims + 1, one.held + fields["held"], one.lost + fields["lost"]

    read_heads(store, names, _LONGEST, take)
    losses = [
        ReclaimLoss(
            kind, market, round(one.reclaims * step), *(round(each * step / 3600, 4) for each in (one.held, one.lost))
        )
        for (kind, market), one in sums.items()
    ]
    return sorted(losses, key=lambda each: -each.reclaims)
