"""`tidemill retry`: run finished items again, and dead letters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

import click

from tidemill import layout
from tidemill.cli.commands.resume import enqueued, sentence
from tidemill.cli.kinds import Size
from tidemill.cli.options import common, job_argument, load_job, max_usd, pipeline_uri
from tidemill.cli.show import show_json

if TYPE_CHECKING:
    from tidemill.client.rounds.rounds import RoundResult


@click.command()
@job_argument
@click.option("--failed", is_flag=True, help="Every item that failed.")
@click.option("--group", metavar="ID", help="Every item of a group that `tidemill failures` shows.")
@click.option("--items", metavar="INDEXES", help="Items by their indexes: 7, or 0-9,12,40-41.")
@click.option("--dead", is_flag=True, help="Dead letters: chunks that reached the delivery limit (GCP).")
@click.option("--code", metavar="DIR|GIT", help="Code for this and later rounds; see `tidemill submit --help`.")
@click.option("--lib", "libs", multiple=True, metavar="DIR", help="Folder to add to the code, under its own name.")
@click.option("--memory", type=Size(), metavar="SIZE", help="Memory of each item from now on: 512M, 8G.")
@max_usd
@click.option("--run", "runs", is_flag=True, help="Run them at once, in a pipeline of this machine.")
@common
def command(
    *,
    job: str,
    failed: bool,
    group: str | None,
    items: str | None,
    dead: bool,
    code: str | None,
    libs: tuple[str, ...],
    memory: int | None,
    max_usd: float | None,
    runs: bool,
    pipeline: str | None,
    as_json: bool,
) -> int:
    """Run finished items again; the new outcomes replace the old ones. Give --failed, --group, --items or
    --dead. On this machine, --run also does what `tidemill run --job JOB` does."""
    if failed + (group is not None) + (items is not None) + dead != 1:
        raise click.UsageError("give one of --failed, --group, --items and --dead.")
    changes = {"--code": code, "--lib": libs or None, "--memory": memory, "--max-usd": max_usd}
    if dead and (given := [option for option, value in changes.items() if value is not None]):
        raise click.UsageError(
            f"{given[0]} goes with --failed, --group or --items: dead letters run as they were sent."
        )

    def send() -> RoundResult:
        handle = load_job(pipeline, job)
        if runs and handle.run_command is None:
            raise click.UsageError("--run goes with a pipeline of this machine; a cloud runs what is enqueued.")
        if dead:
            return handle.retry_dead()
        some = None if items is None else indexes(items, handle.spec.items_total)
        log = partial(click.echo, err=True)
        return handle.retry(some, code=code, max_usd=max_usd, group=group, memory=memory, libs=libs, log=log)

    if runs:
        return send_and_run(send, pipeline_uri(pipeline), as_json)
    sent = send()
    if as_json:
        show_json(asdict(sent))
    else:
        click.echo(sentence(sent))
    return 0


def send_and_run(send: Callable[[], RoundResult], pipeline: str, as_json: bool) -> int:
    """Enqueue a round, and work on its job as `tidemill run` does; returns the exit code."""
    from tidemill.cli.commands.run import LocalSettings, keeping, work

    # The keeper is forked before a store is opened.
    with keeping() as keeper:
        sent = send()
        click.echo(enqueued(sent), err=True)
        store = pipeline.removesuffix(f"/{layout.DESCRIPTOR}") or "/"
        bench = LocalSettings(store, None, None, None)
        return work(lambda here: here.job(sent.job), bench, keeper, continues=True, as_json=as_json)


def indexes(text: str, total: int) -> list[int]:
    """`0-2,7` as `[0, 1, 2, 7]`."""
    items: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not (first.isdecimal() and (last.isdecimal() if dash else not last)) or int(last or first) < int(first):
            raise click.UsageError(f"--items is {text!r}; allowed: indexes and ranges, such as 0-9,12.")
        if int(last or first) >= total:
            raise click.UsageError(f"--items is {text!r}; the job has the items 0 to {total - 1}.")
        items.extend(range(int(first), int(last or first) + 1))
    return items
