"""A worker's place: where it leases chunks, and what it knows of its machine. Its service makes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidemill.ledger.digest import UNKNOWN, RanOn
from tidemill.worker.chunks.endings import Publish, no_topics
from tidemill.worker.lease import LeaseSource
from tidemill.worker.metadata import Metadata
from tidemill.worker.secrets import OfJob, no_secrets


@dataclass(frozen=True)
class WorkerPlace:
    """Where a worker is: what its cloud gives it."""

    metadata: Metadata | None
    leases: LeaseSource
    lasts: Callable[[float], bool] = lambda seconds: True
    """True if the machine lasts so many seconds more."""
    machine: str = ""
    """Its name, where it has to say that it is alive."""
    facts: RanOn = UNKNOWN
    publish: Publish = no_topics
    secrets: OfJob = no_secrets
    replaced: bool = False
    """True if the service starts another worker here when one exits before its machine ends."""
