"""Leases: how a worker gets chunks. The loop knows only these two protocols; each backend implements them."""

from __future__ import annotations

from typing import Any, Protocol

from tidemill.ledger import Round


class Lease(Protocol):
    """A worker's temporary hold on a chunk."""

    job: str
    """The job's id."""
    round: int
    """The round that enqueued the chunk."""
    job_sha256: str | None
    """SHA-256 that `job.json` must have; None when the sender did not state it."""
    round_sha256: str | None
    """SHA-256 that `rounds/<r>.json` must have."""
    id: str
    """Unique; stored records and markers call it ``attempt``, log lines ``lease``."""
    delivery: int
    """How often the chunk was delivered, this time included, as far as the backend knows."""
    backend: dict[str, Any]
    """The backend's names for this run; kept in the records."""

    def chunk(self, round_: Round) -> int:
        """The chunk that is held, given the round it belongs to."""
        ...

    def extend(self) -> None:
        """Hold it longer; called every few seconds."""
        ...

    def progressed(self) -> None:
        """Outcomes were written: this delivery counts as useful, however it ends."""
        ...

    def ack(self) -> None:
        """It is done: its record stands in the store."""
        ...

    def release(self) -> None:
        """It is not done: another worker may have it at once."""
        ...

    def abandon(self) -> None:
        """Another worker has it already: it is held no longer, and no message is sent."""
        ...


class LeaseSource(Protocol):
    """Where leases come from."""

    many_jobs: bool
    """True if it serves many jobs for days: then no job ends the worker, and because only the worker knows that
    a chunk is being worked on, the attempt's marker says so."""

    def lease(self, wait_seconds: float) -> Lease | None:
        """The next chunk, or None when there is none now.

        Args:
            wait_seconds: How long to wait for one; 0 while the worker has other things to do.
        """
        ...

    @property
    def exhausted(self) -> bool:
        """True if no further lease will come."""
        ...

    def end(self) -> None:
        """Hand out nothing more."""
        ...

    def close(self) -> None:
        """Give back what is still held; the worker ends."""
        ...
