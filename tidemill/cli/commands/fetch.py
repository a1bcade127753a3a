"""`tidemill fetch`: outputs of a job as files of this machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click

from tidemill.cli.commands.retry import indexes
from tidemill.cli.options import as_typed, common, flags_of, job_argument, load_job
from tidemill.cli.show import show_json, show_origins
from tidemill.figures import counted, file_size

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tidemill.client.results.fetch_report import FetchReport, ItemCount

PROBLEMS = 10
"""Files that could not be written that are printed."""


@click.command()
@job_argument
@click.option("--output", "-o", "folder", metavar="DIR", help="Folder of this machine. Default: ./JOB-ID.")
@click.option("--items", metavar="INDEXES", help="Only these items: 7, or 0-9,12,40-41.")
@click.option("--failed", is_flag=True, help="Only items that failed: with --logs or --state; they have no outputs.")
@click.option("--logs", is_flag=True, help="Also what each item printed, as logs/NAME.log.")
@click.option("--state", is_flag=True, help="Also the newest saved state of each item, as state/NAME.")
@click.option("--overwrite", is_flag=True, help="Replace files that no fetch wrote, or that were changed since.")
@click.option(
    "--name",
    metavar="TEMPLATE",
    default="{stem}",
    show_default=True,
    help="Names an item: {stem}, {name}, {path}, {index} or a metadata key. {ext} at its end makes it a file.",
)
@common
def command(*, job: str, folder: str | None, items: str | None, pipeline: str | None, as_json: bool, **how: Any) -> int:
    """Bring a job's outputs to this machine, a folder per item. Type it again to fetch what is missing."""
    handle = load_job(pipeline, job)
    show_origins(handle)
    some = None if items is None else indexes(items, handle.spec.items_total)
    with progress(handle.id) as on_report:
        report = handle.fetch(folder or handle.id, items=some, on_report=on_report, **how)
    report = typed(report)
    if as_json:
        show_json(asdict(report) | {"whole": report.whole})
    else:
        say(report, how["failed"], handle.run_command)
    return 0 if report.whole else 1


def typed(report: FetchReport) -> FetchReport:
    """The report with the command's flags in its texts."""
    problems = [(name, as_typed(why, flags_of(command))) for name, why in report.moved.problems]
    return replace(report, moved=replace(report.moved, problems=problems))


def say(report: FetchReport, failed: bool = False, run_command: str | None = None) -> None:
    """Print the fetched and the missing outputs. Items that `failed` have none. `run_command` runs those that have not
    finished, where no cloud does."""
    moved = report.moved
    later = f"`{run_command}` runs what is left" if run_command else "repeat the command later"
    there = f", {counted(moved.kept, 'file')} already there" if moved.kept else ""
    if not failed:
        click.echo(f"{report.folder}: outputs of {report.complete} of {counted(report.items, 'item')}; ", nl=False)
        click.echo(f"{counted(moved.files, 'file')} ({file_size(moved.bytes)}) fetched{there}.")
    elif not report.items:
        click.echo("No item has failed.")
    if report.logs is not None:
        click.echo(f"{report.folder}/logs: what {counted(report.logs, 'item')} printed.")
    if report.states is not None:
        click.echo(f"{report.folder}/state: the saved state of {counted(report.states, 'item')}.")
    for items, what in (
        (report.unfinished, f"{{have}} not finished; {later}"),
        (report.failed, "failed and {have} no outputs"),
        (report.gone, "{have} outputs that are not in the store any more: they expired or were deleted"),
    ):
        if items.count:
            click.echo(f"{named(items)} {what.format(have='has' if items.count == 1 else 'have')}.", err=True)
    for name, why in moved.problems[:PROBLEMS]:
        click.echo(f"{name} was not written: {why}.", err=True)
    if len(moved.problems) > PROBLEMS:
        click.echo(f"and {len(moved.problems) - PROBLEMS} more files.", err=True)


def named(items: ItemCount) -> str:
    """`3 items (1, 5, 7)`, `2,000 items (0, 1, ...)`."""
    some = ", ".join(map(str, items.first)) + (", ..." if items.count > len(items.first) else "")
    return f"{counted(items.count, 'item')} ({some})"


def progress(job: str) -> AbstractContextManager[Callable[[FetchReport], None]]:
    """A function to call with every report: a bar on a terminal, a line now and then elsewhere, both on stderr."""
    from tidemill.client.watch.live import NowAndThen, shown

    lines, bar = NowAndThen(), FetchBar(job)
    return shown(lambda report: lines(f"{job}: {figures(report)}"), bar, bar.render, transient=True)


class FetchBar:
    """A bar of items, with the files and bytes that have come."""

    def __init__(self, job: str) -> None:
        self._job, self._started = job, time.monotonic()
        self._report: FetchReport | None = None

    def __call__(self, report: FetchReport) -> None:
        self._report = report

    def render(self) -> RenderableType:
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        from tidemill.client.watch.live import bar_row

        report = self._report
        if report is None:
            return Text(f"{self._job}  reading which items have finished")
        speed = report.moved.bytes / max(0.1, time.monotonic() - self._started)
        done = report.items - report.unfinished.count if report.whole else report.complete
        return bar_row(self._job, ProgressBar(max(1, report.items), done), f"{figures(report)}, {file_size(speed)}/s")


def figures(report: FetchReport) -> str:
    moved = report.moved
    return f"{report.complete}/{report.items} items, {moved.files + moved.kept} files, {file_size(moved.bytes)} fetched"
