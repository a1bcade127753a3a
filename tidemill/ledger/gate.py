"""The gate of a job: other jobs that must be complete before its first item runs.

The first participant that finds them complete creates the object `begun`: a worker on AWS Batch, the reconciler on GCP,
a client anywhere. From then on the job runs, whatever happens to the others. So a job of many containers looks at the
others once, and a retry of another job does not stop it half-way.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from tidemill import layout
from tidemill.completion import Hindrance, gone, hindrance
from tidemill.errors import StoreMissingError, decoding
from tidemill.job import JobSpec, Predecessor
from tidemill.ledger.ledger import Ledger
from tidemill.ledger.listing import Listing
from tidemill.store import Store


@dataclass(frozen=True)
class UnfinishedJob:
    """Another job that is not complete yet.

    Attributes:
        job: Its id.
        ended: Its items with an outcome; those that run again do not count until they have a new one.
        items: All of its items.
    """

    job: str
    ended: int
    items: int

    def words(self) -> str:
        """`tiles-0123abcd (3 of 8 items)`."""
        return f"{self.job} ({self.ended} of {self.items} items)"


@dataclass(frozen=True)
class Gate:
    """The jobs that a job waits for at one moment."""

    waits: list[UnfinishedJob]
    never: Hindrance | None = None

    @property
    def open(self) -> bool:
        return not self.waits and self.never is None

    def words(self) -> str:
        """`waits for tiles-0123abcd (3 of 8 items)`."""
        if self.never:
            return f"can never begin: {self.never.why}"
        return f"waits for {' and '.join(each.words() for each in self.waits)}"


def look(store: Store, after: Sequence[Predecessor]) -> Gate:
    """Look at the jobs that another one waits for, by listings of their names."""
    unmet = [_look_at(store, each) for each in after]
    never = next((each for each in unmet if isinstance(each, Hindrance)), None)
    return Gate([each for each in unmet if isinstance(each, UnfinishedJob)], never)


def _look_at(store: Store, after: Predecessor) -> UnfinishedJob | Hindrance | None:
    """The missing part of another job; None when it is complete."""
    try:
        listing = Ledger(store, after.job).listing()
    except StoreMissingError:
        return gone(after.job)
    counts = listing.counts
    never = hindrance(
        after.job,
        counts.items,
        counts.failed,
        finished=counts.finished,
        cancelled=counts.cancelled,
        success=after.success,
    )
    if never or counts.finished:
        return never
    return UnfinishedJob(after.job, _ended(listing), counts.items)


def _ended(listing: Listing) -> int:
    counts, again = listing.counts, listing.again
    return counts.succeeded + counts.failed - (again.items - again.ended if again else 0)


def begun_at(store: Store, spec: JobSpec) -> datetime | None:
    """Since when a job may run: the time of its submit, where it waits for nothing. None while it waits."""
    if not spec.after:
        return spec.created_at
    name = layout.begun(spec.job)
    data = store.find(name)
    if data is None:
        return None
    with decoding(store.uri_of(name)):
        return datetime.fromisoformat(json.loads(data)["at"])


def never_begins(store: Store, spec: JobSpec) -> bool:
    """True if a job has not begun and never will, because nothing brings back a job that it waits for."""
    never = None if begun_at(store, spec) is not None else look(store, spec.after).never
    return never is not None and not never.fix


def begin(store: Store, job: str, by: str, at: datetime | None = None) -> bool:
    """Note that a job runs from now on. False when another participant had noted it before.

    Args:
        store: The job store.
        job: The job's id.
        by: Who found the others complete, for people.
        at: When, by the cloud's clock; None for that of this machine of the cloud.
    """
    stamp = (at or datetime.now(UTC)).isoformat(timespec="milliseconds")
    return store.create(layout.begun(job), json.dumps({"at": stamp, "by": by}).encode()).ours
