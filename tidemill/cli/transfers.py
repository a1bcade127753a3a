"""Shows a transfer to a person: a bar on a terminal, a line now and then elsewhere. Both on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import click

from tidemill.client.watch.live import NowAndThen, bar_row, clock, percent, shown
from tidemill.figures import duration, file_size

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tidemill.client.upload.meter import Meter
    from tidemill.client.upload.session import Amount


@contextmanager
def watching(meter: Meter) -> Iterator[None]:
    """Show a transfer while the block runs."""
    if not meter.all_files:
        yield
        return
    lines, render = NowAndThen(), partial(_bar, meter, time.monotonic())
    with shown(lambda _: lines(words(meter)), lambda _: None, render, transient=True) as show:
        meter.changed = partial(show, None)
        yield


def _bar(meter: Meter, started: float) -> RenderableType:
    from rich.progress_bar import ProgressBar

    passed = time.monotonic() - started
    rate = meter.bytes / passed if passed else 0
    left = (meter.all_bytes - meter.bytes) / rate if rate else None
    rest = f"  {file_size(rate)}/s  {duration(max(0, left))} left" if left is not None and passed > 1 else ""
    bar = ProgressBar(max(1, meter.all_bytes), meter.bytes, complete_style="green", finished_style="green")
    return bar_row(bar, f"{words(meter)}  {clock(passed)}{rest}")


def words(meter: Meter) -> str:
    """`120/5000 files, 1.2 of 4 GiB, 30 %`."""
    share = meter.bytes / meter.all_bytes if meter.all_bytes else 1.0
    sizes = f"{file_size(meter.bytes)} of {file_size(meter.all_bytes)}"
    return f"{meter.files}/{meter.all_files} files, {sizes}, {percent(min(1.0, share))}"


def asking(yes: bool) -> Callable[[Amount], None]:
    """A question before a large upload, unless the caller has said yes.

    Raises:
        CallerError: There is no terminal to ask at.
        Abort: The answer is no.
    """

    def confirm(amount: Amount) -> None:
        from tidemill.errors import CallerError

        if yes:
            return
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise CallerError(
                f"{amount.words()} would be uploaded, and there is no terminal to ask at.",
                "Add --yes to upload them.",
                what="--yes",
            )
        click.confirm(f"Upload {amount.words()}?", default=True, abort=True, err=True)

    return confirm
