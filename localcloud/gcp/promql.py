"""PromQL over series, as far as Tidemill's alert policies use it: a policy fires where its query has a result.

Known are selectors with `=` and `=~`, `increase`, `absent_over_time`, `sum by`, `offset`, `+ - * /`, comparisons,
`or`, `and` and `and on ()`. Sources: https://prometheus.io/docs/prometheus/latest/querying/operators/ and, for the
names of metrics, https://cloud.google.com/monitoring/promql/promql-mapping
"""

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from localcloud.gcp import filters

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
STALE_SECONDS = 300.0
"""How old the newest point of a series may be at an instant."""
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_TOKEN = re.compile(
    r"\s*(?P<token>\w*[a-zA-Z_:][\w:]*\{[^}]*\}|\[\d+[smhd]\]|\d+[smhd]\b|[\d.]+|[a-z_]+|>=|<=|==|[()+\-*/<>,])\s*"
)
_LABEL = re.compile(r'(\w+)(=~|=)"([^"]*)"')
_LEVELS: Sequence[Mapping[str, Callable[[Any, Any], Any] | None]] = (
    {"or": None},
    {"and": None},
    {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "==": operator.eq},
    {"+": operator.add, "-": operator.sub},
    {"*": operator.mul, "/": operator.truediv},
)


@dataclass(frozen=True)
class Points:
    """A series: its metric's name, labels, and values by time. Those of a counter are increases."""

    name: str
    labels: Mapping[str, str]
    values: Sequence[tuple[float, float]]


def counted(name: str, metric: Mapping[str, Any], entries: Iterable[tuple[float, Mapping[str, Any]]]) -> list[Points]:
    """The series of a log-based metric, as the program declares it, from entries by time.

    A distribution has a series of its sum and one of its count.
    """
    extractors: Mapping[str, str] = metric.get("labelExtractors") or {}
    made: dict[tuple[str, Labels], list[tuple[float, float]]] = {}
    for at, entry in entries:
        if not filters.matches(metric["filter"], entry):
            continue
        labels = {key: str(_extracted(path, entry)) for key, path in extractors.items()}
        of = frozenset({**labels, "monitored_resource": entry["resource"]["type"]}.items())
        if path := metric.get("valueExtractor"):
            made.setdefault((f"{name}_sum", of), []).append((at, float(_extracted(path, entry))))
            made.setdefault((f"{name}_count", of), []).append((at, 1.0))
        else:
            made.setdefault((name, of), []).append((at, 1.0))
    return [Points(each, dict(labels), values) for (each, labels), values in made.items()]


def _extracted(path: str, entry: Mapping[str, Any]) -> Any:
    value: Any = entry
    for part in path.removeprefix("EXTRACT(").removesuffix(")").split("."):
        value = value[part]
    return value


def query(text: str, series: Sequence[Points], at: float) -> Vector:
    """The result of a query at a time.

    Raises:
        ValueError: The query has a part that is not known here.
    """
    reader = _Reader(text, series, at)
    value = reader.level(0)
    if reader.rest or isinstance(value, int | float):
        raise ValueError(f"localcloud's PromQL does not know {' '.join(reader.rest)!r} in {text}")
    return value


class _Reader:
    """Reads a query from left to right, and computes it meanwhile."""

    def __init__(self, text: str, series: Sequence[Points], at: float) -> None:
        self.rest = _tokens(text)
        self._series, self._at = series, at

    def level(self, number: int) -> Vector | float:
        """The operators of one precedence, and all that bind tighter."""
        if number == len(_LEVELS):
            return self._part()
        left = self.level(number + 1)
        while self.rest and self.rest[0] in _LEVELS[number]:
            word = self.rest.pop(0)
            anyway = self.rest[:3] == ["on", "(", ")"]
            self.rest = self.rest[3:] if anyway else self.rest
            right = self.level(number + 1)
            if anyway and word == "and":
                left = left if right else {}
            else:
                left = _joined(word, _LEVELS[number][word], left, right)
        return left

    def _part(self) -> Vector | float:
        token = self.rest.pop(0)
        if token == "(":
            value = self.level(0)
            self._take(")")
            return value
        if token == "sum":
            return self._summed()
        if token in ("increase", "absent_over_time"):
            self._take("(")
            selector, seconds = self.rest.pop(0), _seconds(self.rest.pop(0).strip("[]"))
            self._take(")")
            held = self._window(selector, seconds)
            return held if token == "increase" else {} if held else {frozenset(): 1.0}
        if token[0].isdigit():
            return float(token)
        if "{" not in token:
            raise ValueError(f"localcloud's PromQL does not know {token!r}")
        back = 0.0
        if self.rest[:1] == ["offset"]:
            self.rest.pop(0)
            back = _seconds(self.rest.pop(0))
        newest = self._at - back
        return {
            frozenset(each.labels.items()): near[-1]
            for each in self._chosen(token)
            if (near := [value for at, value in each.values if newest - STALE_SECONDS < at <= newest])
        }

    def _summed(self) -> Vector:
        for word in ("by", "("):
            self._take(word)
        label = self.rest.pop(0)
        for word in (")", "("):
            self._take(word)
        value = self.level(0)
        self._take(")")
        assert not isinstance(value, int | float)
        total: Vector = {}
        for labels, number in value.items():
            kept = frozenset(each for each in labels if each[0] == label)
            total[kept] = total.get(kept, 0.0) + number
        return total

    def _take(self, word: str) -> None:
        if self.rest[:1] != [word]:
            raise ValueError(f"localcloud's PromQL expects {word!r} before {' '.join(self.rest)!r}")
        self.rest.pop(0)

    def _window(self, selector: str, seconds: float) -> Vector:
        start = self._at - seconds
        return {
            frozenset(each.labels.items()): sum(within)
            for each in self._chosen(selector)
            if (within := [value for at, value in each.values if start < at <= self._at])
        }

    def _chosen(self, selector: str) -> list[Points]:
        name, _, rest = selector.partition("{")
        wanted = _LABEL.findall(rest)
        return [
            each
            for each in self._series
            if each.name == name
            and all(
                each.labels.get(key) == value if how == "=" else re.fullmatch(value, each.labels.get(key, ""))
                for key, how, value in wanted
            )
        ]


def _tokens(text: str) -> list[str]:
    tokens, at = [], 0
    while at < len(text):
        matched = _TOKEN.match(text, at)
        if matched is None:
            raise ValueError(f"localcloud's PromQL does not know {text[at:]!r}")
        tokens.append(matched["token"])
        at = matched.end()
    return tokens


def _seconds(text: str) -> float:
    return float(text[:-1]) * _UNITS[text[-1]]


def _joined(
    word: str, how: Callable[[Any, Any], Any] | None, left: Vector | float, right: Vector | float
) -> Vector | float:
    if isinstance(left, int | float) and isinstance(right, int | float):
        assert how is not None
        return float(how(left, right))
    if how is None:
        assert not isinstance(left, int | float)
        assert not isinstance(right, int | float)
        return {**right, **left} if word == "or" else {key: left[key] for key in left if key in right}
    keys = [key for side in (left, right) if not isinstance(side, int | float) for key in side]
    found: Vector = {}
    for key in dict.fromkeys(keys):
        a = left if isinstance(left, int | float) else left.get(key)
        b = right if isinstance(right, int | float) else right.get(key)
        if a is None or b is None or (how is operator.truediv and b == 0):
            continue
        value = how(a, b)
        if isinstance(value, bool):
            if value:  # a comparison keeps the values that hold
                found[key] = a
        else:
            found[key] = value
    return found
