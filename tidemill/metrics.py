"""Metrics: numbers that a program prints, found by regular expressions, and their stored form.

The expressions have the syntax of Python's `re`. They are run by the package `regex`, because it can give up: an
expression that takes exponential time on some line must not hold up a worker.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemill.errors import CallerError, decoding

if TYPE_CHECKING:
    from regex import Pattern

MAX_METRICS = 40
NAME_PATTERN = r"^[A-Za-z_][\w./@-]{0,63}$"
_LONGEST = 1000
_REPEATS = 10_000
"""Repeats within repeats are copies: compiling millions of them takes seconds and gigabytes."""
_ALLOWED = "a regular expression with a group around the number"
_EXAMPLE = "For example: 'loss: ([0-9.eE+-]+)'."


@dataclass(frozen=True, slots=True)
class MetricValue:
    """A number that an item has printed.

    Attributes:
        at: When its line was read, in seconds since the epoch.
        attempt: The item's attempt, from 1.
        step: What the expression's group `step` has found, or None.
    """

    at: float
    item: int
    attempt: int
    step: int | None
    name: str
    value: float


@dataclass(frozen=True)
class MetricPattern:
    """A metric's expression: its group `value`, or else its first group, is the number; its group `step` is the step
    of the training."""

    name: str
    compiled: Pattern[str]
    group: int | str

    @classmethod
    def of(cls, name: str, expression: str) -> MetricPattern:
        """Compile an expression.

        Raises:
            CallerError: It is invalid, or has no group for the number.
        """
        import regex

        what = f"metrics.{name}"
        if not isinstance(name, str) or not re.fullmatch(NAME_PATTERN, name):
            allowed = "a letter or '_', then up to 63 letters, digits and any of _ . / @ -"
            raise CallerError.about("metric", name, allowed, "Rename it.")
        if len(expression) > _LONGEST or _copies(expression) > _REPEATS:
            allowed = f"at most {_LONGEST} characters long, with at most {_REPEATS} repeats all together"
            raise CallerError.about(what, expression, allowed, "Simplify it.")
        try:
            compiled = regex.compile(expression)
        except (regex.error, TypeError, RecursionError, OverflowError) as error:
            raise CallerError.about(what, expression, _ALLOWED, f"It is invalid: {error}. {_EXAMPLE}") from None
        others = set(range(1, compiled.groups + 1)) - {compiled.groupindex.get("step")}
        if not others:
            raise CallerError.about(what, expression, _ALLOWED, f"It has none. {_EXAMPLE}")
        return cls(name, compiled, "value" if "value" in compiled.groupindex else min(others))

    def find(self, line: str, seconds: float) -> tuple[int | None, float] | None:
        """The step and the number in a line.

        Raises:
            TimeoutError: It takes longer than so many seconds.
        """
        match = self.compiled.search(line, timeout=seconds)
        if match is None:
            return None
        try:
            value = float(match[self.group])
        except (TypeError, ValueError):
            return None
        step = match["step"] if "step" in self.compiled.groupindex else None
        return int(step) if step and step.isdecimal() else None, value


def _copies(expression: str) -> int:
    """The product of the repeats in braces: more than there are copies, where they are not within each other."""
    bounds = re.findall(r"\{\s*(\d{0,9})\d*\s*,?\s*(\d{0,9})\d*\s*\}", expression)
    return math.prod(max(int(low or 1), int(high or 1), 1) for low, high in bounds)


def compile_metrics(metrics: Mapping[str, str]) -> list[MetricPattern]:
    """The expressions of a job.

    Raises:
        CallerError: One is wrong, or there are too many.
    """
    if len(metrics) > MAX_METRICS:
        raise CallerError.about("metrics", len(metrics), f"at most {MAX_METRICS}", "Leave some out.")
    return [MetricPattern.of(name, expression) for name, expression in metrics.items()]


def encode_values(values: Iterable[MetricValue]) -> bytes:
    """JSON lines. JSON has no number for `nan` and `inf`, which a diverging loss is: they are text."""
    lines = (
        {
            "at": round(one.at, 3),
            "item": one.item,
            "attempt": one.attempt,
            "step": one.step,
            "name": one.name,
            "value": one.value if one.value - one.value == 0 else str(one.value),
        }
        for one in values
    )
    return b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)


def parse_values(data: bytes, what: str) -> Iterator[MetricValue]:
    """The values of JSON lines; `what` names them in an error.

    Raises:
        DamagedError: They cannot be read.
    """
    with decoding(what):
        for line in data.splitlines():
            values = json.loads(line)
            rest = [values[key] for key in ("at", "item", "attempt", "step", "name")]
            yield MetricValue(*rest, value=float(values["value"]))
