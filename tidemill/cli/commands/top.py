"""`tidemill top`: running jobs, live."""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from tidemill.cli.options import common, load
from tidemill.cli.show import show_json, show_table
from tidemill.figures import duration

if TYPE_CHECKING:
    from tidemill.client.watch.board import Board
    from tidemill.client.watch.machines import MachineRow
    from tidemill.descriptor import Descriptor

HEADER = ("machine", "type", "zone", "market", "age", "items", "GPUs", "jobs")
LEAVE_SECONDS = 1.0
"""A look that is under way when somebody leaves is not waited for any longer."""


@click.command()
@click.argument("jobs", nargs=-1, metavar="[JOB]...")
@click.option("--once", is_flag=True, help="Print one snapshot. Default where the output is no terminal.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="How many, the newest first.")
@click.option("--machines", is_flag=True, help="Print the machines that work on the jobs instead, once.")
@common
def command(
    *, jobs: tuple[str, ...], once: bool, limit: int, machines: bool, pipeline: str | None, as_json: bool
) -> int:
    """Watch running jobs and the queues' machines: q leaves, j and k or arrows choose.

    It makes at most a request per second, however many jobs there are. Of large jobs it lists a part at a time, so
    their counts are estimates until they end.
    """
    from tidemill.client.watch.board import Board

    loaded = load(pipeline)
    if machines:
        show_machines(loaded.machines(*jobs), as_json)
        return 0
    board = Board(loaded.site, [loaded.job(job).spec for job in dict.fromkeys(jobs)], limit)
    if as_json:
        show_json(board.whole().to_json())
    elif once or not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        _print(board, name_of(loaded.descriptor))
    else:
        watch(board, name_of(loaded.descriptor))
    return 0


def show_machines(rows: list[MachineRow], as_json: bool) -> None:
    if as_json:
        show_json({"machines": [asdict(row) for row in rows]})
    elif rows:
        show_table(HEADER, [_cells(row) for row in rows])
    else:
        click.echo("No machine works on these jobs.", err=True)


def _cells(row: MachineRow) -> tuple[object, ...]:
    age = "-" if row.age_seconds is None else duration(row.age_seconds)
    where = [each or "-" for each in (row.id, row.type, row.zone, (row.market or "").replace("_", "-"))]
    return *where, age, row.items, row.gpus, ", ".join(row.jobs)


def name_of(descriptor: Descriptor) -> str:
    """`vision-dev`."""
    return f"{descriptor.team}-{descriptor.environment}"


def _print(board: Board, name: str) -> None:
    from rich.console import Console

    from tidemill.cli.board_lines import page

    console = Console(highlight=False)
    for line in page(board.whole(), name, console.width):
        console.print(line, soft_wrap=True)


def watch(board: Board, name: str) -> None:
    """Show the board until somebody leaves. The terminal is as it was afterwards, whatever ends this."""
    from rich.console import Console, Group
    from rich.live import Live

    from tidemill.cli.board_lines import page
    from tidemill.cli.terminal import Keys

    looker = _BoardThread(board)
    console = Console(highlight=False)
    chosen = 0
    with Keys() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        looker.start()
        while not looker.failure:
            seen = board.snapshot()
            chosen = max(0, min(chosen, len(seen.jobs) - 1))
            live.update(Group(*page(seen, name, console.width, console.height, chosen)), refresh=True)
            key = keys.read(1.0)
            if key == "q":
                break
            chosen += {"down": 1, "up": -1}.get(key, 0)
    looker.leave()


class _BoardThread(threading.Thread):
    """Looks at the jobs. Its unexpected end ends the view."""

    def __init__(self, board: Board) -> None:
        super().__init__(name="looker", daemon=True)
        self._board, self._over = board, threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._over.wait(self._board.step()):
                pass
        except BaseException as error:
            self.failure = error

    def leave(self) -> None:
        """End it. A look that hangs keeps no one waiting."""
        self._over.set()
        self.join(LEAVE_SECONDS)
        if self.failure:
            raise self.failure
        if self.is_alive():
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
