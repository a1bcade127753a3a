"""The lines of `tidemill top`, for any width from 40 columns on. What programs and items have said is made harmless."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from tidemill.cli.show import shortened
from tidemill.client.watch.live import failures, percent
from tidemill.figures import counted, duration
from tidemill.visible import visible

if TYPE_CHECKING:
    from tidemill.client.watch.board import BoardSnapshot
    from tidemill.client.watch.status import Status

WIDE, MIDDLE = 100, 72
"""Columns of the terminal from which more is shown."""
_COLUMNS = {
    WIDE: ("job", "state", "", "items", "%", "failed", "items/s", "left", "running", "cost"),
    MIDDLE: ("job", "state", "", "%", "failed", "items/s", "left"),
    0: ("job", "%", "failed", "left"),
}
_LEFT = ("job", "state")
_BAR, _LONGEST_BAR = 6, 60
_GAP = "  "
_STYLES = {"succeeded": "green", "lost": "bold red", "cancelled": "yellow", "waiting": "yellow"}
_KEYS = "q leaves, j and k choose"


def page(seen: BoardSnapshot, name: str, width: int, height: int | None = None, chosen: int = 0) -> list[Text]:
    """Everything, each line at most `width` wide; at most `height` lines, those of the chosen job among them."""
    chosen = min(chosen, len(seen.jobs) - 1)
    head = [_head(seen, name, width, keys=height is not None)]
    if seen.trouble:
        head.append(Text(_cut(f"the last look failed: {seen.trouble}", width), "bold red"))
    queues = _queues(seen, width)
    if height is None:
        return [*head, *_jobs(seen, width), *queues]
    details = _details(seen.jobs[chosen], width) if chosen >= 0 else []
    jobs = _jobs(seen, width, chosen)
    room = height - len(head) - len(details)
    # Queues give way to jobs, down to a third of the terminal.
    queues = queues[: max(room - len(jobs), room // 3)]
    titles, rows = jobs[:1], jobs[1:]
    shown = max(1, room - len(queues) - 1)
    at = next((n for n, line in enumerate(rows) if line.style == "reverse"), 0)
    first = max(0, min(at - shown // 2, len(rows) - shown))
    return [*head, *titles, *rows[first : first + shown], *queues, *details][:height]


def _head(seen: BoardSnapshot, name: str, width: int, *, keys: bool) -> Text:
    running = sum(job.state == "running" for job in seen.jobs)
    words = [f"{counted(len(seen.jobs), 'job')}, {running} running", f"{time.strftime('%H:%M:%S')}"]
    words += [f"looking at {len(seen.unseen)} more"] if seen.unseen else []
    words += [_KEYS] if keys else []
    return Text(_cut(_GAP.join([visible(name), *words]), width), "bold")


def _queues(seen: BoardSnapshot, width: int) -> list[Text]:
    return [
        Text(_cut(f"queue {row.name}: {row.state}{', ' if row.machines else ''}{row.machines}", width), "dim")
        for row in seen.queues
    ]


def _jobs(seen: BoardSnapshot, width: int, chosen: int = -1) -> list[Text]:
    """Titles, a line per job, and one below it where something is wrong."""
    titles = next(names for least, names in _COLUMNS.items() if width >= least)
    if not any(job.spent for job in seen.jobs):
        titles = tuple(title for title in titles if title != "cost")
    cells = [_cells(job, titles) for job in seen.jobs]
    widths = [max([len(title), *(len(row[n]) for row in cells)]) for n, title in enumerate(titles)]
    at_bar = titles.index("") if "" in titles else None
    if at_bar is not None:
        widths[at_bar] = _BAR
    spare = width - sum(widths) - len(_GAP) * (len(widths) - 1)
    if spare < 0:
        widths[0] = max(8, widths[0] + spare)
    elif at_bar is not None:
        widths[at_bar] = min(_LONGEST_BAR, _BAR + spare)
    lines = [Text(_cut(_row(titles, titles, widths), width), "dim")]
    for number, (job, row) in enumerate(zip(seen.jobs, cells, strict=True)):
        if at_bar is not None:
            row[at_bar] = bar(job, widths[at_bar])
        line = Text(_cut(_row(row, titles, widths), width), "reverse" if number == chosen else "")
        if number != chosen:
            line.stylize("yellow" if failures(job) else _STYLES.get(job.state, ""))
        lines.append(line)
        if wrong := _wrong(job):
            lines.append(Text(_cut(f"  {wrong}", width), _severity(job)))
    if not seen.jobs and not seen.unseen:
        lines.append(Text(_cut("No job runs. `tidemill jobs` lists those that have ended.", width)))
    return lines


def _cells(job: Status, titles: Sequence[str]) -> list[str]:
    ended, items = job.progress
    cells = {
        "job": job.job,
        "state": job.state_words,
        "items": f"{ended}/{items}",
        "%": percent(ended / items if items else 1.0),
        "failed": str(failures(job) or "-"),
        "items/s": f"{job.items_a_second:.3g}" if job.items_a_second and not job.ended else "-",
        "left": duration(job.seconds_left) if job.seconds_left and not job.ended else "-",
        "running": str(job.chunks.running or "-"),
        "cost": f"{job.spent.usd:.2f} of {job.spent.max_usd:g} USD" if job.spent else "-",
    }
    return [cells.get(title, "") for title in titles]


def bar(job: Status, width: int) -> str:
    """How much of a job has ended, in so many columns."""
    ended, items = job.progress
    full = width * ended // items if items else width
    return "━" * full + "·" * (width - full)


def _row(cells: Sequence[str], titles: Sequence[str], widths: Sequence[int]) -> str:
    parts = (
        shortened(cell, width).ljust(width) if title in _LEFT or not title else cell.rjust(width)
        for cell, title, width in zip(cells, titles, widths, strict=True)
    )
    return _GAP.join(parts)


def _wrong(job: Status) -> str:
    if job.explained:
        return job.explained.line
    return job.note or ""


def _severity(job: Status) -> str:
    return "bold red" if job.explained and job.explained.kind in ("act", "never") else "yellow"


def _details(job: Status, width: int) -> list[Text]:
    """The next command for the chosen job."""
    if job.run_command:
        then = f"{job.run_command} continues it"
    elif failures(job):
        then = f"tidemill failures {job.job}"
    else:
        then = f"tidemill {'report' if job.ended else 'explain'} {job.job}"
    return [Text(_cut(then, width), "dim")]


def _cut(text: str, width: int) -> str:
    """One harmless line that fits. What is cut off is the end."""
    line = " ".join(visible(text).split("\n"))
    short = Text(line)
    short.truncate(width, overflow="ellipsis")
    return short.plain
