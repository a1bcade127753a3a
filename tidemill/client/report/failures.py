"""Failed items by their error messages: a thousand failures are mostly three mistakes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tidemill.failures import GroupKey, group_key, telling_line
from tidemill.ledger import Outcome

ITEMS_SHOWN = 10
MAX_GROUPS = 10_000
OTHER = "other messages"
OTHER_ID = "other"


@dataclass
class FailureGroup:
    """Failed items with the same message, except for numbers and their own names.

    Attributes:
        id: Names the group in `tidemill retry --group`; the same mistake has the same id in every job.
        count: How many.
        reason: As in an outcome: `exit`, `timeout`, `memory`, ...
        exit_code: As in an outcome.
        message: The most telling line of the first item's error.
        items: Indices of the first of them.
        uri: The first item.
        error: The first item's error as recorded.
        memory_mib: The most memory that one of them was given; None for what the job asks for.
    """

    id: str
    count: int
    reason: str | None
    exit_code: int | None
    message: str
    items: list[int] = field(default_factory=list)
    uri: str = ""
    error: str | None = None
    memory_mib: int | None = None


def group_failures(outcomes: Iterable[Outcome]) -> list[FailureGroup]:
    """Failed outcomes by reason, exit code and message, the largest group first; others are left out.

    Memory does not grow with the job: after `MAX_GROUPS` different messages the rest is one group.
    """
    groups: dict[GroupKey, FailureGroup] = {}
    for outcome in outcomes:
        if outcome.status == "failed":
            add_failure(groups, outcome)
    return sorted(groups.values(), key=lambda group: (-group.count, group.items))


def add_failure(groups: dict[GroupKey, FailureGroup], outcome: Outcome) -> FailureGroup:
    """Count a failed outcome in its group, which is returned."""
    key, message = group_key(outcome), telling_line(outcome)
    if key not in groups and len(groups) >= MAX_GROUPS:
        key, message = GroupKey(None, None, OTHER), OTHER
    group = groups.get(key)
    if group is None:
        name = OTHER_ID if key.line == OTHER else key.id
        group = FailureGroup(name, 0, key.reason, key.exit_code, message, uri=outcome.uri, error=outcome.error)
        groups[key] = group
    group.count += 1
    group.memory_mib = max(group.memory_mib or 0, outcome.memory_mib or 0) or None
    if len(group.items) < ITEMS_SHOWN:
        group.items.append(outcome.index)
    return group
