"""Facts about a job, its queue and its machines. Times are seconds since the epoch, by the cloud's clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from tidemill.explain.answer import Unseen
from tidemill.fleet import GroupReport
from tidemill.services import Service

Phase = Literal["waiting", "running", "finished", "cancelled", "lost"]


@dataclass(frozen=True)
class Straggler:
    """A chunk that has run for long while almost everything else is done.

    Attributes:
        chunk: The chunk.
        items: Its items in flight, as far as its worker has written them down.
        began: When its attempt began.
        machine: Where; empty where nothing says so.
        usual: The longest time that a sampled chunk took.
    """

    chunk: int
    items: tuple[int, ...]
    began: float
    machine: str
    usual: float


@dataclass(frozen=True)
class JobFacts:
    """Facts about a job from its ledger.

    Attributes:
        job: Its id.
        queue: Its queue's name.
        state: `finished` when every item has an outcome; others as in `Status`, where a paused job is `lost`.
        items: All of its items.
        ended: Items with an outcome.
        failed: Those of them that failed.
        began: When the newest round could begin.
        last: When the newest record was written; None without any.
        waiting: Chunks that wait, as the cloud counts them.
        active: Chunks that start or run.
        cancelled: Who ended it and why; empty until then.
        limit: USD spent of its limit, in words, when the limit ended it.
        lost: Chunks that the cloud will not deliver again.
        sent: Arrays that the queue was given, and how many there are, where fewer were; None otherwise.
        lost_reason: Why, in the cloud's words where it has any.
        dead: Those of them that are dead letters.
        run_command: Command that continues a local job; empty elsewhere.
        waits_for: The jobs that it waits for, in words.
        blocked: One of these will not end by itself.
        start_failures: Runs of the user's code that never started.
        start_error: Error of the last of them.
        recent: Outcomes of the newest chunks, and how many of them failed.
        reasons: Reasons of failed items, from a few records.
        worst: The last words of the most common failure of these.
        deaths: Attempts that died with the oldest open chunk.
        stopped: How attempts on the oldest open chunk ended that neither committed nor drained, such as `store`.
        straggler: The oldest chunk at the end of a job, when it takes far longer than usual.
        drained: Attempts that reclaims ended within half an hour.
        done: Chunks that were committed within half an hour.
        speed: Items per second over ten minutes, and the median of earlier ten minutes; None when too few ended.
        memory_mib: Memory that the job asks for an item.
        memory_max_mib: The most that an item may have where it needs more; 0 where none may.
        grows: Items that ran out of memory may have more, once all have ended and somebody waits.
        fits: The descriptor has a machine type that holds one of its containers; None when that is unknown.
        cpus: CPUs of one of its containers.
    """

    job: str
    queue: str = ""
    state: Phase = "waiting"
    items: int = 0
    ended: int = 0
    failed: int = 0
    began: float = 0.0
    last: float | None = None
    waiting: int = 0
    active: int = 0
    cancelled: str = ""
    limit: str = ""
    lost: int = 0
    sent: tuple[int, int] | None = None
    lost_reason: str = ""
    dead: int = 0
    run_command: str = ""
    waits_for: str = ""
    blocked: bool = False
    start_failures: int = 0
    start_error: str = ""
    recent: tuple[int, int] = (0, 0)
    reasons: Mapping[str, int] = field(default_factory=dict)
    worst: str = ""
    deaths: int = 0
    stopped: Sequence[str] = ()
    straggler: Straggler | None = None
    drained: int = 0
    done: int = 0
    speed: tuple[float, float] | None = None
    memory_mib: int = 0
    memory_max_mib: int = 0
    grows: bool = False
    fits: bool | None = None
    cpus: int = 1

    @property
    def idle_since(self) -> float:
        """Since when nothing was committed."""
        return max(self.began, self.last or 0.0)

    @property
    def open(self) -> bool:
        """True if anything may still happen by itself."""
        return self.state in ("waiting", "running")


class CloudFacts:
    """Facts that the service of a job's queue tells; its rules say what they mean."""

    service: ClassVar[Service]

    def machines(self) -> str:
        """The queue's machines by rung, in words; empty where the service does not tell."""
        return ""


@dataclass(frozen=True)
class FleetFacts:
    """Facts from the records of the reconciler and the machines.

    Attributes:
        report_at: When the reconciler ran last; None when it has never reported.
        late: Problem of its schedule, in words; empty when it runs.
        groups: The queue's machines by market, in the order of the rungs.
        errors: Errors of machines that could not run their worker since the round began, the newest first.
        broken: How many such machines there are.
    """

    report_at: float | None = None
    late: str = ""
    groups: Sequence[tuple[str, GroupReport]] = ()
    errors: Sequence[str] = ()
    broken: int = 0


@dataclass(frozen=True)
class Facts:
    """Everything that was seen at one moment."""

    now: float
    job: JobFacts
    cloud: CloudFacts | None = None
    fleet: FleetFacts | None = None
    unseen: Sequence[Unseen] = ()
