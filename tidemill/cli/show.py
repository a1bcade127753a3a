"""Plain output: aligned columns, JSON lines, figures that people read."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import click

from tidemill.figures import origins_words
from tidemill.visible import json_line, visible

if TYPE_CHECKING:
    from tidemill.client import Job

NARROWEST = 9
"""The least width of a cell on a narrow terminal: `succeeded` and `cancelled` stay whole."""


def show_json(value: Mapping[str, Any]) -> None:
    click.echo(json_line(value))


def show_table(header: Sequence[str], rows: Iterable[Sequence[object]], *, whole: bool = False) -> None:
    """Columns under a header; numbers to the right. `whole` leaves cells whole on a narrow terminal, which wraps."""
    body = [[visible(cell).replace("\n", " ") for cell in row] for row in rows]
    numeric = [bool(body) and all(_is_number(row[i]) for row in body) for i in range(len(header))]
    widths = [max(len(line[i]) for line in [list(header), *body]) for i in range(len(header))]
    if not whole:
        _fit(widths)
    for number, line in enumerate([list(header), *body]):
        cells = [
            _aligned(shortened(text, width), width, right)
            for text, width, right in zip(line, widths, numeric, strict=True)
        ]
        text = "  ".join(cells).rstrip()
        click.echo(click.style(text, bold=True) if number == 0 and color() else text)


def show_facts(facts: Mapping[str, object]) -> None:
    """A line per fact. On a terminal, a long one goes on below its beginning."""
    width = max(len(name) for name in facts)
    for name, value in facts.items():
        lines = _wrapped(visible(value), width + 2)
        click.echo(f"{name.ljust(width)}  {lines[0]}")
        for line in lines[1:]:
            click.echo(f"{' ' * width}  {line}")


def _wrapped(text: str, indent: int) -> list[str]:
    """The lines of a text that fit the terminal next to an indent. A command and a path stay whole, because people copy
    them, and so does all that a pipe gets."""
    if not sys.stdout.isatty():
        return [text]
    room = max(shutil.get_terminal_size().columns - indent, 20)
    whole = re.sub(r"`[^`]*`|^tidemill [^;\n]*", lambda command: command[0].replace(" ", "\0"), text)
    parts = (
        textwrap.wrap(line, room, break_long_words=False, break_on_hyphens=False) or [""] for line in whole.split("\n")
    )
    return [line.replace("\0", " ") for lines in parts for line in lines]


def show_origins(job: Job) -> None:
    """Say which results are of earlier jobs, where any are."""
    if shared := job.spec.shared:
        click.echo(f"{job.id}: {origins_words(shared.jobs, job.spec.items_total)}.", err=True)


def color() -> bool:
    """False when NO_COLOR is set (https://no-color.org); click itself drops colour where there is no terminal."""
    return not os.environ.get("NO_COLOR")


def mebibytes(value: float) -> str:
    """`512 MiB`, `2.5 GiB`, `< 1 MiB`; `unknown` for 0, which no process has."""
    if value < 1:
        return "< 1 MiB" if value > 0 else "unknown"
    return f"{value:.0f} MiB" if value < 10240 else f"{value / 1024:.1f} GiB"


def shown_place(uri: str) -> str:
    """A URI as people type it: a folder of this machine by its path."""
    return unquote(uri.removeprefix("file://")) if uri.startswith("file:///") else uri


def shortened(text: str, width: int) -> str:
    """A text that fits a width. The middle is cut out, because names differ at their ends."""
    if len(text) <= width:
        return text
    tail = (width - 1) * 2 // 3
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"


def _fit(widths: list[int]) -> None:
    """Make columns narrower, the widest first, until a line fits the terminal. A pipe gets everything, and the first
    column stays whole: it names what people type."""
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else sum(widths) + 2 * len(widths)
    while sum(widths) + 2 * (len(widths) - 1) > columns and max(widths[1:]) > NARROWEST:
        widths[widths.index(max(widths[1:]), 1)] -= 1


def _aligned(text: str, width: int, right: bool) -> str:
    text = shortened(text, width)
    return text.rjust(width) if right else text.ljust(width)


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).replace("-", "", 1).isdigit()
