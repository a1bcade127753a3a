"""The saved state of a job's items: how much there is, and if a notice is long enough to save it."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

from tidemill.figures import duration
from tidemill.job import JobSpec
from tidemill.ledger import Ledger, Listing

if TYPE_CHECKING:
    from tidemill.client.site import Site
    from tidemill.state import Snapshot

LOOKED_AT = 16
"""Items whose snapshots are read."""
SPARE_SECONDS = 10.0
"""Seconds of a notice that a worker keeps for itself (`tidemill.worker.items.item_state`)."""
_MEASURABLE = 2**20


@dataclass(frozen=True)
class SavedState:
    """The recent snapshots of some running items, added up.

    Attributes:
        items: How many were looked at.
        saved: Those of them that have a snapshot.
        oldest_seconds: Age of the oldest of their newest snapshots.
        largest_bytes: The largest state.
        save_seconds: How long it takes to send all of that state, at the rate that was measured; None if that is not
            known.
        notice_seconds: How long a notice is on this cloud; None where there is none.
        open: Files that are written all the time, and may end anywhere in a snapshot.
    """

    items: int
    saved: int
    oldest_seconds: float | None
    largest_bytes: int
    save_seconds: float | None
    notice_seconds: float | None
    open: list[str]

    @property
    def too_large(self) -> bool:
        """True if a notice is too short to save all of the state."""
        if self.save_seconds is None or self.notice_seconds is None:
            return False
        return self.save_seconds > self.notice_seconds - SPARE_SECONDS

    def facts(self) -> dict[str, object]:
        """Rows of a table."""
        table: dict[str, object] = {"state saved": f"{self.saved} of {self.items} items looked at"}
        if self.oldest_seconds is not None:
            size = f"{self.largest_bytes / 2**20:.1f} MiB at most"
            table["state saved"] = f"{table['state saved']}, {duration(self.oldest_seconds)} ago at most, {size}"
        if self.open:
            names = ", ".join(self.open)
            table["always open"] = f"{names}: saved as they were; create .commit when the state is complete"
        if self.too_large:
            table["too large"] = (
                f"the state takes {duration(self.save_seconds or 0)} to save, and a notice is "
                f"{duration(self.notice_seconds or 0)}: a reclaim may cost what was computed since the last snapshot"
            )
        return table


def look_at_state(ledger: Ledger, spec: JobSpec, listing: Listing, site: Site) -> SavedState | None:
    """Read the newest snapshots of some items that have no outcome; None where there are none, or no state."""
    if spec.state is None or not listing.waiting:
        return None
    from tidemill.state import Snapshots

    index = ledger.index()
    items = [index.frame(chunk).first for chunk in islice(sorted(listing.waiting), LOOKED_AT)]
    with ThreadPoolExecutor(LOOKED_AT) as pool:
        snapshots = list(pool.map(lambda item: Snapshots(ledger.store, spec.job, item).recent(), items))
    return summed_up(snapshots, site.service(spec.queue).notice_seconds, site.account.at())


def summed_up(snapshots: Iterable[list[Snapshot]], notice_seconds: float | None, now: datetime) -> SavedState:
    """Add up the recent snapshots of some items."""
    recent = list(snapshots)
    newest = [one for each in recent if (one := next((s for s in each if s.kind == "snapshot"), None))]
    sizes = [(snapshot.tree.size, _save_seconds(snapshot)) for snapshot in newest]
    largest = max(sizes, key=lambda pair: pair[0], default=(0, None))
    # The clock of a machine may be ahead.
    ages = [max(0.0, (now - datetime.fromisoformat(snapshot.at)).total_seconds()) for snapshot in newest]
    return SavedState(
        items=len(recent),
        saved=len(newest),
        oldest_seconds=round(max(ages), 1) if ages else None,
        largest_bytes=largest[0],
        save_seconds=largest[1],
        notice_seconds=notice_seconds,
        open=sorted({path for snapshot in newest for path in snapshot.open}),
    )


def _save_seconds(snapshot: Snapshot) -> float | None:
    if snapshot.bytes < _MEASURABLE or not snapshot.seconds:
        return None
    return round(snapshot.tree.size / snapshot.bytes * snapshot.seconds, 1)
