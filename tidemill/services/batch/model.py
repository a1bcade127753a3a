"""Facts of AWS Batch: a queue, its environments, its turn, quotas and ended containers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidemill.explain.facts import CloudFacts
from tidemill.services.batch import SERVICE


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
class AwsFacts(CloudFacts):
    """Facts from AWS Batch. None means that it could not be seen.

    Attributes:
        reasons: Status reasons of what waits, the array's own first.
        waiting_since: When the oldest array that waits was created; None when none waits.
        user: Our share identifier.
    """

    service = SERVICE
    queue: BatchQueue | None = None
    reasons: Sequence[str] = ()
    waiting_since: float | None = None
    tries: Sequence[Try] = ()
    turn: Turn | None = None
    quotas: Sequence[Quota] = ()
    user: str = ""

    def machines(self) -> str:
        rungs = self.queue.environments if self.queue else None
        return ", ".join(f"{each.market} {each.wanted} of {each.most} CPUs" for each in rungs or ())
