"""What a review says: the types behind `ops review --json` (docs/review.schema.json).

Keys are stable: a later version may add some, and neither renames nor removes one without a new `version`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

VERSION = 1

Severity = Literal["critical", "high", "medium", "low"]
SEVERITIES: tuple[Severity, ...] = ("critical", "high", "medium", "low")
"""The worst first."""

Kind = Literal[
    "failed",
    "state-lost",
    "state-expires",
    "protection-lifted",
    "jobs-interrupted",
    "access-widened",
    "network-opened",
    "capacity",
    "policy",
    "waiver",
]


@dataclass(frozen=True)
class Finding:
    """One thing that a reviewer must look at."""

    severity: Severity
    kind: Kind
    resource: str
    """Its logical name; empty where a finding is about the whole stack."""
    urn: str
    """Empty where a finding is about the whole stack."""
    title: str
    details: tuple[str, ...] = ()
    """Lines; they hold values of the stack, so whoever shows them escapes them."""


@dataclass(frozen=True)
class Property:
    """One property of a resource that changes; values are shortened and hold no secret."""

    path: str
    kind: Literal["add", "delete", "update"]
    replaces: bool
    """Whether this change forces the replacement of the resource."""
    old: str
    """Empty for `add`."""
    new: str
    """Empty for `delete`; `(known after up)` where the engine cannot know it yet."""


@dataclass(frozen=True)
class Change:
    """One resource that changes."""

    op: str
    type: str
    name: str
    urn: str
    properties: tuple[Property, ...] = ()


@dataclass(frozen=True)
class Money:
    """A range in USD; None: nothing of it has a known price. `unknown` names what the range is without."""

    low: float | None
    high: float | None
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fleet:
    """A compute environment or a machine group: the most that it may start. None: it is not there."""

    name: str
    market: Literal["spot", "on_demand"] | None
    """None: a preview that failed does not show what its machines start from."""
    cpus_before: int | None
    """vCPUs."""
    cpus_after: int | None
    usd_hour_before: Money | None
    """Machines alone, all of them running; disks and addresses come on top."""
    usd_hour_after: Money | None


@dataclass(frozen=True)
class Idle:
    """What stands in a stack and is billed without any job, of one kind."""

    what: str
    count_before: int
    count_after: int
    usd_month_each: float | None
    """None: the price is unknown."""


@dataclass(frozen=True)
class PolicyResult:
    """What one rule of the policy pack said of one resource, or of the stack."""

    rule: str
    level: str
    severity: str | None
    resource: str
    message: str


@dataclass(frozen=True)
class Waiver:
    """A rule that the stack file waives for a while."""

    rule: str
    resource: str | None
    reason: str
    until: str
    expired: bool


@dataclass(frozen=True)
class StackReview:
    """One stack."""

    stack: str
    cloud: str
    region: str | None
    environment: str | None
    failed: bool
    errors: tuple[str, ...]
    """What the engine said when the preview failed."""
    counts: dict[str, int]
    """Resources of a cloud by what happens to them: create, update, replace, delete, same and so on."""
    findings: tuple[Finding, ...]
    """The worst first."""
    fleets: tuple[Fleet, ...]
    idle: tuple[Idle, ...]
    policies: tuple[PolicyResult, ...]
    waivers: tuple[Waiver, ...]
    changes: tuple[Change, ...]
    whole: bool
    """Whether the preview holds what stays the same too. If not, `fleets` and `idle` are those that change."""
    first: bool = False
    """Whether the stack has no resources yet: all is created, and there is nothing to compare with."""
    base: str | None = None
    """The commit that the change is compared with; None for what is deployed, or an empty cloud."""


@dataclass(frozen=True)
class Review:
    """One or many stacks."""

    stacks: tuple[StackReview, ...]
    version: int = field(default=VERSION)

    @property
    def failed(self) -> bool:
        """Whether a preview failed, so that its review is not whole."""
        return any(stack.failed for stack in self.stacks)

    def worst(self) -> Severity | None:
        """The worst severity of all findings; None without any."""
        found = {finding.severity for stack in self.stacks for finding in stack.findings}
        return next((severity for severity in SEVERITIES if severity in found), None)
