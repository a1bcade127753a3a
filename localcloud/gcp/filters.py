"""Filters of Logging and Monitoring: comparisons joined by AND, with one value or several. Other parts of their
languages are refused.

https://cloud.google.com/logging/docs/view/logging-query-language, https://cloud.google.com/monitoring/api/v3/filters
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from localcloud.gcp.wire import RestError

TERM = re.compile(
    r"""\s*(?P<not>NOT\s+|-)?(?P<path>[\w]+(?:\.(?:[\w-]+|"[^"]+"))*)\s*(?P<op>!=|>=|<=|=~|!~|=|:|<|>)\s*"""
    r"""(?P<value>"(?:[^"\\]|\\.)*"|[\w.*+:/-]+|\([\w.-]+(?: OR [\w.-]+)*\))\s*"""
)
JOINED = re.compile(r"AND\b")
SEVERITIES = ("DEFAULT", "DEBUG", "INFO", "NOTICE", "WARNING", "ERROR", "CRITICAL", "ALERT", "EMERGENCY")


@dataclass(frozen=True)
class Term:
    """One comparison; `path` is split at its dots."""

    path: tuple[str, ...]
    op: str
    value: str
    negated: bool = False

    def field(self, entry: Mapping[str, Any]) -> Any:
        """The value to compare with, None when the entry has none."""
        found: Any = entry
        for part in self.path:
            found = found.get(part) if isinstance(found, Mapping) else None
        return found

    def holds(self, entry: Mapping[str, Any]) -> bool:
        """Whether it holds for a log entry. A comparison of a missing field fails, so a negated one holds."""
        found = self.field(entry)
        return (found is not None and self._compare(found)) != self.negated

    def _compare(self, found: Any) -> bool:
        if self.value.startswith("(") and self.op == "=":
            return any(Term(self.path, "=", value)._compare(found) for value in self.value[1:-1].split(" OR "))
        if self.op == ":":
            return self.value == "*" or self.value.lower() in _text(found).lower()
        if self.op in ("=~", "!~"):
            return bool(re.search(self.value, _text(found))) == (self.op == "=~")
        left, right = _ordered(self.path, found), _ordered(self.path, self.value, like=found)
        if right is None:
            return self.op == "!="
        return {"=": left == right, "!=": left != right, "<": left < right, "<=": left <= right,
                ">": left > right, ">=": left >= right}[self.op]  # fmt: skip


@functools.lru_cache(maxsize=1 << 16)
def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _ordered(path: tuple[str, ...], value: Any, like: Any = None) -> Any:
    """A value in its comparable form: a time, a severity, a number, or lower-case text; None if it has none."""
    try:
        if path[-1].endswith(("timestamp", "Timestamp")):
            return _seconds(str(value))
        if path == ("severity",):
            return SEVERITIES.index(str(value).upper())
        kind = like if like is not None else value
        if isinstance(kind, (int, float)) and not isinstance(kind, bool):
            return float(value)
    except ValueError:
        return None
    return _text(value).lower()


@functools.lru_cache(maxsize=4096)
def parse(text: str) -> tuple[Term, ...]:
    """The comparisons of a filter; an empty filter has none.

    Raises:
        RestError: 400: the filter cannot be parsed.
    """
    terms, at = [], 0
    while text[at:].strip():
        if terms and (joined := JOINED.match(text, at)):
            at = joined.end()
        found = TERM.match(text, at)
        if not found:
            raise RestError(
                400, f"Unparseable filter, or more than localcloud knows, at {text[at:]!r}.", field="filter"
            )
        value = found["value"]
        value = json.loads(value) if value.startswith('"') else value
        path = tuple(part.strip('"') for part in re.findall(r'"[^"]+"|[^.]+', found["path"]))
        terms.append(Term(path, found["op"], value, bool(found["not"])))
        at = found.end()
    return tuple(terms)


def matches(text: str, entry: Mapping[str, Any]) -> bool:
    """Whether a log entry passes a filter; an empty one passes all. Only regular expressions are case-sensitive."""
    return all(term.holds(entry) for term in parse(text))
