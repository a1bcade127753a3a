"""The message at a job's end. It holds ids and counts, never words of an item or a program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tidemill.figures import counted
from tidemill.job import JobSpec
from tidemill.ledger import Listing

State = Literal["succeeded", "failed", "cancelled", "lost"]


@dataclass(frozen=True)
class Message:
    """The end of a round of a job.

    Attributes:
        id: The same for every copy of the message, so that a receiver can drop the second one: `tiles-0123abcd/r0`.
        state: `failed` when items have failed; `lost` when the rest of them will not be delivered.
        shared: Items that an earlier job has computed.
        by: Who cancelled it: a person's name in the cloud, or `worker`; empty for other ends.
        limit: Whether it was cancelled at its cost limit.
    """

    id: str
    job: str
    queue: str
    state: State
    items: int
    succeeded: int
    failed: int
    by: str = ""
    limit: bool = False
    shared: int = 0

    @property
    def subject(self) -> str:
        """`tiles-0123abcd succeeded`."""
        return f"{self.job} {'was cancelled' if self.state == 'cancelled' else _VERBS[self.state]}"

    @property
    def text(self) -> str:
        """A line for people, with what to type next."""
        done = (
            f"{self.succeeded + self.failed} of {counted(self.items, 'item')} have ended, {self.failed} of them failed"
        )
        if self.state == "succeeded":
            shared = f", {self.shared} of them shared with earlier jobs" if self.shared else ""
            return f"{self.subject}: {counted(self.items, 'item')}{shared}. `tidemill report {self.job}`"
        if self.state == "failed":
            return (
                f"{self.subject}: {self.failed} of {counted(self.items, 'item')} failed. `tidemill failures {self.job}`"
            )
        if self.state == "lost":
            return f"{self.subject}: {done}. `tidemill explain {self.job}`"
        # Workers write down a last time what they have finished when they see that it was cancelled.
        done = f"at least {done}"
        how = " at its cost limit" if self.limit else " by its workers" if self.by == "worker" else f" by {self.by}"
        return f"{self.subject}{how if self.by or self.limit else ''}: {done}. `tidemill status {self.job}`"

    @property
    def fields(self) -> dict[str, str]:
        """Its figures, for programs."""
        counts = {"items": self.items, "succeeded": self.succeeded, "failed": self.failed}
        counts |= {"shared": self.shared} if self.shared else {}
        return {"id": self.id, "job": self.job, "queue": self.queue, "state": self.state} | {
            key: str(value) for key, value in counts.items()
        }


_VERBS = {"succeeded": "succeeded", "failed": "failed", "lost": "cannot finish"}


def message_of(spec: JobSpec, listing: Listing, *, lost: bool = False) -> Message | None:
    """The message about a job's end; None while it has not ended.

    Args:
        spec: The job's.
        listing: Its names.
        lost: The rest of it will not be delivered, and no one repairs that.
    """
    counts, tombstone = listing.counts, listing.cancellation or {}
    state: State
    if counts.finished:
        state, tombstone = "failed" if counts.failed else "succeeded", {}
    elif counts.cancelled:
        state = "cancelled"
    elif lost:
        state = "lost"
    else:
        return None
    by = "".join(char for char in str(tombstone.get("by", "")) if char.isalnum() or char in "._-@")[:100]
    id_ = f"{spec.job}/r{max(0, counts.rounds - 1)}"
    ended = (counts.items, counts.succeeded, counts.failed)
    return Message(id_, spec.job, spec.queue, state, *ended, by=by, limit="max_usd" in tombstone, shared=counts.shared)
