"""Backends: the only modules that know how a service queues chunks.

A backend is handed arrays of chunks and names; what an item is, what has finished and what must be run again is the
ledger's business. Every method may raise `tidemill.errors.CloudError`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemill.clouds.account import Account, LogLine, LogSearch
from tidemill.descriptor import Queue, Resources
from tidemill.job import Predecessor
from tidemill.services import Service

if TYPE_CHECKING:
    from tidemill.completion import StartLimit
    from tidemill.explain.answer import Unseen
    from tidemill.explain.facts import CloudFacts


@dataclass(frozen=True)
class ArrayAddress:
    """The address by which a worker finds an array's chunks in the store. Each backend encodes it in its own way.

    Attributes:
        job: The job's id.
        round: The round's number.
        array: The array's number in its round.
        spec_sha256: Of `job.json`: a worker refuses another one.
        round_sha256: Of the round's object.
    """

    job: str
    round: int
    array: int
    spec_sha256: str
    round_sha256: str


@dataclass(frozen=True)
class Array:
    """One array of chunks to enqueue.

    Attributes:
        name: `<job>-r<round>-a<k>`; the same name is the same array.
        chunks: At most as many as the service's `array_chunks`; child `i` is the i-th of them.
        address: Where a worker finds them.
    """

    name: str
    chunks: Sequence[int]
    address: ArrayAddress

    @property
    def size(self) -> int:
        return len(self.chunks)


@dataclass(frozen=True)
class Shape:
    """Settings that all arrays of a round share.

    Attributes:
        queue: The queue as the descriptor has it.
        image: Name of one of the queue's images.
        resources: Resources of one item.
        slots: Items that run side by side in one container; the container gets `slots` times the resources.
        user: Who submits; the queue shares its machines fairly among users.
        tags: Tags for cost reports and for the right to cancel.
        depends_on: Ids of arrays that must have succeeded before a container starts, where the queue can wait for them.
    """

    queue: Queue
    image: str
    resources: Resources
    slots: int
    user: str
    tags: dict[str, str]
    depends_on: Sequence[str] = ()


@dataclass(frozen=True)
class ArrayState:
    """An enqueued array, as far as the cloud still knows it.

    Attributes:
        states: Children by state: `waiting`, `starting`, `running`, `succeeded`, `failed`; empty where the cloud does
            not count them.
        ended: True when the cloud will start none of its children again.
        reason: The cloud's own words, if it has any.
    """

    name: str
    id: str
    size: int
    states: dict[str, int]
    ended: bool
    created_at: float = 0.0
    reason: str | None = None


@dataclass(frozen=True)
class QueueState:
    """A queue's state in the cloud.

    Attributes:
        accepting: It takes jobs.
        running: It starts the jobs that it has taken.
        detail: Its state in the cloud's words, with the reason where it does not run.
    """

    accepting: bool
    running: bool
    detail: str


@dataclass(frozen=True)
class DeadLetter:
    """A chunk that the queue has put aside because it was delivered as often as it may be.

    Attributes:
        deliveries: How often, as far as the cloud says.
    """

    round: int
    chunk: int
    deliveries: int


class Backend(ABC):
    """How chunks reach machines. A backend states what its cloud knows; the client decides what follows from it."""

    service: Service
    """The record of the service."""
    account: Account
    """Of the cloud that it is in."""
    has_packages = False
    """True if programs run in the caller's own Python, with its packages."""

    @abstractmethod
    def enqueue(self, shape: Shape, arrays: Sequence[Array]) -> None:
        """Hand arrays to the cloud. The caller checks first which arrays are already there."""

    def hold(self, shape: Shape, arrays: Sequence[Array], after: Sequence[Predecessor]) -> None:  # noqa: B027
        """Note arrays that are to be enqueued once other jobs are complete, where something other than a client does
        that. By default a client does."""

    def limit_start(self, limit: StartLimit) -> None:  # noqa: B027
        """Note when a job ends that has not started, where something other than workers and clients ends it. By default
        nothing does."""

    def begin(self, job: str) -> bool:
        """Begin to work on a job, where the caller's own machine does that. A cloud needs no telling."""
        return False

    def pause(self, job: str) -> bool:
        """End the work that `begin` began: what is finished stays. Says whether there was any."""
        return False

    @abstractmethod
    def describe(self, queue: Queue, job: str, round_: int | None = None) -> list[ArrayState]:
        """Every array of a job, or of one of its rounds, that the cloud still knows, oldest first."""

    @abstractmethod
    def cancel(self, arrays: Sequence[ArrayState], reason: str) -> int:
        """End arrays and their running children; returns how many arrays there were to end."""

    @abstractmethod
    def queue_states(self, queues: dict[str, Queue]) -> dict[str, QueueState]:
        """The state of each queue by its name."""

    def failed_children(self, array: ArrayState) -> dict[int, str]:
        """Children that have failed for good, by their index in the array, each with the cloud's reason."""
        return {}

    def child_logs(self, array: ArrayState, index: int, search: LogSearch) -> Iterator[LogLine] | None:
        """Log lines of one child, all its attempts, oldest first; nothing when the cloud has forgotten the child. The
        search's items, text and regex are not applied. None where no child has lines of its own: the job's are searched
        instead."""
        return None

    def dead_letters(self, queue: Queue, job: str) -> list[DeadLetter]:
        """Chunks of a job that the queue has put aside; empty where a cloud puts nothing aside."""
        return []

    def forget_dead(self, queue: Queue, job: str, letters: Collection[DeadLetter]) -> int:
        """Throw away what was put aside, after it was enqueued anew; returns how many there were."""
        return 0

    def facts(self, queue: Queue, job: str, arrays: Sequence[ArrayState]) -> tuple[CloudFacts | None, list[Unseen]]:
        """Facts about a job, its queue and its machines, for `tidemill explain`, and facts that this login may not see.
        A refusal is part of the answer, not an error."""
        return None, []

    def queue_facts(self, queue: Queue) -> tuple[CloudFacts | None, list[Unseen]]:
        """The part of `facts` that is about the queue itself."""
        return None, []

    def is_gone(self, queue: Queue, enqueued_at: float) -> bool:
        """True if the queue holds nothing any more that was enqueued by then. False where the cloud does not tell."""
        return False
