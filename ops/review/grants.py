"""Reads an AWS policy document grant by grant, and compares what two documents allow.

Source of the grammar: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_grammar.html
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from ops.review.values import UNKNOWN, document, is_unknown

_MOST = 20_000
_ON = ("function", "layerName", "eventBusName")
_LIMITS = ("sourceAccount", "sourceArn", "principalOrgId", "organizationId", "eventSourceToken", "condition")
"""What such a permission is on, and what limits its principal."""


@dataclass(frozen=True, order=True)
class Grant:
    """One action on one resource for one principal."""

    effect: str
    action: str
    resource: str = ""
    """Empty if a document names none, as in a trust policy."""
    principal: str = ""
    """Empty if a document names none because it is attached to one."""
    condition: str = ""
    inverted: tuple[str, ...] = field(default=())
    """Which of these are exclusions (NotAction and so on), which mean everything else."""

    def covers(self, other: Grant) -> bool:
        """True if this grant covers everything that the other allows; False when in doubt."""
        if self.effect != other.effect or self.inverted != other.inverted:
            return False
        if self.condition not in ("", other.condition):
            return False
        if self.inverted:
            return self == other
        # The only wildcard of a principal is "*" itself.
        if self.principal not in (other.principal, "*"):
            return False
        return _matches(self.resource, other.resource) and _matches(self.action.lower(), other.action.lower())

    @property
    def total(self) -> bool:
        """True if every action of a service, or of AWS, is allowed."""
        return "action" in self.inverted or self.action in ("*", "*:*") or self.action.endswith(":*")

    @property
    def public(self) -> bool:
        """True if the principal is everybody, in every account."""
        return "principal" in self.inverted or (self.principal in ("*", "AWS:*") and not self.condition)

    def __str__(self) -> str:
        names = {"action": self.action, "resource": self.resource, "principal": self.principal}
        shown = {k: f"all but {v}" if k in self.inverted else v for k, v in names.items()}
        text = f"{self.effect} {shown['action']}"
        text += f" on {shown['resource']}" if self.resource else ""
        text += f" to {shown['principal']}" if self.principal else ""
        return f"{text} if {self.condition}" if self.condition else text


def grants(text: Any) -> list[Grant] | None:
    """Every grant of a policy document; None if the value is not a document, or not known yet."""
    content = text if isinstance(text, dict) else document(text)
    if not isinstance(content, dict) or "Statement" not in content:
        return None
    statements = _listed(content["Statement"])
    return [grant for statement in statements if isinstance(statement, dict) for grant in _of(statement)]


def of_permission(inputs: dict[str, Any]) -> dict[str, Any]:
    """A permission on a function or an event bus, which is not a document, as one; empty for other properties."""
    who, on = inputs.get("principal"), [inputs[key] for key in _ON if key in inputs]
    if who is None or "action" not in inputs:
        return {}
    limits = {key: str(inputs[key]) for key in _LIMITS if inputs.get(key)}
    principal = {"Service" if "." in str(who) else "AWS": who}
    return {"Statement": {"Action": inputs["action"], "Resource": on, "Principal": principal, "Condition": limits}}


def widened(old: Iterable[Grant], new: Iterable[Grant]) -> list[Grant]:
    """Grants that only the new document has, and denials that only the old one had; each once, in order."""
    before, after = list(old), list(new)
    allowed = _not_covered([g for g in after if g.effect == "Allow"], [g for g in before if g.effect == "Allow"])
    denied = _not_covered([g for g in before if g.effect == "Deny"], [g for g in after if g.effect == "Deny"])
    return sorted({*allowed, *denied})


def _not_covered(wanted: list[Grant], by: list[Grant]) -> list[Grant]:
    same = set(by)
    # By action first: a document has few action patterns and many resources.
    patterns: dict[str, list[Grant]] = {}
    for grant in same:
        patterns.setdefault(grant.action.lower(), []).append(grant)
    return [
        grant
        for grant in wanted
        if grant not in same
        and not any(
            _matches(action, grant.action.lower()) and any(each.covers(grant) for each in alike)
            for action, alike in patterns.items()
        )
    ]


def _of(statement: dict[str, Any]) -> Iterator[Grant]:
    sides = {}
    for name in ("Action", "Resource", "Principal"):
        inverted = f"Not{name}" in statement
        sides[name] = (_names(statement.get(f"Not{name}" if inverted else name)), inverted)
    held = statement.get("Condition")
    condition = json.dumps(held, sort_keys=True, ensure_ascii=False) if held else ""
    exceptions = tuple(name.lower() for name, (_, inverted) in sides.items() if inverted)
    effect = str(statement.get("Effect", "Allow"))
    named = [names for names, _ in sides.values()]
    if math.prod(map(len, named)) > _MOST:
        # Too many to compare one by one: compare the whole document.
        named = [[", ".join(names)] for names in named]
    for action, resource, principal in itertools.product(*named):
        yield Grant(effect, action, resource, principal, condition, exceptions)


def _names(value: Any) -> list[str]:
    if value is None:
        return [""]
    if isinstance(value, dict):
        return [f"{kind}:{name}" for kind, names in sorted(value.items()) for name in _names(names)]
    return [UNKNOWN if is_unknown(each) else str(each) for each in _listed(value)] or [""]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _matches(pattern: str, name: str) -> bool:
    if "*" not in pattern and "?" not in pattern:
        return pattern == name
    return bool(_expression(pattern).fullmatch(name))


@cache
def _expression(pattern: str) -> re.Pattern[str]:
    """`*` is any text and `?` one character; nothing else is special."""
    return re.compile("".join(".*" if c == "*" else "." if c == "?" else re.escape(c) for c in pattern), re.DOTALL)
