"""The content of a review: the types behind `ops review --json`. `python -m ops.review.models` writes their schema,
docs/review.schema.json.

Keys are stable: a later version may add keys, and changes `version` if it renames or removes one.
"""

import json
from dataclasses import dataclass, field
from typing import Literal

from pydantic import TypeAdapter

from ops.project import ROOT

VERSION = 1

Severity = Literal["critical", "high", "medium", "low"]
SEVERITIES: tuple[Severity, ...] = ("critical", "high", "medium", "low")
"""The worst first."""

Kind = Literal[
    "failed",
    "guardrail",
    "stack-removed",
    "state-lost",
    "state-expires",
    "protection-lifted",
    "jobs-interrupted",
    "access-widened",
    "access-lost",
    "network-opened",
    "unwatched",
    "tags",
    "capacity",
    "work",
    "spot",
    "policy",
    "waiver",
    "override",
]


@dataclass(frozen=True)
class Finding:
    """One thing that a reviewer must look at."""

    severity: Severity
    kind: Kind
    resource: str
    """Its logical name; empty if a finding is about the whole stack."""
    urn: str
    """Empty if a finding is about the whole stack."""
    title: str
    details: tuple[str, ...] = ()
    """Lines with values of the stack; escape them before you show them."""


@dataclass(frozen=True)
class Property:
    """One changed property of a resource; values are shortened and hold no secrets."""

    path: str
    kind: Literal["add", "delete", "update"]
    replaces: bool
    """Whether this change forces the replacement of the resource."""
    old: str
    """Empty for `add`."""
    new: str
    """Empty for `delete`; `(known after up)` if the engine cannot know it yet."""


@dataclass(frozen=True)
class Change:
    """One changed resource."""

    op: str
    type: str
    name: str
    urn: str
    properties: tuple[Property, ...] = ()


@dataclass(frozen=True)
class Money:
    """A range in USD; None if no part of it has a known price. `unknown` names what the range leaves out."""

    low: float | None
    high: float | None
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fleet:
    """The most that a compute environment or machine group may start. None if it does not exist."""

    name: str
    market: Literal["spot", "on_demand"] | None
    """None if a failed preview does not show it."""
    cpus_before: int | None
    """vCPUs."""
    cpus_after: int | None
    usd_hour_before: Money | None
    """All machines running, without disks and addresses."""
    usd_hour_after: Money | None


@dataclass(frozen=True)
class IdleCost:
    """One kind of resource that is billed without any job."""

    what: str
    count_before: int
    count_after: int
    usd_month_each: float | None
    """None if the price is unknown."""


@dataclass(frozen=True)
class PolicyResult:
    """A policy pack rule's message about one resource or the stack."""

    rule: str
    level: str
    severity: str | None
    resource: str
    message: str


@dataclass(frozen=True)
class Waiver:
    """A rule that the stack file waives temporarily."""

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
    """The engine's errors if the preview failed."""
    counts: dict[str, int]
    """Number of cloud resources by operation: create, update, replace, delete, same and so on."""
    findings: tuple[Finding, ...]
    """The worst first."""
    fleets: tuple[Fleet, ...]
    idle: tuple[IdleCost, ...]
    policies: tuple[PolicyResult, ...]
    waivers: tuple[Waiver, ...]
    changes: tuple[Change, ...]
    whole: bool
    """Whether the preview includes unchanged resources. If not, `fleets` and `idle` have only changed ones."""
    first: bool = False
    """Whether the stack has no resources yet: everything is new, and there is nothing to compare with."""
    base: str | None = None
    """The commit to compare with; None for the deployed stack or an empty cloud."""
    prices: str | None = None
    """When and from where the prices are; None if none is known."""


@dataclass(frozen=True)
class Review:
    """One or many stacks."""

    stacks: tuple[StackReview, ...]
    guardrails: tuple[Finding, ...] = ()
    """Findings about what guards all stacks; `resource` is a path."""
    version: int = field(default=VERSION)

    @property
    def failed(self) -> bool:
        return any(stack.failed for stack in self.stacks)

    def worst(self) -> Severity | None:
        """The worst severity of all findings; None without findings."""
        severities = {finding.severity for stack in self.stacks for finding in stack.findings}
        severities |= {finding.severity for finding in self.guardrails}
        return next((severity for severity in SEVERITIES if severity in severities), None)


SCHEMA = ROOT / "docs" / "review.schema.json"


def schema() -> str:
    """The schema as text; every key is required."""
    document = TypeAdapter(Review).json_schema(mode="serialization")
    for part in (document, *document["$defs"].values()):
        if "properties" in part:
            part["required"] = list(part["properties"])
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "python -m ops review --json"}
    return json.dumps(head | {key: value for key, value in document.items() if key != "title"}, indent=2) + "\n"


if __name__ == "__main__":
    SCHEMA.write_text(schema(), encoding="utf-8")
