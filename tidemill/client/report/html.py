"""Parts of a report's page: panels, keys and tables. Every text passes `escaped`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from tidemill.client.report.svg import escaped, kind_of
from tidemill.figures import duration

Cell = str | int | float | None
_NUMBER = re.compile(r"[<\d., ]+( to [\d.,]+)?( %)?|unknown")


class Markup(str):
    """Text that is markup already: what it is made of has passed `escaped`."""


def panel(title: str, caption: str, *parts: str, wide: bool = False) -> str:
    """A panel with a heading and a sentence on what it shows; the parts are markup already."""
    kind = ' class="wide"' if wide else ""
    paragraph = f'<p class="soft">{escaped(caption)}</p>' if caption else ""
    return f"<section{kind}><h2>{escaped(title)}</h2>{paragraph}{''.join(parts)}</section>"


def figure(picture: str, key: str, data: str) -> str:
    """A picture, its key, and its figures as a table that opens."""
    return f"<figure>{picture}{key}</figure><details><summary>Figures</summary>{data}</details>"


def key_of(names: Iterable[str], failed: str = "", *, least: int = 2) -> str:
    """Which colour is which; nothing for fewer series than `least`."""
    listed = list(names)
    if len(listed) < least:
        return ""
    entries = (
        f'<li><svg viewBox="0 0 12 12" aria-hidden="true"><rect class="{kind_of(n, name == failed)}" width="12" '
        f'height="12"/></svg>{escaped(name, 80)}</li>'
        for n, name in enumerate(listed)
    )
    return f'<ul class="key">{"".join(entries)}</ul>'


def table(header: Sequence[str], rows: Iterable[Sequence[Cell]], caption: str = "") -> str:
    """A table. Numbers go to the right, and what is unknown is a dash."""
    body = [list(row) for row in rows]
    numeric = [bool(body) and all(_is_number(row[n]) for row in body) for n in range(len(header))]
    heads = "".join(
        f'<th scope="col"{_kind(right, "")}>{escaped(name)}</th>' for name, right in zip(header, numeric, strict=True)
    )
    lines = (
        "".join(f"<td{_kind(right, cell)}>{_said(cell)}</td>" for cell, right in zip(row, numeric, strict=True))
        for row in body
    )
    named = f"<caption>{escaped(caption)}</caption>" if caption else ""
    rows_of = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<div class="scroll"><table>{named}<thead><tr>{heads}</tr></thead><tbody>{rows_of}</tbody></table></div>'


def tiles(facts: Mapping[str, tuple[str, str]]) -> str:
    """Large figures: a name, the figure, and a remark."""
    parts = (
        f"<div><dt>{escaped(name)}</dt><dd>{escaped(value)}<small>{escaped(remark)}</small></dd></div>"
        for name, (value, remark) in facts.items()
    )
    return f'<dl class="tiles">{"".join(parts)}</dl>'


def number(value: float) -> str:
    """`1,234`, `0.25`, `12.5`."""
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def mebibytes(value: float) -> str:
    """`410 MiB`, `2 GiB`."""
    return f"{value:.0f} MiB" if value < 1024 else f"{value / 1024:.3g} GiB"


def usd(low: float | None, high: float | None = None) -> str:
    """`4.20`, `4.20 to 4.72`; four decimals below a cent."""
    if low is None:
        return "unknown"
    digits = 2 if max(low, high or 0) >= 0.1 else 4
    first, last = f"{low:,.{digits}f}", f"{low if high is None else high:,.{digits}f}"
    return first if first == last else f"{first} to {last}"


def percent(part: float, whole: float) -> str:
    """`12 %`, `0.3 %`, `< 0.1 %`."""
    value = 100 * part / whole if whole else 0.0
    if 0 < value < 0.1:
        return "< 0.1 %"
    return f"{value:.0f} %" if value >= 10 or value == int(value) else f"{value:.1f} %"


def seconds(value: float) -> str:
    """A duration on an axis."""
    return duration(value) if value else "0 s"


def _said(cell: Cell) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, Markup):
        return cell
    return escaped(number(cell) if isinstance(cell, (int, float)) else cell)


def _is_number(cell: Cell) -> bool:
    return not isinstance(cell, str) or bool(_NUMBER.fullmatch(cell))


def _kind(right: bool, cell: Cell) -> str:
    if right:
        return ' class="n"'
    return ' class="w"' if isinstance(cell, str) and len(cell) > 40 else ""
