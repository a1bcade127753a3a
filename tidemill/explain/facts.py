"""What was seen of a job, its queue and its machines. Times are seconds since the epoch, by the cloud's clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tidemill.explain.answer import Unseen
from tidemill.fleet import GroupReport

State = Literal["waiting", "running", "finished", "cancelled", "lost"]


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
    """What the ledger tells of a job.

    Attributes:
        job: Its id.
        queue: Its queue's name.
        state: See `Status`.
        items: All of its items.
        ended: Items with an outcome.
        failed: Those of them that failed.
        began: When the newest round could begin.
        last: When the newest record was written; None without any.
        waiting: Chunks that wait, as the cloud counts them.
        active: Chunks that start or run.
        cancelled: Who ended it and why; empty until then.
        limit: What is spent of its limit, when the limit ended it.
        lost: Chunks that the cloud will not deliver again.
        sent: Arrays that the queue was given, and how many there are, where fewer were; None otherwise.
        lost_reason: Why, in the cloud's words where it has any.
        dead: Those of them that are dead letters.
        run_command: What continues a local job; empty elsewhere.
        waits_for: The jobs that it waits for, in words.
        blocked: Whether one of these will not end by itself.
        start_failures: Runs of the user's code that never started.
        start_error: What the last of them said.
        recent: Outcomes of the newest chunks, and how many of them failed.
        reasons: Reasons of failed items, from a few records.
        worst: The last words of the most common failure of these.
        deaths: Attempts that died with the oldest open chunk.
        stopped: How attempts on the oldest open chunk ended that neither committed nor drained, such as `store`.
        straggler: The oldest chunk at the end of a job, when it takes far longer than usual.
        drained: Attempts that reclaims ended within half an hour.
        done: Chunks that were committed within half an hour.
        speed: Items per second over ten minutes, and the median of earlier ten minutes; None when too few ended.
        memory_mib: What the job asks for an item.
        fits: Whether the descriptor has a machine type that holds one of its containers; None when that is unknown.
        cpus: CPUs of one of its containers.
    """

    job: str
    queue: str = ""
    state: State = "waiting"
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
    fits: bool | None = None
    cpus: int = 1

    @property
    def idle_since(self) -> float:
        """Since when nothing was committed."""
        return max(self.began, self.last or 0.0)

    @property
    def open(self) -> bool:
        """Whether anything may still happen by itself."""
        return self.state in ("waiting", "running")


# ---- AWS ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Environment:
    """A compute environment: the machines of one rung.

    Attributes:
        state: `ENABLED` or `DISABLED`.
        status: Batch's: `VALID`, `INVALID`, `UPDATING`, ...
        wanted: vCPUs that Batch wants now.
        most: vCPUs that it may want.
    """

    name: str
    state: str
    status: str
    reason: str = ""
    market: str = ""
    wanted: int = 0
    most: int = 0


@dataclass(frozen=True)
class BatchQueue:
    """A job queue with its compute environments, in their order.

    Attributes:
        arn: Its ARN.
        state: `ENABLED`, `DISABLED`, or empty where there is no such queue.
        status: Batch's: `VALID`, `INVALID`, ...
        reason: Batch's words about the status.
        environments: None where they could not be seen.
        limits: Seconds after which Batch gives up what waits for a reason, by the reason's code.
    """

    arn: str
    state: str = ""
    status: str = ""
    reason: str = ""
    environments: Sequence[Environment] | None = ()
    limits: Mapping[str, int] = field(default_factory=dict)

    @property
    def there(self) -> bool:
        return bool(self.state) and self.status not in ("DELETING", "DELETED")


@dataclass(frozen=True)
class Quota:
    """A quota of vCPUs for a market and a class of machine types.

    Attributes:
        code: Of Service Quotas; empty for a class that is not looked at.
        limit: In vCPUs; None where it is not shown.
        wanted: vCPUs that the queues may start.
        least: vCPUs of the smallest machine.
        unseen: Why it is not shown.
    """

    market: str
    kind: str
    code: str
    region: str
    limit: float | None
    wanted: int
    least: int
    unseen: str = ""


@dataclass(frozen=True)
class Try:
    """A container that ended without a record, or never began.

    Attributes:
        exit_code: None when the container had none.
        reason: The container's reason.
        status: The attempt's reason.
        child: Its id, for people who look it up.
        stopped: When it ended.
    """

    exit_code: int | None
    reason: str
    status: str
    child: str = ""
    stopped: float = 0.0


@dataclass(frozen=True)
class Turn:
    """The front of a queue and who uses it.

    Attributes:
        ahead: Jobs of others before the first of ours, among the front that Batch shows.
        seen: How many that front has.
        ours: Whether ours is among them.
        used: vCPUs in use.
        shares: vCPUs by user, the largest first.
    """

    ahead: int
    seen: int
    ours: bool
    used: float
    shares: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class AwsFacts:
    """What AWS Batch tells. None means that it could not be seen.

    Attributes:
        reasons: Status reasons of what waits, the array's own first.
        waiting_since: When the oldest array that waits was created; None when none waits.
        user: Our share identifier.
    """

    queue: BatchQueue | None = None
    reasons: Sequence[str] = ()
    waiting_since: float | None = None
    tries: Sequence[Try] = ()
    turn: Turn | None = None
    quotas: Sequence[Quota] = ()
    user: str = ""


# ---- GCP ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PubSubQueue:
    """A topic and its subscription.

    Attributes:
        topic: Its full name; empty when the descriptor names none.
        subscription: Its full name.
        topic_there: Whether it is there.
        reads: The topic that the subscription reads; None when there is no subscription.
    """

    topic: str = ""
    subscription: str = ""
    topic_there: bool = False
    reads: str | None = None


@dataclass(frozen=True)
class GcpFacts:
    """What Pub/Sub and Monitoring tell. None means that it could not be seen.

    Attributes:
        backlog: Messages that are not done, leased ones included, those of other jobs too.
        backlog_at: When that was sampled.
        oldest: Age of the oldest of them in seconds.
    """

    queue: PubSubQueue | None = None
    backlog: int | None = None
    backlog_at: float = 0.0
    oldest: float | None = None


@dataclass(frozen=True)
class FleetFacts:
    """What the reconciler and the machines have written down.

    Attributes:
        report_at: When the reconciler ran last; None when it has never reported.
        late: What is wrong with its schedule, in words; empty when it runs.
        groups: The queue's machines by market, in the order of the rungs.
        errors: What machines wrote that could not run their worker since the round began, the newest first.
        broken: How many such machines there are.
    """

    report_at: float | None = None
    late: str = ""
    groups: Sequence[tuple[str, GroupReport]] = ()
    errors: Sequence[str] = ()
    broken: int = 0


CloudFacts = AwsFacts | GcpFacts


@dataclass(frozen=True)
class Facts:
    """Everything that was seen at one moment."""

    now: float
    job: JobFacts
    cloud: CloudFacts | None = None
    fleet: FleetFacts | None = None
    unseen: Sequence[Unseen] = ()
