"""`tidemill template`: keep a submit, and send it again and again."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from tidemill.cli.job_options import (
    ProgramAfterDashes,
    arguments_of,
    how_it_runs,
    options,
    place_of_job,
    remarks,
    what_runs,
)
from tidemill.cli.options import common, load
from tidemill.cli.show import show_json, show_table

NAME = click.argument("name")
_NOT_KEPT = ("name", "secrets")
"""Keywords of a submit that a template does not have."""


@click.group(subcommand_metavar="save|send|history|pause|resume|rm ...")
def command() -> None:
    """Keep a submit under a name, and send it by hand; the stack's schedules and arrivals send it, too.

    `tidemill template save --help` shows how it is kept. `tidemill templates` lists what is kept.
    """


class SavedProgram(ProgramAfterDashes):
    """A submit without those options that a template does not have."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.params = [one for one in self.params if not (isinstance(one, click.Option) and one.name in _NOT_KEPT)]


@command.command(
    cls=SavedProgram,
    options_metavar="[OPTIONS]",
    epilog="Example: tidemill template save nightly --items 's3://raw/{time:%Y/%m/%d}/**.jpg' -- wc -c {input}",
)
@click.argument("template")
@place_of_job
@options("image")
@what_runs
@options("slots")
@how_it_runs
@options("changed", "new")
@common
@click.pass_context
def save(ctx: click.Context, /, *, template: str, pipeline: str | None, as_json: bool, **given: Any) -> int:
    """Keep a submit: PROGRAM runs once for every item of each send.

    Items, inputs, --output, --env, --tag and PROGRAM may hold the time that a send is for, as {time:%Y/%m/%d};
    {time-1d:%Y/%m/%d} is the day before. Code is uploaded now; items and inputs are in a store. Without items it
    sends files that arrive.
    """
    asked = arguments_of(ctx, given)
    saved = load(pipeline).templates.save(template, asked.pop("command"), asked.pop("items"), **asked)
    if as_json:
        show_json({"template": saved.name, "version": saved.version, "code": saved.code})
    else:
        click.echo(f"{saved.name}@{saved.version} is kept.", err=True)
    return 0


@command.command(epilog="Example: tidemill template send nightly --at 2026-11-23")
@NAME
@click.option("--at", metavar="TIME", help="Day or time that it is for: 2026-11-23, 2026-11-23T02:00. Default: now.")
@click.option("--schedule", metavar="SCHEDULE", help="Which schedule's time is meant, where several send it.")
@common
def send(*, name: str, at: str | None, schedule: str | None, pipeline: str | None, as_json: bool) -> int:
    """Send a template by hand. For a time of a schedule it is the schedule's own job."""
    from tidemill.cli.commands.submit import show_sent

    job = load(pipeline).templates.send(name, at, schedule=schedule, log=remarks(save))
    return show_sent(job, as_json, pipeline)


@command.command()
@NAME
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="How many, the newest first.")
@common
def history(*, name: str, limit: int, pipeline: str | None, as_json: bool) -> int:
    """List what became of a template's sends: sent, skipped, failed, denied or missed."""
    rows = load(pipeline).templates.history(name, limit)
    if as_json:
        show_json({"sends": [asdict(row) for row in rows]})
        return 0
    cells = [(row.time_words, row.trigger, row.outcome, row.job or row.reason, row.by) for row in rows]
    show_table(("time", "trigger", "outcome", "job or reason", "by"), cells)
    return 0


@command.command()
@NAME
@click.option("--reason", default="", help="Why, for those who ask.")
@common
def pause(*, name: str, reason: str, pipeline: str | None, as_json: bool) -> int:
    """Let schedules and arrivals send nothing of a template."""
    return _show_paused(name, load(pipeline).templates.pause(name, reason), as_json, paused=True)


@command.command()
@NAME
@common
def resume(*, name: str, pipeline: str | None, as_json: bool) -> int:
    """Let a template be sent again. Files that have arrived meanwhile are sent, times that are over are not."""
    return _show_paused(name, load(pipeline).templates.resume(name), as_json, paused=False)


def _show_paused(name: str, changed: bool, as_json: bool, *, paused: bool) -> int:
    if as_json:
        show_json({"template": name, "paused": paused, "changed": changed})
    else:
        state = "paused" if paused else "not paused"
        click.echo(f"{name} is {state}{' now' if changed else ' already'}.", err=True)
    return 0


@command.command()
@NAME
@common
def rm(*, name: str, pipeline: str | None, as_json: bool) -> int:
    """Remove a template. Its jobs and its history stay."""
    load(pipeline).templates.remove(name)
    if as_json:
        show_json({"template": name, "removed": True})
    else:
        click.echo(f"{name} is removed.", err=True)
    return 0
