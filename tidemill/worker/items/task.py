"""An item to run, and what its runner tells about its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tidemill.errors import StoreUnavailableError
from tidemill.job import Item, JobSpec
from tidemill.ledger import Outcome
from tidemill.worker.items.store_waits import StoreWaits
from tidemill.worker.machine.stop import Stop
from tidemill.worker.output import LineWatch


def reader(job: str, round_: int) -> str:
    """A round of a job as a reader of what others have left: they may run again before its next round."""
    return f"{job}/r{round_}"


@dataclass(slots=True)
class Task:
    """An item to run, and where it belongs."""

    job: str
    chunk: int
    lease_id: str
    """Of the chunk's lease: part of output names and log lines."""
    spec: JobSpec
    item: Item
    output_prefix: str
    """URI under which the job's outputs go, without a trailing slash."""
    base_env: Mapping[str, str]
    """The program's environment without the item's own variables."""
    stop: Stop = field(default_factory=Stop)
    """Ends it."""
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Where the job's named inputs are."""
    watch: LineWatch | None = None
    """Looks at what it prints."""
    waits: StoreWaits = field(default_factory=StoreWaits)
    """Adds up how long slots wait for the store."""
    round: int = 0
    run: str = ""
    """Who handed its chunk out, where that is not the cloud."""
    attempt: int = 1
    """Its first attempt here: more than 1 when outputs of earlier ones could not be uploaded, or memory was short."""
    more_attempts: int = 0
    """Attempts in addition to the job's: those that were killed for memory, and had less of it."""
    more_memory_mib: int | None = None
    """Memory of another attempt here, if this one is killed for memory; None where there is no more."""
    overlaps: bool = True
    """True if its outputs may be uploaded while its slot has another item."""

    @property
    def reader(self) -> str:
        """Who reads its input."""
        return reader(self.job, self.round)

    @property
    def last_attempt(self) -> int:
        return self.spec.attempts + self.more_attempts

    def grows(self, outcome: Outcome) -> bool:
        """True if an item that has failed so runs again with more memory."""
        return outcome.reason == "memory" and self.more_memory_mib is not None

    @property
    def labels(self) -> dict[str, object]:
        return {"job": self.job, "chunk": self.chunk, "item": self.item.index, "lease": self.lease_id}

    def prefix(self, attempt: int) -> str:
        """URI under which an attempt's outputs go, with a trailing slash."""
        return f"{self.output_prefix}/{self.item.index}/{self.lease_id}.{attempt}/"


class OutcomeSink(Protocol):
    """Is called with outcomes, and told of outputs that are on their way; from any thread."""

    def __call__(self, outcome: Outcome) -> None:
        """An item has its outcome."""

    def sending(self, task: Task) -> None:
        """An item's program has succeeded, and its outputs are on their way. A call or `again` follows."""

    def unavailable(self, task: Task, error: StoreUnavailableError) -> None:
        """The store took no outputs, which is not the item's fault: the worker ends."""

    def again(self, task: Task, attempt: int, memory_mib: int | None = None) -> None:
        """It needs another attempt: its outputs could not be sent, or it needs so much memory."""
