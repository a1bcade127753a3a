"""Shows a job while it runs: a live view on a terminal, a line at each change elsewhere. Both on stderr."""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tidemill.figures import counted, duration

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    from tidemill.client.watch.status import Status

Seen = TypeVar("Seen")
WINDOW_SECONDS = 120.0
"""The speed is that of the last two minutes: workers report progress once a minute, so a shorter window jumps."""
LINE_SECONDS = 10.0
"""Where there is no terminal, figures are printed at most this often; a new state of the job is printed at once."""


class Speed:
    """Items per second over the last minutes, from how many had ended at each status."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._looks: deque[tuple[float, int]] = deque()
        self._items = 0

    def look(self, status: Status) -> None:
        now = self._clock()
        ended, items = status.progress
        if self._looks and (items != self._items or ended < self._looks[-1][1]):
            # Something was enqueued, so the count is of something else now.
            self._looks.clear()
        self._items = items
        self._looks.append((now, ended))
        # One status older than the window stays, so that the whole window is covered.
        while len(self._looks) > 2 and self._looks[1][0] <= now - WINDOW_SECONDS:
            self._looks.popleft()

    @property
    def items_a_second(self) -> float | None:
        """Items per second; None while nothing has ended since the first status."""
        if len(self._looks) < 2:
            return None
        (start, before), (end, after) = self._looks[0], self._looks[-1]
        return (after - before) / (end - start) if end > start and after > before else None

    @property
    def seconds_left(self) -> float | None:
        rate = self.items_a_second
        return (self._items - self._looks[-1][1]) / rate if rate else None


@contextmanager
def shown(
    lines: Callable[[Seen], None],
    view: Callable[[Seen], None],
    render: Callable[[], RenderableType],
    *,
    transient: bool = False,
) -> Iterator[Callable[[Seen], None]]:
    """A function to call with all that happens: a live view on a terminal, lines elsewhere."""
    if not (sys.stderr.isatty() and os.environ.get("TERM") != "dumb"):
        yield lines
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    with Live(console=console, get_renderable=render, refresh_per_second=4, transient=transient):
        yield view


def following(job: str) -> AbstractContextManager[Callable[[Status], None]]:
    """A function to call with every status of a job."""
    view = View(job)
    return shown(Lines(job), view, view.render)


@contextmanager
def showing(job: str, wanted: bool | None) -> Iterator[Callable[[Status], None]]:
    """Like `following`, but only where a person watches: in a notebook or on a terminal. `wanted` overrules that."""
    if wanted is False or (wanted is None and not in_notebook() and not sys.stderr.isatty()):
        yield lambda status: None
    elif in_notebook():
        yield Cell(job)
    else:
        with following(job) as view:
            yield view


def in_notebook() -> bool:
    """True if the program is a notebook's kernel, whose output goes to a page."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


class Cell:
    """The view in a notebook: a bar with the count, and a line of figures under it."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._speed = Speed()
        self._shown: Any = None
        self._last = ""

    def __call__(self, status: Status) -> None:
        from html import escape

        display: Any = import_module("IPython.display")
        self._speed.look(status)
        ended, items = status.progress
        words = ", ".join(word for word, _ in figures_of(status, self._speed))
        text = (
            f"<code>{escape(self._job)}</code> <progress value={ended} max={max(items, 1)}></progress> "
            f"{escape(count(status))}<br>{escape(words)}"
        )
        if text == self._last:
            return
        self._last = text
        if self._shown is None:
            self._shown = display.display(display.HTML(text), display_id=True)
        else:
            self._shown.update(display.HTML(text))


class View:
    """The live view: a bar with the count, and a line of figures under it."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._status: Status | None = None
        self._speed = Speed()
        self._started = time.monotonic()

    def __call__(self, status: Status) -> None:
        self._status = status
        self._speed.look(status)

    def render(self) -> RenderableType:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        passed = clock(time.monotonic() - self._started)
        status = self._status
        if status is None:
            return Text(f"{self._job}  {passed}  asking the store and the queue")
        ended, items = status.progress
        style = "yellow" if failures(status) else "green"
        bar = ProgressBar(max(items, 1), ended, complete_style=style, finished_style=style)
        row = bar_row(self._job, bar, f"{count(status)}  {percent(ended / items if items else 1.0)}  {passed}")
        figures: Any = Text(", ").join(Text(word, style) for word, style in figures_of(status, self._speed))
        return Group(row, figures)


class Lines:
    """Prints a status when the job's state changes, and figures at intervals."""

    def __init__(self, job: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._job = job
        self._clock = clock
        self._speed = Speed(clock)
        self._last = ""
        self._event: tuple[object, ...] = ()
        self._next = 0.0

    def __call__(self, status: Status) -> None:
        self._speed.look(status)
        words = ", ".join(word for word, _ in figures_of(status, self._speed))
        line = f"{self._job}: {count(status)}, {words}"
        event = (status.state, bool(status.chunks.lost), status.note)
        if line != self._last and (event != self._event or self._clock() >= self._next):
            click.echo(line, err=True)
            self._last, self._event, self._next = line, event, self._clock() + LINE_SECONDS


class NowAndThen:
    """Prints one of the lines that it is called with, at intervals."""

    def __init__(self) -> None:
        self._next = time.monotonic() + LINE_SECONDS

    def __call__(self, line: str) -> None:
        if (now := time.monotonic()) >= self._next:
            self._next = now + LINE_SECONDS
            click.echo(line, err=True)


def bar_row(*cells: str | ProgressBar) -> Table:
    """A row as wide as the terminal, of which a bar takes what the words leave."""
    from rich.table import Table

    row = Table.grid(padding=(0, 2), expand=True)
    for cell in cells:
        row.add_column(no_wrap=True) if isinstance(cell, str) else row.add_column(ratio=1)
    row.add_row(*cells)
    return row


def count(status: Status) -> str:
    """`105/500 items`, `3/5 items again`."""
    ended, items = status.progress
    return f"{ended}/{items} items" + (" again" if status.again and not status.remaining else "")


def failures(status: Status) -> int:
    """Failed items; while only a retry runs, those that failed again, because the old failures are what runs."""
    return status.again.failed if status.again and not status.remaining else status.failed


def figures_of(status: Status, speed: Speed) -> list[tuple[str, str]]:
    chunks = status.chunks
    failed = failures(status)
    words = [(f"{failed} failed", "bold red")] if failed else []
    words += [(counted(status.reclaims, "reclaim"), "yellow")] if status.reclaims and not status.run_command else []
    words += [(f"{len(chunks.lost)} lost", "yellow")] if chunks.lost and not status.run_command else []
    if not status.ended:
        words += [(f"{counted(chunks.running, 'chunk')} running", "")] if chunks.running else []
        waiting = str(chunks.waiting) if chunks.running else counted(chunks.waiting, "chunk")
        words += [(f"{waiting} waiting", "")] if chunks.waiting else []
        rate, left = speed.items_a_second, speed.seconds_left
        words += [(f"{rate:.3g} items/s", "")] if rate else []
        words += [(f"{duration(left)} left", "")] if left else []
    if status.spent and not status.ended:
        words.append((status.spent.words(), ""))
    if status.explained:
        words.append((status.explained.line, "bold red" if status.explained.kind in ("act", "never") else "yellow"))
    elif status.note and status.state in ("waiting", "lost", "paused"):
        words.append((status.note, "yellow"))
    return words or [(status.state_words, "")]


def percent(share: float) -> str:
    """Rounded down: 100 % means that all is done."""
    return f"{int(share * 100)} %"


def clock(passed: float) -> str:
    """`0:07`, `1:02:03`."""
    hours, rest = divmod(int(passed), 3600)
    minutes, left = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"
