"""Draws the kinds of pictures of a report as SVG: areas over time, curves, bars, shares.

Every picture has a title and a description for screen readers; its figures are in a table next to it (`page.py`).
Colours and fonts are classes of the page's style sheet. All text passes `escaped`.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tidemill.visible import visible

WIDTH, HEIGHT = 400.0, 170.0
LEFT, RIGHT, TOP, BOTTOM = 44.0, 8.0, 10.0, 22.0
SERIES = 7
"""Colours of the style sheet; later series begin again."""
_TIMES = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800)
_CHARACTER = 6.4
"""About the width of a character of the axes."""


def escaped(value: object, most: int = 1000) -> str:
    """A value as text of a page: the only door through which names and messages pass."""
    text = visible(value)
    return html.escape(text if len(text) <= most else f"{text[: most - 1]}…", quote=True)


@dataclass(frozen=True)
class Tick:
    """A place on an axis, from 0 to 1, and its label."""

    at: float
    label: str


def short(value: float) -> str:
    """`900`, `20k`, `1.5M`: a label that fits next to an axis."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= 10 * size or (value >= size and unit != "k"):
            return f"{value / size:.3g}{unit}"
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.2g}"


def nice_step(span: float, most: int) -> float:
    """A round step that divides a span into at most so many."""
    raw = max(span, 1e-9) / most
    power = 10.0 ** math.floor(math.log10(raw))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * 0.999)


def linear_ticks(top: float, words: Callable[[float], str], *, whole: bool = False) -> list[Tick]:
    """Round values from 0 to `top`, whole ones on demand."""
    step = nice_step(top, 4)
    step = math.ceil(step) if whole else step
    return [Tick(n * step / top, words(n * step)) for n in range(int(top / step * 1.0001) + 1)] if top > 0 else []


def span_ticks(low: float, high: float, words: Callable[[float], str]) -> list[Tick]:
    """Round values between two."""
    step = nice_step(high - low, 4)
    values = (step * n for n in range(math.ceil(low / step), math.floor(high / step) + 1))
    return [Tick((value - low) / (high - low), words(value)) for value in values]


def time_ticks(seconds: float, words: Callable[[float], str]) -> list[Tick]:
    """Round times from the start."""
    step = next((each for each in _TIMES if seconds / each <= 6), 604800 * math.ceil(seconds / 604800 / 6))
    return [Tick(n * step / seconds, words(n * step) if n else "0") for n in range(int(seconds / step * 1.0001) + 1)]


def log_ticks(low: float, high: float, words: Callable[[float], str], binary: bool = False) -> list[Tick]:
    """Round values between two on a logarithmic axis, not too many: 1, 2, 5, 10, …, or powers of two."""
    span = math.log(high / low)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    step = nice_step(high - low, 4)
    choices = [[factor * 10.0**power for power in powers for factor in factors] for factors in ((1, 2, 5), (1,))]
    if binary:
        choices = [[2.0**n for n in range(-10, 60, skip)] for skip in (1, 2, 3, 5)]
    # A decade or less may hold hardly one of these.
    choices.insert(0, [step * n for n in range(math.ceil(low / step), math.floor(high / step) + 1)])
    positions: list[float] = []
    for values in choices if high / low < 3 else choices[1:]:
        positions = [value for value in values if low <= value <= high]
        if 2 <= len(positions) <= 6:
            break
    finer = 4
    while len(positions) < 2:
        finer *= 2
        step = nice_step(high - low, finer)
        positions = [step * n for n in range(math.ceil(low / step), math.floor(high / step) + 1)]
    return [Tick(math.log(value / low) / span, words(value)) for value in positions]


class Picture:
    """The frame of a picture: axes, and a plane from (0, 0) at the bottom left to (1, 1)."""

    def __init__(self, title: str, description: str, height: float = HEIGHT) -> None:
        self._id, self._height = re.sub(r"\W+", "-", title).strip("-").lower(), height
        self._title, self._description = title, description
        self._parts: list[str] = []

    def x(self, part: float) -> float:
        return LEFT + part * (WIDTH - LEFT - RIGHT)

    def y(self, part: float) -> float:
        return self._height - BOTTOM - part * (self._height - TOP - BOTTOM)

    def axes(self, across: Sequence[Tick], up: Sequence[Tick]) -> None:
        """Grid lines, and labels that do not overlap."""
        for tick in up:
            self._parts.append(f'<path class="g" d="M{LEFT:g} {self.y(tick.at):.1f}H{WIDTH - RIGHT:g}"/>')
            self._text(LEFT - 5, self.y(tick.at) + 3.5, tick.label, "end")
        free = 0.0
        for tick in across:
            half = _CHARACTER * len(tick.label) / 2
            # At the edges a label stands inside.
            at = min(max(self.x(tick.at), LEFT - 6 + half), WIDTH - half)
            if at - half >= free:
                self._text(at, self._height - 7, tick.label, "middle")
                free = at + half + 6

    def _text(self, x: float, y: float, text: str, anchor: str, kind: str = "t") -> None:
        self._parts.append(
            f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escaped(text, 80)}</text>'
        )

    def area(self, lower: Sequence[float], upper: Sequence[float], kind: str) -> None:
        """A stepped area between two rows of heights, each step as wide as the others."""
        size, runs = len(upper), list[tuple[int, int]]()
        for n in range(size):
            if upper[n] - lower[n] > 0:
                runs = [*runs[:-1], (runs[-1][0], n + 1)] if runs and runs[-1][1] == n else [*runs, (n, n + 1)]
        path = "".join(self._outline(lower, upper, begin, end, size) for begin, end in runs)
        if path:
            self._parts.append(f'<path class="{kind}" d="{path}"/>')

    def _outline(self, lower: Sequence[float], upper: Sequence[float], begin: int, end: int, size: int) -> str:
        there = [f"V{self.y(upper[n]):.1f}H{self.x((n + 1) / size):.1f}" for n in range(begin, end)]
        back = [f"V{self.y(lower[n]):.1f}H{self.x(n / size):.1f}" for n in reversed(range(begin, end))]
        return f"M{self.x(begin / size):.1f} {self.y(lower[begin]):.1f}{''.join(there)}{''.join(back)}Z"

    def line(self, heights: Sequence[float], kind: str) -> None:
        """A line through the ends of equal steps, from 0."""
        points = "".join(f"L{self.x((n + 1) / len(heights)):.1f} {self.y(each):.1f}" for n, each in enumerate(heights))
        self._parts.append(f'<path class="{kind}" d="M{self.x(0):.1f} {self.y(0):.1f}{points}"/>')

    def curve(self, points: Sequence[tuple[float, float]], kind: str) -> None:
        """A line through points, and what a pointer shows of it; a single one is a dot."""
        path = "L".join(f"{self.x(across):.1f} {self.y(up):.1f}" for across, up in points)
        dot = "h.1" if len(points) == 1 else ""
        self._parts.append(f'<path class="c {kind}" d="M{path}{dot}"/>')

    def bar(self, left: float, right: float, height: float, kind: str, text: str) -> None:
        """A bar that stands on the axis, and what a pointer shows of it."""
        x, y, wide = self.x(left), self.y(height), max(0.6, self.x(right) - self.x(left) - 0.8)
        shape = f'x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{self.y(0) - y:.1f}"'
        self._parts.append(f'<rect class="{kind}" {shape}><title>{escaped(text)}</title></rect>')

    def mark(self, at: float, label: str) -> None:
        """A vertical line with a label: what was asked for."""
        x = self.x(at)
        self._parts.append(f'<path class="m" d="M{x:.1f} {TOP:g}V{self.y(0):.1f}"/>')
        left = x > WIDTH / 2
        self._text(x - 4 if left else x + 4, TOP + 4, label, "end" if left else "start", "t b")

    def drawn(self) -> str:
        """The picture."""
        box = f'viewBox="0 0 {WIDTH:g} {self._height:g}" role="img" aria-labelledby="{self._id} {self._id}d"'
        names = f'<title id="{self._id}">{escaped(self._title)}</title>'
        names += f'<desc id="{self._id}d">{escaped(self._description)}</desc>'
        return f"<svg {box}>{names}{''.join(self._parts)}</svg>"


def areas(
    title: str,
    description: str,
    series: Mapping[str, Sequence[float]],
    across: Sequence[Tick],
    *,
    failed: str = "",
    total: float | None = None,
) -> str:
    """Stacked areas over equal steps of time. The series called `failed` is hatched. With a `total`, what is stacked
    are running sums on their way to it, and a line shows constant speed."""
    picture = Picture(title, description)
    sums = [sum(column) for column in zip(*series.values(), strict=True)]
    top = total or max(sums, default=0.0) or 1.0
    whole = all(value == int(value) for values in series.values() for value in values)
    picture.axes(across, linear_ticks(top, short, whole=whole))
    base = [0.0] * len(sums)
    for number, (name, values) in enumerate(series.items()):
        upper = [min(1.0, low + value / top) for low, value in zip(base, values, strict=True)]
        picture.area(base, upper, kind_of(number, name == failed))
        base = upper
    if total:
        picture.line([base[-1] * (n + 1) / len(base) for n in range(len(base))], "l")
    return picture.drawn()


def curves(title: str, description: str, series: Sequence[Sequence[tuple[float, float]]]) -> str:
    """Lines through points, each from left to right."""
    picture = Picture(title, description)
    xs, ys = ([point[n] for points in series for point in points] for n in (0, 1))
    (left, right), (low, high) = _bounds(xs), _bounds(ys)
    picture.axes(span_ticks(left, right, _exact), span_ticks(low, high, _exact))
    for number, points in enumerate(series):
        placed = [((x - left) / (right - left), (y - low) / (high - low)) for x, y in points]
        picture.curve(placed, kind_of(number))
    return picture.drawn()


def _bounds(values: Sequence[float]) -> tuple[float, float]:
    """The ends of an axis, which are never the same."""
    low, high = min(values), max(values)
    room = (abs(low) or 1.0) * 1e-3 if high - low <= abs(low) * 1e-9 else 0.0
    return low - room, high + room


def _exact(value: float) -> str:
    return short(value) if value >= 1000 else f"{value:.4g}"


def histogram(
    title: str,
    description: str,
    bars: Sequence[tuple[float, float, int]],
    words: Callable[[float], str],
    mark: tuple[float, str] | None = None,
    *,
    binary: bool = False,
) -> str:
    """Items by a value on a logarithmic axis: lower and upper bound and items of each bar."""
    picture = Picture(title, description)
    low, high = bars[0][0], bars[-1][1]
    if mark and mark[0] > 0:
        low, high = min(low, mark[0] / 1.1), max(high, mark[0] * 1.1)
    low, high = low / 1.05, high * 1.05
    most, span = max(items for _, _, items in bars), math.log(high / low)
    # The label of the mark is above the bars.
    room = 0.88 if mark else 1.0
    up = [Tick(tick.at * room, tick.label) for tick in linear_ticks(most, short, whole=True)]
    picture.axes(log_ticks(low, high, words, binary), up)
    for begin, end, items in bars:
        if items:
            text = f"{words(begin)} to {words(end)}: {items:,}"
            at = [math.log(max(value, low) / low) / span for value in (begin, end)]
            picture.bar(at[0], at[1], room * items / most, "s0", text)
    if mark and mark[0] > 0:
        picture.mark(math.log(mark[0] / low) / span, mark[1])
    return picture.drawn()


def shares(title: str, description: str, parts: Mapping[str, float]) -> str:
    """One bar from left to right that is divided into parts."""
    total, at = sum(parts.values()) or 1.0, 0.0
    drawn: list[str] = []
    for number, (name, value) in enumerate(parts.items()):
        wide = WIDTH * value / total
        text = f"{escaped(name)}: {100 * value / total:.1f} %"
        shape = f'class="s{number % SERIES}" x="{at:.1f}" y="0" width="{wide:.1f}" height="26"'
        drawn.append(f"<rect {shape}><title>{text}</title></rect>")
        at += wide
    names = f"<title>{escaped(title)}</title><desc>{escaped(description)}</desc>"
    return f'<svg viewBox="0 0 {WIDTH:g} 26" role="img" aria-label="{escaped(title)}">{names}{"".join(drawn)}</svg>'


def kind_of(number: int, failed: bool = False) -> str:
    """The class of a series."""
    return "f" if failed else f"s{number % SERIES}"
