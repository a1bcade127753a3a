"""Shows a transfer to a person: a bar on a terminal, a line now and then elsewhere. Both on stderr."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from tidemill.client.watch.live import LINE_SECONDS, clock, percent
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
    if not (sys.stderr.isatty() and os.environ.get("TERM") != "dumb"):
        meter.changed = _TransferLines(meter)
        yield
        return
    from rich.console import Console
    from rich.live import Live

    bar = _TransferBar(meter)
    with Live(console=Console(stderr=True), get_renderable=bar.render, refresh_per_second=4, transient=True):
        yield


class _TransferBar:
    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._started = time.monotonic()

    def render(self) -> RenderableType:
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        meter, passed = self._meter, time.monotonic() - self._started
        row = Table.grid(padding=(0, 2), expand=True)
        row.add_column(ratio=1)
        row.add_column(no_wrap=True)
        rate = meter.bytes / passed if passed else 0
        left = (meter.all_bytes - meter.bytes) / rate if rate else None
        rest = f"  {file_size(rate)}/s  {duration(max(0, left))} left" if left is not None and passed > 1 else ""
        bar = ProgressBar(max(1, meter.all_bytes), meter.bytes, complete_style="green", finished_style="green")
        row.add_row(bar, f"{words(meter)}  {clock(passed)}{rest}")
        return row


class _TransferLines:
    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._next = time.monotonic() + LINE_SECONDS

    def __call__(self) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + LINE_SECONDS
            click.echo(words(self._meter), err=True)


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
