"""`tidemill run`: a job on this machine, with workers as processes and no cloud at all."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from tidemill.cli.submit import ProgramAfterDashes, environment

if TYPE_CHECKING:
    from tidemill.backends.local import Desk
    from tidemill.client import Job, Pipeline, Status
    from tidemill.worker.capacity import Capacity
    from tidemill.worker.local import Keeper

DEFAULT_FOLDER = ".tidemill"
ITEM_SECONDS = 0.25
"""How long an item is expected to take: short, so that chunks are cut by how many CPUs share them."""
LOCK_SECONDS = 20.0
LOOK_SECONDS = 1.0
INTERRUPTED = 130


class Every(click.ParamType):
    """Seconds, as `30s`, `2m` or `30`."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """As click asks for."""
        match = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|h)?", str(value))
        seconds = float(match[1]) * {"s": 1, "m": 60, "h": 3600, None: 1}[match[2]] if match else 0.0
        if seconds < 0.1:
            self.fail(f"{value!r} is no time; allowed: 30s, 2m, 1h (at least 0.1s).", param, ctx)
        return seconds


@click.command(
    cls=ProgramAfterDashes,
    options_metavar="[OPTIONS]",
    epilog="Example: tidemill run --items tiles.txt -- python3 features.py {input} {output}",
)
@click.argument("uris", nargs=-1, metavar="[URI]... -- PROGRAM [ARGUMENT]...")
@click.option("--function", metavar="MODULE:FUNCTION", help="Call a Python function for each item instead of PROGRAM.")
@click.option("--python", "interpreter", metavar="PATH", help="Python that runs --function. Default: python3 on PATH.")
@click.option("--workers", type=click.IntRange(1, 1024), help="Items side by side. Default: as many as fit.")
@click.option("--items", metavar="FILE", help="Items, as `tidemill submit` takes them; - is standard input.")
@click.option("--store", metavar="URI", help=f"Job store, file:///folder. Default: ./{DEFAULT_FOLDER}")
@click.option("--name", help="Name of the job. Default: the program's. Another name is another job.")
@click.option("--memory", type=int, metavar="MIB", help="Memory limit of an item. Default: its share of the machine.")
@click.option("--chunk-size", type=int, help="Items that travel together. Default: chosen, and said.")
@click.option("--attempts", type=int, default=3, show_default=True, help="Attempts of an item, 1 to 10.")
@click.option("--timeout", type=int, default=3600, show_default=True, metavar="SECONDS", help="Limit of one attempt.")
@click.option("--output", metavar="URI", help="Prefix of the outputs. Default: out/JOB in the job store.")
@click.option("--env", "variables", multiple=True, metavar="KEY=VALUE", help="Variable of the program. Repeatable.")
@click.option("--code", metavar="DIR", help="Folder of code, packed and unpacked as for a cloud.")
@click.option("--pip-index", metavar="URL", help="Package index for its requirements.txt. Default: pip's own.")
@click.option("--wheelhouse", metavar="URI", help="Prefix of a store that holds the wheels for requirements.txt.")
@click.option("--reclaim-every", type=Every(), metavar="TIME", help="Rehearse Spot: take a worker away that often.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON with stable keys.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    uris: tuple[str, ...],
    function: str | None,
    interpreter: str | None,
    workers: int | None,
    items: str | None,
    store: str | None,
    name: str | None,
    memory: int | None,
    chunk_size: int | None,
    attempts: int,
    timeout: int,
    output: str | None,
    variables: tuple[str, ...],
    code: str | None,
    pip_index: str | None,
    wheelhouse: str | None,
    reclaim_every: float | None,
    as_json: bool,
) -> int:
    """Run a job on this machine: PROGRAM, or a Python function, once for every item.

    The same command again goes on where it was stopped or killed, and does nothing when all is done. The job store is
    a folder with the same contents as in a cloud, so every other verb works on it: --pipeline file:///…/pipeline.json.
    """
    program = list(ctx.obj or ())
    if bool(program) == bool(function):
        raise click.UsageError("give either a PROGRAM after --, or --function MODULE:FUNCTION.")
    if items is not None and uris:
        raise click.UsageError(f"--items is {items!r} and URIs are given too; give one of the two.")
    if interpreter is not None and not function and not code:
        raise click.UsageError("--python goes with --function or --code.")
    from tidemill.code import in_code
    from tidemill.worker.capacity import Capacity
    from tidemill.worker.local import Keeper

    # Everything that workers need is imported here, once; the keeper is forked before a store is opened.
    keeper = Keeper()
    try:
        capacity = Capacity.read()
        pipeline = local_pipeline(store, capacity, workers)
        job = pipeline.submit(
            absolute(program if code is None else in_code(program, code)) or None,
            items=[local_path(uri) for uri in uris] if items is None else items,
            function=function,
            name=name or default_name(program, function),
            memory_mib=memory,
            chunk_size=chunk_size,
            item_seconds=ITEM_SECONDS,
            attempts=attempts,
            timeout_seconds=timeout,
            output=output,
            env=environment(variables),
            code=code,
            pip_index=pip_index,
            wheelhouse=wheelhouse,
            say=lambda text: click.echo(text, err=True),
        )
        wanted = workers or capacity.slots(job.spec.resources)
        status, interrupted = run(
            pipeline, job, keeper, workers=wanted, reclaim_seconds=reclaim_every, interpreter=interpreter
        )
    finally:
        keeper.close()
    shown = show(pipeline, job, keeper, status, as_json)
    return INTERRUPTED if interrupted and status.remaining else shown


def run(
    pipeline: Pipeline,
    job: Job,
    keeper: Keeper,
    *,
    workers: int,
    reclaim_seconds: float | None,
    interpreter: str | None,
) -> tuple[Status, bool]:
    """Work on a job until it ends, or Ctrl-C stops it; returns its last status, and whether it was stopped."""
    from tidemill.backends.local import Desk
    from tidemill.cli.live import following
    from tidemill.ledger import Ledger
    from tidemill.worker.local import Run, forgive, open_chunks

    desk = Desk(pipeline.store.uri, job.id)
    with locked(desk, job.id) as lock:
        ledger = Ledger(pipeline.store, job.id)
        rounds = (
            (r.round, [c for a in r.arrays for c in a.all()], ledger.done_chunks(r.round)) for r in ledger.rounds()
        )
        chunks = [] if ledger.is_cancelled() else open_chunks(rounds)
        if not chunks:
            return job.status(), False
        forgive(ledger, chunks)
        scratch = os.environ.get("TIDEMILL_SCRATCH") or Path(tempfile.gettempdir(), f"tidemill-{os.getuid()}")
        plan = Run(
            pipeline.store.uri, job.id, chunks, workers, str(scratch), str(desk.logs), reclaim_seconds, interpreter
        )
        keeper.start(plan, lock.fileno())
        with following(job.id) as on_status:
            interrupted = watch(keeper, job, on_status)
        # Its last process holds the lock, by which a job that runs is told from one that does not.
        keeper.close()
    return job.status(), interrupted


def watch(keeper: Keeper, job: Job, on_status: Callable[[Status], None]) -> bool:
    """Show how it goes until the keeper says that it is over. Ctrl-C drains; twice, ends it at once.

    Returns:
        Whether there was a Ctrl-C.
    """
    try:
        while not keeper.wait(LOOK_SECONDS):
            on_status(job.status())
        return False
    except KeyboardInterrupt:
        click.echo("stopping: what is finished is kept, and the same command goes on from there.", err=True)
        keeper.drain()
        with suppress(KeyboardInterrupt):
            while not keeper.wait(LOOK_SECONDS):
                continue
        return True


def locked(desk: Desk, job: str) -> IO[bytes]:
    """The job's lock."""
    from tidemill.errors import CallerError

    lock = desk.lock(LOCK_SECONDS)
    if lock is None:
        raise CallerError(f"{job} is worked on by another `tidemill run`. Wait for its end, or choose another --name.")
    return lock


def show(pipeline: Pipeline, job: Job, keeper: Keeper, status: Status, as_json: bool) -> int:
    """The figures at the end."""
    from tidemill.cli.show import show_facts, show_json
    from tidemill.cli.wait import facts

    summary = job.summary(status)
    if as_json:
        show_json(status.to_json() | {"summary": summary.to_json(), "pipeline": pipeline.descriptor.uri})
    else:
        table = facts(status, summary) | {"pipeline": pipeline.descriptor.uri}
        if keeper.died:
            table["workers"] = (
                f"{keeper.died} died: tidemill logs {job.id} --worker --pipeline {pipeline.descriptor.uri}"
            )
        if status.note:
            table["note"] = status.note
        show_facts(table)
    return status.exit_code


# ---- what a cloud's user need not say ---------------------------------------------------------------------------


def local_pipeline(store: str | None, capacity: Capacity, workers: int | None) -> Pipeline:
    """This machine as a pipeline, with its descriptor written into the store."""
    from tidemill.backends.local import LocalBackend, describe_machine, folder_of, publish
    from tidemill.client import Pipeline

    folder = (
        Path(DEFAULT_FOLDER).absolute()
        if store is None
        else folder_of(store if "://" in store else f"file://{Path(store).absolute()}")
    )
    uri = folder.as_uri()
    cpus = max(1, int(capacity.cpus + 0.01))
    descriptor = describe_machine(uri, cpus, capacity.memory_mib, len(capacity.gpus), workers or cpus)
    return Pipeline(descriptor, publish(descriptor), LocalBackend(descriptor))


def default_name(program: Sequence[str], function: str | None) -> str:
    """A job's name after what it runs: `features` of `python3 features.py {input}`."""
    if function:
        text = function.replace(":", "-")
    else:
        words = [Path(word).name for word in program if not word.startswith("-") and "{" not in word]
        scripts = [word for word in words if re.fullmatch(r".*\.\w{1,4}", word)]
        text = Path((scripts or words or ["job"])[0]).stem
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-").lstrip("0123456789-")[:40]
    return name.rstrip("-") or "job"


def absolute(program: Sequence[str]) -> list[str]:
    """The program with the files of this folder by their full paths: items run in folders of their own."""
    return [str(Path(word).absolute()) if is_here(word) else word for word in program]


def is_here(word: str) -> bool:
    """Whether a word names a file by a relative path."""
    return (
        bool(word)
        and not word.startswith(("-", "/"))
        and "\0" not in word
        and len(word) < 1024
        and Path(word).is_file()
    )


def local_path(uri: str) -> str:
    """An item that names something by a relative path, by its full path."""
    return str(Path(uri).absolute()) if "://" not in uri and not uri.startswith("/") and os.path.lexists(uri) else uri
