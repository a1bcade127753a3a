"""Backends: the only modules that know how a cloud queues chunks.

A backend is handed arrays of chunks and names; what an item is, what has finished and what must be run again is the
ledger's business. Every method may raise `tidemill.errors.CloudError`.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidemill.descriptor import Queue, Resources
from tidemill.errors import CloudError
from tidemill.job import After

if TYPE_CHECKING:
    from tidemill.explain.answer import Unseen
    from tidemill.explain.facts import CloudFacts


@dataclass(frozen=True)
class ArrayAddress:
    """What a worker must know to find an array's chunks in the store. Each backend encodes it in its own way.

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
        chunks: At most as many as the backend's `array_chunks`; child `i` is the i-th of them.
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
    """What all arrays of a round have in common.

    Attributes:
        queue: The queue as the descriptor has it.
        image: Name of one of the queue's images.
        resources: What one item needs.
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
    """What the cloud still knows of an enqueued array.

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
    """What the cloud says of a queue.

    Attributes:
        accepting: Whether it takes jobs.
        running: Whether it starts what it has taken.
        detail: Its state in the cloud's words, with the reason where it does not run.
    """

    accepting: bool
    running: bool
    detail: str


@dataclass(frozen=True)
class LogLine:
    """One line that a worker or a user's program printed.

    Attributes:
        at: Seconds since the epoch.
        id: What tells the line from an equal one, where the cloud has such a thing.
        arrived: When the cloud received it, in seconds since the epoch; 0 where the cloud does not tell.
    """

    at: float
    message: str
    stream: str
    fields: dict[str, object] = field(default_factory=dict)
    id: str = ""
    arrived: float = 0.0

    @property
    def said(self) -> str:
        """The message itself, without what the worker writes around it."""
        return str(self.fields.get("message", self.message))


def ignore(said: str) -> None:
    """Tells nothing to anyone."""


@dataclass(frozen=True)
class LogSearch:
    """Which lines of a job a backend is asked for.

    Attributes:
        job: The job's id.
        items: Only lines of these items; None for every line.
        since: Seconds since the epoch.
        until: The same; None for all there are.
        text: Only lines whose message holds this. A hint that spares reading: a backend may return others too.
        regex: Only lines whose message matches, in Python's dialect. A hint as well.
        printed: Only lines that programs printed, none of the worker itself. A hint as well.
        limit: How many lines are wanted. A hint as well.
        arrived: Only lines that the cloud received at this time or later, where it tells. A hint as well.
        say: Is told what a person should know while they wait.
    """

    job: str
    items: frozenset[int] | None = None
    since: float = 0.0
    until: float | None = None
    text: str | None = None
    regex: str | None = None
    printed: bool = False
    limit: int | None = None
    arrived: float = 0.0
    say: Callable[[str], None] = ignore

    def has(self, line: LogLine) -> bool:
        """Whether a line is of the job and the items, and of the time."""
        fields = line.fields
        return (
            fields.get("job") == self.job
            and (self.items is None or fields.get("item") in self.items)
            and self.since <= line.at
            and (self.until is None or line.at <= self.until)
        )


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

    whole_cpus = False
    """Whether items need whole CPUs."""
    has_packages = False
    """Whether programs run in the caller's own Python, with its packages."""
    array_chunks = 10_000
    """Chunks that an array may have."""
    most_dependencies = 0
    """Arrays of other jobs that an array can wait for in the queue; 0 where the queue cannot keep it waiting."""
    sees_children = True
    """Whether the cloud knows what each child of an array is doing, and in which container."""
    log_poll_seconds = 2.0
    """Between two looks for new log lines."""
    log_late_seconds = 60.0
    """How far back each of those looks goes: lines of different machines do not arrive in the order of their times."""

    @abstractmethod
    def user(self) -> str:
        """The caller's name in the cloud, in a form that its queue accepts."""

    @abstractmethod
    def enqueue(self, shape: Shape, arrays: Sequence[Array]) -> None:
        """Hand arrays to the cloud. The caller checks first which arrays are already there."""

    def hold(self, shape: Shape, arrays: Sequence[Array], after: Sequence[After]) -> None:  # noqa: B027
        """Note arrays that are to be enqueued once other jobs are complete, where something other than a client does
        that. By default a client does."""

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

    def publish(self, topic: str, subject: str, text: str, fields: Mapping[str, str]) -> None:
        """Send a message to a topic, with its figures for programs."""
        raise CloudError(f"{topic} is a topic of another cloud.")

    @abstractmethod
    def logs(self, search: LogSearch) -> Iterator[LogLine]:
        """Log lines of a job, oldest first."""

    def search_logs(self, search: LogSearch) -> Iterator[LogLine]:
        """The same for few lines of a whole job, where the cloud has something faster for them."""
        return self.logs(search)

    @abstractmethod
    def queue_states(self, queues: dict[str, Queue]) -> dict[str, QueueState]:
        """The state of each queue by its name."""

    def failed_children(self, array: ArrayState) -> dict[int, str]:
        """Children that have failed for good, by their index in the array, each with the cloud's reason."""
        return {}

    def child_logs(self, array: ArrayState, index: int, search: LogSearch) -> Iterator[LogLine]:
        """Log lines of one child, all its attempts, oldest first; nothing when the cloud has forgotten the child. The
        search's items, text and regex are not applied."""
        return iter(())

    def dead_letters(self, queue: Queue, job: str) -> list[DeadLetter]:
        """What the queue has put aside of a job; empty where a cloud puts nothing aside."""
        return []

    def forget_dead(self, queue: Queue, job: str, letters: Collection[DeadLetter]) -> int:
        """Throw away what was put aside, after it was enqueued anew; returns how many there were."""
        return 0

    def facts(self, queue: Queue, job: str, arrays: Sequence[ArrayState]) -> tuple[CloudFacts | None, list[Unseen]]:
        """What the cloud tells of a job, its queue and its machines, for `tidemill explain`, and what this login may
        not see. A refusal is part of the answer, not an error."""
        return None, []

    def queue_facts(self, queue: Queue) -> tuple[CloudFacts | None, list[Unseen]]:
        """The part of `facts` that is about the queue itself."""
        return None, []

    def is_gone(self, queue: Queue, enqueued_at: float) -> bool:
        """Whether the queue no longer holds anything that was enqueued by then. False where the cloud does not tell."""
        return False

    def now(self) -> float:
        """Seconds since the epoch, by the cloud's clock where it tells."""
        return time.time()

    def at(self) -> datetime:
        """The same as a time: what clients write down and compare, wherever they are."""
        return datetime.fromtimestamp(self.now(), UTC)
