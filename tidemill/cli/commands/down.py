"""`tidemill down`: take a personal pipeline away."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from tidemill.cli.options import as_json
from tidemill.cli.personal import Personal, Say, options, unlocked
from tidemill.cli.show import show_json
from tidemill.clouds.homes import home_name
from tidemill.errors import CallerError
from tidemill.figures import counted

if TYPE_CHECKING:
    from tidemill.client import Job

MOST_JOBS = 1000
"""Of those that are looked at before everything goes."""
SHOWN = 5
GOING = ("waiting", "running")


@click.command()
@click.option("--confirm", metavar="STACK", help="The stack's name, in place of typing it when asked.")
@click.option("--cancel-jobs", is_flag=True, help="Also with jobs that are not done: cancel them first.")
@options
@as_json
def command(*, confirm: str | None, cancel_jobs: bool, unlock: bool, as_json: bool, **place: Any) -> int:
    """Take your own pipeline away, with every job and result in its store.

    It says what goes, and asks for the stack's name. It refuses while jobs are not done.
    """
    say: Say = partial(click.echo, err=as_json)
    mine = Personal(**place)
    if confirm not in (None, mine.file.stack):
        raise CallerError.about("--confirm", confirm, f"{mine.file.stack}, the stack's name", "Nothing was deleted.")
    with mine.alone():
        removed = down(mine, say, confirm=confirm, cancel_jobs=cancel_jobs, unlock=unlock)
    if as_json:
        show_json({"stack": mine.file.stack, "removed": removed})
    return 0


def down(mine: Personal, say: Say, *, confirm: str | None, cancel_jobs: bool, unlock: bool) -> bool:
    """Returns False where there is nothing to take away."""
    home, last = mine.home(), mine.home_stack()
    if home is None and not last.unfinished:
        say(f"There is no {mine.file.stack} in {mine.account}.")
        return False
    # While the home's own state is on this machine, there is no pipeline, or none any more.
    stack = mine.stack(home) if home is not None else None
    running: list[Job] = []
    if unlock:
        unlocked(stack, last, say)
    if stack is not None:
        if not mine.file.path.exists():
            stack.restore_file()
        mine.file.config()
        check_alone(stack, mine)
        running = look(stack, say, cancel_jobs=cancel_jobs)
    if confirm is None:
        if not sys.stdin.isatty():
            raise click.UsageError(f"there is no terminal to ask on: give --confirm {mine.file.stack}.")
        if click.prompt(f"Everything of it is deleted. Type {mine.file.stack} to go on", err=True) != mine.file.stack:
            raise CallerError("That is another name.", "Nothing was deleted.")
    for job in running:
        say(f"Cancelling {job.id}.")
        job.cancel()
    if stack is not None:
        stack.remove(say)
    last.remove(home, say)
    mine.file.unbind()
    forget(mine.file.stack)
    say(f"Nothing of {mine.file.stack} is left in {mine.account}. {mine.file.path} stays, for another `tidemill up`.")
    return True


def check_alone(stack: Any, mine: Personal) -> None:
    """Refuse to delete a bucket that has the state of other stacks, too: nothing would manage what they have made.

    Raises:
        CallerError: It has.
    """
    own = (mine.file.stack, home_name(mine.name))
    if others := [name for name in stack.neighbours() if name.rpartition("/")[2] not in own]:
        raise CallerError(
            f"The state of {', '.join(others[:SHOWN])} is in the same bucket, which `tidemill down` deletes.",
            "Destroy and remove those stacks, or move their state: `pulumi stack export` and `import`.",
            what="stack",
            value=others[0],
        )


def look(stack: Any, say: Say, *, cancel_jobs: bool) -> list[Job]:
    """Say what goes; returns the jobs that are not done.

    Raises:
        CallerError: There are some, and they are not to be cancelled.
    """
    uri = stack.pipeline_uri()
    if uri is None:
        return []
    from tidemill.client import Pipeline

    pipeline = Pipeline.load(uri)
    rows = pipeline.jobs(MOST_JOBS, say)
    running = [row.job for row in rows if row.state in GOING]
    more = " or more" if len(rows) == MOST_JOBS else ""
    say(f"{pipeline.store.uri} goes, with {counted(len(rows), 'job')}{more} and their results, and the images.")
    if running and not cancel_jobs:
        are = "is" if len(running) == 1 else "are"
        raise CallerError(
            f"{counted(len(running), 'job')} {are} not done: {', '.join(running[:SHOWN])}.",
            "Wait for them, or give --cancel-jobs.",
            what="--cancel-jobs",
        )
    return [pipeline.job(name) for name in running]


def forget(name: str) -> None:
    from tidemill.cli import contexts

    saved = contexts.read()
    if saved.pipelines.pop(name, None) is not None:
        saved.current = None if saved.current == name else saved.current
        contexts.write(saved)
