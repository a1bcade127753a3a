"""Failed items by their error messages: a thousand failures are mostly three mistakes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import unquote

from tidemill.ledger import Outcome

ITEMS_SHOWN = 10
MAX_GROUPS = 10_000
OTHER = "other messages"
MESSAGE_CHARACTERS = 300
_RAISED = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning|Failure)\b")
_VARYING = re.compile(r"\b0x[0-9a-fA-F]+\b|\b[0-9a-f]{8,}\b|\d+")
_SAID_BY_US = {
    "timeout": "over its time limit",
    "memory": "over its memory limit",
    "poison": "its worker died each time it ran there alone",
}


@dataclass
class FailureGroup:
    """Failed items with the same message, except for numbers and their own names.

    Attributes:
        count: How many.
        reason: As in an outcome: `exit`, `timeout`, `memory`, ...
        exit_code: As in an outcome.
        message: The most telling line of the first item's error.
        items: Indices of the first of them.
        uri: The first item.
        error: The first item's error as recorded.
    """

    count: int
    reason: str | None
    exit_code: int | None
    message: str
    items: list[int] = field(default_factory=list)
    uri: str = ""
    error: str | None = None


def group_failures(outcomes: Iterable[Outcome]) -> list[FailureGroup]:
    """Failed outcomes by reason, exit code and message, the largest group first; others are left out.

    Memory does not grow with the job: after `MAX_GROUPS` different messages the rest is one group.
    """
    groups: dict[tuple[str | None, int | None, str], FailureGroup] = {}
    for outcome in outcomes:
        if outcome.status != "failed":
            continue
        message = telling_line(outcome)
        key = (outcome.reason, outcome.exit_code, generalised(message, outcome.uri))
        if key not in groups and len(groups) >= MAX_GROUPS:
            key, message = (None, None, OTHER), OTHER
        group = groups.get(key)
        if group is None:
            group = FailureGroup(0, key[0], key[1], message, uri=outcome.uri, error=outcome.error)
            groups[key] = group
        group.count += 1
        if len(group.items) < ITEMS_SHOWN:
            group.items.append(outcome.index)
    return sorted(groups.values(), key=lambda group: (-group.count, group.items))


def telling_line(outcome: Outcome) -> str:
    """The line of an item's error that tells most: the exception, else the last line, else what we know."""
    lines = [line.strip() for line in (outcome.error or "").splitlines() if line.strip()]
    raised = [line for line in lines if _RAISED.match(line)]
    said = (raised or lines or [""])[-1]
    if not said:
        code = outcome.exit_code
        ended = "said nothing" if code is None else f"said nothing and ended with {code}"
        said = _SAID_BY_US.get(outcome.reason or "", ended)
    return said[:MESSAGE_CHARACTERS]


def generalised(message: str, uri: str) -> str:
    """A message without the item's own names and without numbers, so that equal mistakes are equal."""
    for own in sorted({uri, unquote(uri), *(part for part in uri.rpartition("/")[2:] if len(part) > 3)}, key=len)[::-1]:
        if own:
            message = message.replace(own, "{item}")
    return _VARYING.sub("#", message)
