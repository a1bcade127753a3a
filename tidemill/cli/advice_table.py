"""Advice as tables: the columns that decide, and with `--wide` the rest; every figure's date and source below."""

from __future__ import annotations

import shutil
import string
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from tidemill.cli.show import show_table
from tidemill.figures import duration

if TYPE_CHECKING:
    from tidemill.advice.model import AdvisedShape, ShapeAdvice
    from tidemill.advice.rank import Bucket, DatedFigure, Price, ReclaimMean, ShapeScore
    from tidemill.prices.origin import DatedPrice

UNKNOWN, NEVER, NONE = "unknown", "never", "-"
GAP, FROM_WIDTH = 2, 4
"""Blanks between columns, and the usual width of the last one."""
LONG_ITEMS = 0.1
"""Items per second of all machines below which they are shown per hour."""
HINT = "A hint, not a promise: capacity changes within minutes."
_LETTERS = string.ascii_lowercase + string.ascii_uppercase


@dataclass(frozen=True)
class Column:
    """A column: its header, what a shape has there, and the figures that this rests on, each with what it is."""

    header: str
    cell: Callable[[AdvisedShape], str]
    origins: Callable[[AdvisedShape], Sequence[tuple[str, DatedPrice | None]]] = lambda shape: ()
    right: bool = True
    optional: bool = False
    """True if it is left out where nothing is known."""
    leaves: int = 0
    """When it leaves a narrow terminal: 1 first, 0 never. Figures are never cut."""


def show_advice(advice: ShapeAdvice, *, wide: bool, total: bool) -> None:
    """Print it.

    Args:
        found: The advice.
        wide: Whether to show every column.
        total: Whether the hours of work were given, so that a total means something.
    """
    every = list(_columns(advice, wide=wide, total=total))
    filled = [column for column in every if not column.optional or _known(column, advice.shapes)]
    columns = filled if wide or not sys.stdout.isatty() else _fitting(filled, advice.shapes)
    sources = Sources()
    rows = [[column.cell(shape) for column in columns] + [sources.of(shape, columns)] for shape in advice.shapes]
    show_table(*_aligned(columns, rows), whole=True)
    for line in sources.lines():
        click.echo(line)
    if unknown := [column.header for column in every if column not in filled]:
        click.echo(f"Unknown for all of these: {', '.join(unknown)}.")
    if hidden := [column.header for column in filled if column not in columns]:
        click.echo(f"No room for: {', '.join(hidden)}. --wide shows every column.")
    if any("+" in cell for row in rows for cell in row[1:]):
        click.echo("+: reclaims come on top; how frequent they are is unknown.")
    for line in _remarks(advice, wide=wide):
        click.echo(line)


def _fitting(columns: Sequence[Column], shapes: Sequence[AdvisedShape]) -> list[Column]:
    """The columns that a line of the terminal has room for."""
    left = list(columns)
    room = shutil.get_terminal_size().columns - FROM_WIDTH
    widths = {id(column): max([len(column.header), *(len(column.cell(each)) for each in shapes)]) for column in left}
    while sum(widths[id(column)] + GAP for column in left) > room and any(column.leaves for column in left):
        left.remove(min((column for column in left if column.leaves), key=lambda column: column.leaves))
    return left


def _known(column: Column, shapes: Sequence[AdvisedShape]) -> bool:
    return any(column.cell(shape) not in (UNKNOWN, NEVER, NONE) for shape in shapes)


class Sources:
    """A letter for each date and source, in the order in which they appear."""

    def __init__(self) -> None:
        self._letters: dict[tuple[str, str, str], str] = {}

    def of(self, shape: AdvisedShape, columns: Sequence[Column]) -> str:
        """The letters of a row's figures."""
        letters: dict[str, None] = {}
        for column in columns:
            for what, figure in column.origins(shape):
                if figure is not None:
                    key = (what, figure.as_of.isoformat(), figure.source)
                    letter = self._letters.setdefault(key, _letter(len(self._letters)))
                    letters[letter] = None
        return "".join(letters) or NONE

    def lines(self) -> Iterator[str]:
        """The sources that the letters stand for."""
        from tidemill.prices import brief

        for (what, day, source), letter in self._letters.items():
            yield f"{letter}  {what}: {day}, {brief(source.split('; '))}"


def _letter(number: int) -> str:
    return _LETTERS[number] if number < len(_LETTERS) else f"({number})"


# ---- columns -----------------------------------------------------------------------------------------------------


def _columns(advice: ShapeAdvice, *, wide: bool, total: bool) -> Iterator[Column]:
    measured = any(shape.items_per_second for shape in advice.shapes)
    unit = {"gpu": "GPU", "vcpu": "vCPU", "gib": "GiB"}[advice.unit]
    per_unit = Column(f"USD/{unit}-h", lambda shape: _usd(shape.usd_unit_hour, digits=4), _price_origins)
    queue = advice.queue is not None
    yield Column("type" if queue else "shape", _type_words if queue else _shape_words, right=False)
    if not queue:
        yield Column("where", lambda shape: shape.zone or shape.region, right=False)
    if measured:
        yield from _speed_columns(advice)
    if queue or not measured or wide:
        yield replace(per_unit, leaves=1, optional=True) if queue else per_unit
    if total:
        words = f"USD/{advice.hours:g} h"
        yield Column(words, lambda shape: _usd(shape.usd_total, shape.at_least), _cost_origins, leaves=4)
    if wide or not (total or queue):
        yield Column("USD/h", lambda shape: _usd(shape.usd_hour, digits=3), _price_origins, leaves=2)
    if queue or wide:
        yield Column("each/h", _each, _price_origins, optional=True)
        yield Column("7 days", lambda shape: _week(shape.price), _price_origins, optional=True, leaves=6)
        yield Column("90 days", lambda shape: _span(shape.price), _price_origins, optional=True, leaves=7)
    yield Column("score", _own_score, lambda shape: [("score", shape.score)], optional=True, leaves=3)
    yield Column("reclaims", _reclaims, _reclaim_origins, optional=True, leaves=5)
    if wide:
        yield from _machine_columns(advice)


def _speed_columns(advice: ShapeAdvice) -> Iterator[Column]:
    """Speed and cost of items; of long ones, such as trainings, per hour and for one."""
    speeds = [shape.count * shape.items_per_second.value for shape in advice.shapes if shape.items_per_second]
    if max(speeds) >= LONG_ITEMS:
        yield Column("items/s", lambda shape: _speed(shape, 1), _speed_origins)
        yield Column("USD/1M", lambda shape: _usd(shape.usd_million, shape.at_least, NONE), _cost_origins)
        return

    def one(shape: AdvisedShape) -> str:
        million = shape.usd_million
        each = million and replace(million, value=million.value / 1_000_000)
        return _usd(each, shape.at_least, NONE, digits=3)

    yield Column("items/h", lambda shape: _speed(shape, 3600), _speed_origins)
    yield Column("USD/item", one, _cost_origins)


def _machine_columns(advice: ShapeAdvice) -> Iterator[Column]:
    def origins(shape: AdvisedShape) -> list[tuple[str, DatedPrice | None]]:
        return [("machine types", shape.machine)]

    yield Column("save every", _save_every, _reclaim_origins, optional=True)
    if advice.unit == "gpu":
        yield Column("GPU", _gpu, origins, right=False)
        yield Column("vCPU/GPU", lambda shape: _number(shape.machine.cpus_per_gpu), origins)
    yield Column("vCPUs", lambda shape: str(shape.count * shape.machine.cpus), origins)
    yield Column("Gbps", _network, origins, optional=True)
    yield Column("EFA", lambda shape: {True: "yes", False: "no", None: UNKNOWN}[shape.machine.efa], origins)
    yield Column("arch", lambda shape: shape.machine.architecture, origins, right=False)


def _aligned(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """Header and rows, with figures to the right, also where some of them are unknown."""
    header = [column.header for column in columns] + ["from"]
    lines = [header, *rows]
    widths = [max(len(line[n]) for line in lines) for n in range(len(header))]
    right = [column.right for column in columns] + [False]
    padded = [
        [cell.rjust(width) if to_right else cell for cell, width, to_right in zip(line, widths, right, strict=True)]
        for line in lines
    ]
    return padded[0], padded[1:]


# ---- cells -------------------------------------------------------------------------------------------------------


def _shape_words(shape: AdvisedShape) -> str:
    return f"{shape.count} x {shape.type} {shape.market.replace('_', '-')}"


def _type_words(shape: AdvisedShape) -> str:
    return f"{shape.type} {shape.market.replace('_', '-')}"


def _each(shape: AdvisedShape) -> str:
    """One machine, as the ranges after it."""
    return f"{shape.price.now:.3f}" if shape.price else UNKNOWN


def _speed(shape: AdvisedShape, seconds: int) -> str:
    """Items of all machines in so many seconds."""
    speed = shape.items_per_second
    return f"{shape.count * speed.value * seconds:.3g}" if speed else "not measured"


def _usd(figure: DatedFigure | None, at_least: bool = False, unknown: str = UNKNOWN, *, digits: int = 2) -> str:
    if figure is None:
        return unknown
    if figure.value > 10**12:
        return "endless"
    return f"{figure.value:,.{digits}f}{'+' if at_least else ''}"


def _week(price: Price | None) -> str:
    return f"{price.week.low:.3f}-{price.week.high:.3f}" if price and price.week else UNKNOWN


def _span(price: Price | None) -> str:
    """The range of about 90 days, with its days where it is of fewer."""
    if price is None or price.days is None:
        return UNKNOWN
    short = f" ({price.days:.0f} d)" if price.days < 88 else ""
    return f"{price.low:.3f}-{price.high:.3f}{short}"


def _own_score(shape: AdvisedShape) -> str:
    if shape.market != "spot":
        return NONE
    return _score(shape.score) if shape.score else UNKNOWN


def _score(score: ShapeScore) -> str:
    return f"{score.value:.0f}/{score.of:.0f}" if score.of > 1 else f"{score.value:.2f}"


def _reclaims(shape: AdvisedShape) -> str:
    if shape.market != "spot":
        return NEVER
    mean, bucket = shape.reclaims, shape.interruption
    if mean is not None and mean.basis == "own":
        return f"1/{duration(mean.value * 3600)}"
    if bucket:
        return _bucket(bucket)
    return f"> {duration(shape.uptime.value)}" if shape.uptime else UNKNOWN


def _bucket(bucket: Bucket) -> str:
    if not bucket.low:
        return f"< {bucket.high} %"
    return f"> {bucket.low} %" if bucket.high >= 100 else f"{bucket.low}-{bucket.high} %"


def _save_every(shape: AdvisedShape) -> str:
    if shape.market != "spot":
        return NONE
    return duration(shape.save_every_seconds.value) if shape.save_every_seconds else UNKNOWN


def _gpu(shape: AdvisedShape) -> str:
    memory = shape.machine.gpu_memory_mib
    return f"{shape.machine.gpu_name or UNKNOWN}{f' {(memory << 20) / 10**9:.0f} GB' if memory else ''}"


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:g}"


def _network(shape: AdvisedShape) -> str:
    """A machine's bandwidth: the constant one, and the peak."""
    always, best = shape.machine.network_gbps, shape.machine.network_burst_gbps
    return UNKNOWN if always is None else f"{always:.3g}" if best in (None, always) else f"{always:.3g}-{best:.3g}"


# ---- origins -----------------------------------------------------------------------------------------------------


def _price_origins(shape: AdvisedShape) -> list[tuple[str, DatedPrice | None]]:
    return [(f"{'Spot' if shape.market == 'spot' else 'On-Demand'} prices", shape.price)]


def _reclaim_origins(shape: AdvisedShape) -> list[tuple[str, DatedPrice | None]]:
    mean: ReclaimMean | None = shape.reclaims
    own = mean if mean and mean.basis == "own" else None
    return [("reclaims", own or shape.interruption or shape.uptime)]


def _speed_origins(shape: AdvisedShape) -> list[tuple[str, DatedPrice | None]]:
    return [("speed", shape.items_per_second)]


def _cost_origins(shape: AdvisedShape) -> list[tuple[str, DatedPrice | None]]:
    return [*_price_origins(shape), *_reclaim_origins(shape)]


# ---- remarks -----------------------------------------------------------------------------------------------------


def _remarks(advice: ShapeAdvice, *, wide: bool) -> Iterator[str]:
    shown, spot = advice.shapes, [shape for shape in advice.shapes if shape.market == "spot"]
    for zone in advice.zones:
        day = f"{zone.score.as_of}, {zone.score.source}"
        yield f"{zone.zone}: {_score(zone.score)} for all these types together ({day})."
    if any(shape.score and shape.score.of > 1 for shape in spot):
        yield "A score of AWS is about all these types together."
    if any(shape.interruption for shape in spot):
        yield "Reclaims in percent: so many of a type's machines are taken away per month."
    if wide and any(shape.save_every_seconds for shape in spot):
        yield (
            f"Save every: Young's rule, with {duration(advice.save_seconds)} per save (--save-time) and the reclaims "
            "shown; a percentage is spread over its month."
        )
    if advice.found > len(shown):
        yield f"The first {len(shown)} of {advice.found} shapes; --limit shows more."
    yield from advice.notes
    yield HINT
