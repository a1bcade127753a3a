"""`tidemill run`: a job on this machine, with workers as processes and no cloud at all."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

from tidemill import layout
from tidemill.cli.job_options import ProgramAfterDashes, arguments_of, how_it_runs, options, rehearsed, what_runs
from tidemill.cli.kinds import Duration
from tidemill.cli.options import PIPELINE, as_json, pipeline_uri
from tidemill.errors import CallerError, CloudError, StoreMissingError
from tidemill.folders import local_scratch

if TYPE_CHECKING:
    from tidemill.client import Job, Pipeline, Status
    from tidemill.clouds.local.desk import Desk, Origin
    from tidemill.worker.local.keeper_handle import KeeperHandle

LOCK_SECONDS = 20.0
LOOK_SECONDS = 1.0
INTERRUPTED = 130
REFUSED = CloudError.exit_code
OF_A_RUN = ("workers", "store", "python", "reclaim_every", "with_parent", "as_json")
"""Options about how a job runs here, not what it is."""
TYPED = ParameterSource.COMMANDLINE


@click.command(
    cls=ProgramAfterDashes,
    options_metavar="[OPTIONS]",
    epilog="Example: tidemill run --items tiles.txt -- python3 features.py {input} {output}",
)
@what_runs
@click.option("--job", metavar="JOB", help="Continue an existing job unchanged, such as after retry, resume or submit.")
@click.option("--workers", type=click.IntRange(1, 1024), help="Items side by side. Default: as many as fit.")
@click.option("--store", metavar="URI", help="Job store, file:///folder. Default: ./.tidemill")
@click.option("--python", metavar="PATH", help="Python that runs --function. Default: python3 on PATH.")
@options("memory_mib", memory_mib="Memory limit of an item: 2G; 96 MiB of it are the worker's. Default: its share.")
@how_it_runs
@options("changed", "new", "force")
@click.option("--reclaim-every", type=Duration(0.1), metavar="TIME", help="Simulate Spot: stop a worker this often.")
@click.option("--with-parent", is_flag=True, hidden=True, help="End when the process that has started it ends.")
@as_json
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    job: str | None,
    workers: int | None,
    store: str | None,
    python: str | None,
    reclaim_every: float | None,
    with_parent: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Run a job on this machine: PROGRAM, or a Python function, once for every item.

    Type the same command again to continue a job that was stopped or killed. The job store is a folder with the same
    contents as in a cloud, so every other command works on it (--pipeline file:///…/pipeline.json). Without --name the
    job is named after its program.
    """
    bench = LocalSettings(store, workers, python, reclaim_every)
    with keeping(with_parent=with_parent) as keeper:
        if job:
            check_alone(ctx)
            send = lambda pipeline: pipeline.job(job)  # noqa: E731
        else:
            asked = rehearsed(asked_of(ctx, given, python), reclaim_every)
            send = lambda pipeline: pipeline.submit(**asked)  # noqa: E731
        return work(send, bench, keeper, continues=bool(job), as_json=as_json)


class LocalSettings(NamedTuple):
    """How a job runs here, not what it is."""

    store: str | None
    workers: int | None
    interpreter: str | None
    reclaim_seconds: float | None


def keeping(*, with_parent: bool = False) -> closing[KeeperHandle]:
    """A keeper, until the block ends. It prepares for its workers while the caller finds out what they are to do."""
    from tidemill.worker.local.keeper_handle import KeeperHandle

    return closing(KeeperHandle(os.getppid() if with_parent else None))


def work(
    send: Callable[[Pipeline], Job], bench: LocalSettings, keeper: KeeperHandle, *, continues: bool, as_json: bool
) -> int:
    """Send a job to this machine, or find one that `continues`, and work on it; returns the exit code."""
    from tidemill.machine import Capacity

    capacity = Capacity.read()
    if continues:
        check_store(bench.store)
    pipeline = local_pipeline(bench.store, bench.workers)
    job = send(pipeline)
    if continues and job.cancelled:
        raise CallerError(f"{job.id} is cancelled.", f"`tidemill resume {job.id}` enqueues what is left of it.")
    if continues and job.spec.secrets:
        from tidemill.client.secrets import check_set

        check_set(pipeline.site, job.spec.secrets)
    for words in job.stale() if continues else ():
        click.echo(words, err=True)
    wait_for_others(job)
    wanted = bench.workers or capacity.slots(job.spec.resources)
    origin = origin_of(pipeline, job, continues=continues, interpreter=bench.interpreter, workers=wanted)
    seconds = bench.reclaim_seconds
    status, interrupted = run(pipeline, job, keeper, workers=wanted, reclaim_seconds=seconds, origin=origin)
    shown = show(pipeline, job, keeper, status, as_json)
    return INTERRUPTED if interrupted and status.remaining else shown


def wait_for_others(job: Job) -> None:
    """Wait for the jobs that a job runs after, as long as runs work on them.

    Raises:
        CallerError: They do not run, or the job can never begin.
    """
    shown = ""
    while job.spec.after and ((status := job.status(consumption=False)).waits_for or status.state == "cancelled"):
        if status.ended:
            raise CallerError(f"{job.id} {'cannot begin: ' if job.cancelled else ''}{status.note}.")
        if status.note and status.note != shown:
            click.echo(f"{job.id} {status.note}", err=True)
            shown = status.note
        time.sleep(LOOK_SECONDS)


def asked_of(ctx: click.Context, given: dict[str, Any], interpreter: str | None) -> dict[str, Any]:
    """A new job, as keyword arguments of `Pipeline.submit`. Relative paths become full ones, because items run in
    folders of their own.

    Raises:
        UsageError: No program, or a program and a function.
    """
    asked = arguments_of(ctx, given)
    if isinstance(asked["items"], list):
        asked["items"] = [local_path(uri) for uri in asked["items"]]
    return typed_here(asked, interpreter)


def typed_here(asked: dict[str, Any], interpreter: str | None = None) -> dict[str, Any]:
    """The options as typed, with the program's code opened and a name.

    Raises:
        UsageError: No program, or a program and a function.
    """
    from tidemill.client.program.check import name_of
    from tidemill.client.program.git_code import opened

    program, function, code = asked["command"] or [], asked["function"], opened(asked["code"])
    if bool(program) == bool(function):
        raise click.UsageError("give either a PROGRAM after --, or --function MODULE:FUNCTION.")
    if interpreter is not None and not function and not code:
        raise click.UsageError("--python goes with --function or --code.")
    if interpreter is not None and shutil.which(interpreter) is None:
        raise CallerError.about("--python", interpreter, "a Python of this machine", "Give its path, or leave it out.")
    return asked | {"code": code, "command": program or None, "name": asked["name"] or name_of(program, function)}


def check_alone(ctx: click.Context) -> None:
    """Refuse options that would change a job that is continued.

    Raises:
        UsageError: Something is given that would make it another.
    """
    given = [param for param in ctx.command.params if ctx.get_parameter_source(param.name or "") is TYPED]
    others = [param.opts[0] for param in given if param.name not in ("job", *OF_A_RUN)]
    if ctx.obj or others:
        what = "a program" if ctx.obj else others[0]
        raise click.UsageError(f"--job continues a job as it was sent; leave {what} out.")


def origin_of(pipeline: Pipeline, job: Job, *, continues: bool, interpreter: str | None, workers: int) -> Origin:
    """Where the job was first typed: the folder that modules are imported from, and the Python that does it."""
    from tidemill.clouds.local.desk import Desk, Origin

    desk = Desk(pipeline.store.uri, job.id)
    before = desk.origin() if continues else None
    python = interpreter or (before.python if before else None)
    if continues and interpreter is not None and interpreter != sys.executable:
        from tidemill.client.program.made_with import check_python

        check_python(pipeline.site, job.spec, interpreter)
    origin = Origin(before.folder if before else os.getcwd(), python, workers)
    desk.remember(origin)
    return origin


def run(
    pipeline: Pipeline, job: Job, keeper: KeeperHandle, *, workers: int, reclaim_seconds: float | None, origin: Origin
) -> tuple[Status, bool]:
    """Work on a job until it ends, or Ctrl-C stops it; returns its last status, and whether it was stopped."""
    from tidemill.client.program.newer_files import changed_while
    from tidemill.client.rounds.rounds import enqueue_cancelled
    from tidemill.client.watch.live import following
    from tidemill.clouds.local.desk import Desk
    from tidemill.ledger import Ledger
    from tidemill.services.local.lease import Run, deaths_of
    from tidemill.worker.local.keeper_handle import forgive, open_chunks

    desk = Desk(pipeline.store.uri, job.id)
    began = time.time()
    with locked(desk, job.id, keeper) as lock:
        ledger = Ledger(pipeline.store, job.id)
        if len(ledger.rounds()) > 1:
            enqueue_cancelled(pipeline.site, job.spec)
        rounds = (
            (r.round, [c for a in r.arrays for c in a.all()], ledger.done_chunks(r.round)) for r in ledger.rounds()
        )
        chunks = [] if ledger.is_cancelled() else open_chunks(rounds)
        if not chunks:
            return job.status(), False
        died = deaths_of(desk.logs)
        forgive(ledger, chunks, died.read_text().split() if died.exists() else ())
        plan = Run(
            pipeline.store.uri,
            job.id,
            chunks,
            workers,
            scratch=str(local_scratch()),
            logs=str(desk.logs),
            folder=origin.folder,
            reclaim_seconds=reclaim_seconds,
            python=origin.python,
        )
        keeper.start(plan, lock.fileno())
        with following(job.id) as on_status:
            interrupted = watch(keeper, job, on_status)
        tell(keeper)
        # Its last process holds the lock, which marks the job as running.
        keeper.close()
    if not ledger.store.exists(layout.spec(job.id)):
        raise StoreMissingError(f"{ledger.store.uri} does not hold {job.id} any more.", "Put the job store back.")
    for words in changed_while(ledger, job.spec, began):
        click.echo(words, err=True)
    status = job.status(running=True)
    if interrupted and status.remaining:
        ended, items = status.progress
        click.echo(f"{ended} of {items} items are done and kept.", err=True)
    return status, interrupted


def watch(keeper: KeeperHandle, job: Job, on_status: Callable[[Status], None]) -> bool:
    """Show progress until the run is over. Ctrl-C drains; a second Ctrl-C ends it at once.

    Returns:
        Whether there was a Ctrl-C.
    """
    try:
        while not keeper.wait(LOOK_SECONDS):
            tell(keeper)
            on_status(job.status(running=True))
            if keeper.alone:
                raise KeyboardInterrupt
        return False
    except KeyboardInterrupt:
        click.echo("stopping: finished items are kept, and the same command continues the job.", err=True)
        keeper.drain()
        with suppress(KeyboardInterrupt):
            while not keeper.wait(LOOK_SECONDS):
                continue
        return True


def tell(keeper: KeeperHandle) -> None:
    while keeper.notes:
        click.echo(f"note: {keeper.notes.pop(0)}", err=True)
    if keeper.error:
        click.echo(f"the workers cannot continue: {keeper.error}", err=True)
        click.echo("Finished items are kept. Fix that, then type the same command again.", err=True)


def locked(desk: Desk, job: str, keeper: KeeperHandle) -> IO[bytes]:
    """The job's lock. A run that lives as long as another process waits for it as long, others only a little."""
    while (lock := desk.lock(LOCK_SECONDS)) is None:
        if keeper.parent is None or keeper.alone:
            raise CallerError(
                f"{job} is worked on by another `tidemill run`.",
                f"`tidemill wait {job}` shows how it goes; or choose another --name.",
            )
    return lock


def show(pipeline: Pipeline, job: Job, keeper: KeeperHandle, status: Status, as_json: bool) -> int:
    from tidemill.cli.commands.wait import facts
    from tidemill.cli.show import show_facts, show_json

    summary = job.summary(status)
    if as_json:
        show_json(status.to_json() | {"summary": summary.to_json(), "pipeline": pipeline.descriptor.uri})
    else:
        where = "" if leads_to(pipeline.descriptor.uri) else f" --pipeline {pipeline.descriptor.uri}"
        table = facts(job, status, summary, where) | {"pipeline": pipeline.descriptor.uri}
        if keeper.died:
            table["workers"] = f"{keeper.died} died: tidemill logs {job.id} --worker{where}"
        show_facts(table)
    if keeper.error and status.remaining and not job.cancelled:
        return REFUSED
    return status.exit_code or int(status.state != "succeeded")


def leads_to(uri: str) -> bool:
    """True if commands that are typed here without --pipeline use this one."""
    try:
        return pipeline_uri(os.environ.get(PIPELINE)) == uri
    except (click.UsageError, CallerError):
        return False


# ---- this machine in place of a cloud ---------------------------------------------------------------------------


def local_pipeline(store: str | None, workers: int | None) -> Pipeline:
    """This machine as a pipeline, with its descriptor in the store: a folder, its URI, or None for the default."""
    from tidemill.client import Pipeline
    from tidemill.client.this_machine import describe_here
    from tidemill.services.local.backend import LocalBackend, publish

    descriptor = describe_here(store, workers)
    return Pipeline(descriptor, publish(descriptor), LocalBackend(descriptor))


def check_store(store: str | None) -> None:
    """Refuse a folder that cannot hold the job that is named."""
    from tidemill.client.this_machine import folder_here

    folder = folder_here(store)
    if not (folder / layout.JOBS).is_dir():
        raise click.UsageError(f"{folder} is not a job store; give the one that holds the job: --store FOLDER.")


def local_path(uri: str) -> str:
    return str(Path(uri).absolute()) if "://" not in uri and not uri.startswith("/") and os.path.lexists(uri) else uri
