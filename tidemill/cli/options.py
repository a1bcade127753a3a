"""Options that every command has, and the pipeline they lead to."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import click

if TYPE_CHECKING:
    from tidemill.client import Job, Pipeline
    from tidemill.errors import TidemillError

PIPELINE = "TIDEMILL_PIPELINE"
LOCAL = Path(".tidemill", "pipeline.json")
"""Where `tidemill run` describes this machine, by default."""


def complete_pipeline(ctx: click.Context, param: click.Parameter, typed: str) -> list[str]:
    """Names of contexts that begin with what was typed."""
    from tidemill.cli import contexts

    return [name for name in contexts.names() if name.startswith(typed)]


def complete_secret(ctx: click.Context, param: click.Parameter, typed: str) -> list[str]:
    """Names of secrets of this machine that begin with what was typed. A cloud is not asked, see `complete_job`."""
    from tidemill.errors import TidemillError
    from tidemill.secrets.local import LocalSecrets

    try:
        return sorted(name for name in LocalSecrets().read() if name.startswith(typed))
    except TidemillError:
        return []


as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON with stable keys.")


def common(function: Callable[..., Any]) -> Callable[..., Any]:
    pipeline = click.option(
        "--pipeline",
        metavar="URI|NAME",
        envvar=PIPELINE,
        shell_complete=complete_pipeline,
        help=f"URI of the stack's pipeline.json, or a context's name. Default: {PIPELINE}, then `tidemill use`.",
    )
    return pipeline(as_json(function))


max_usd = click.option(
    "--max-usd", type=float, metavar="USD", help="New limit of the job's cost in USD, all rounds together."
)


def complete_job(ctx: click.Context, param: click.Parameter, typed: str) -> list[str]:
    """Names and ids of jobs that begin with what was typed. A cloud is not asked, which may take seconds and a login:
    those are its jobs that commands have seen."""
    from tidemill.errors import TidemillError

    try:
        uri = pipeline_uri(ctx.params.get("pipeline"))
    except (click.ClickException, TidemillError):
        return []
    if "://" in uri and not uri.startswith("file://"):
        from tidemill.cli.known_jobs import known_jobs

        ids = known_jobs(uri)
    else:
        store = Path(unquote(uri.removeprefix("file://"))).parent
        ids = [path.parent.name for path in store.glob("jobs/*/job.json")]
    both = {*ids, *(id_.rpartition("-")[0] for id_ in ids)}
    return sorted(one for one in both if one.startswith(typed))


job_argument = click.argument("job", metavar="JOB", shell_complete=complete_job)


def pipeline_uri(pipeline: str | None) -> str:
    """The URI of the pipeline to use: the given one (an option overrides the environment), else that of the context in
    use, else the store that `tidemill run` has made in this folder.

    Raises:
        UsageError: There is none of these.
    """
    from tidemill.cli import contexts

    if pipeline:
        # A name holds no slash, and a URI does.
        return pipeline if "/" in pipeline else contexts.read().uri(pipeline)
    saved = contexts.read()
    if saved.current is None:
        if LOCAL.exists():
            return LOCAL.absolute().as_uri()
        raise click.UsageError(
            f"--pipeline is not given, {PIPELINE} is not set and no context is in use; give the URI of the stack's "
            "pipeline.json (`pulumi stack output pipeline_uri`, or ask the stack's owner) once: `tidemill use URI`."
        )
    return saved.pipelines[saved.current]


def load(pipeline: str | None) -> Pipeline:
    """The pipeline that `--pipeline`, the environment or the context names."""
    uri = pipeline_uri(pipeline)
    from tidemill.client import Pipeline

    return Pipeline.load(uri)


def load_job(pipeline: str | None, job: str, *, explained: bool = False) -> Job:
    """A job of the pipeline, by its id or its name. For a name it is the newest, and its id is printed; where it is to
    be `explained`, also what keeps a template of that name from being sent."""
    from tidemill.cli.known_jobs import note_jobs

    there = load(pipeline)
    for words in there.templates.remarks(job) if explained else ():
        click.echo(words, err=True)
    loaded = there.job(job)
    note_jobs(pipeline_uri(pipeline), [loaded.id])
    if loaded.id != job:
        click.echo(f"Using the newest job named {job}: {loaded.id}", err=True)
    return loaded


# ---- keywords of the SDK, as they are typed -------------------------------------------------------------------------


def flags_of(command: click.Command | None) -> dict[str, str]:
    """By keyword: the flag that sets it."""
    params = command.params if command else []
    flags = {param.name or "": param.opts[0] for param in params if isinstance(param, click.Option)}
    if "no_state" in flags:
        flags["state"] = f"leave out {flags['no_state']}"
    return flags | ({"command": "PROGRAM after `--`"} if getattr(command, "takes_program", False) else {})


def as_typed(text: str, flags: Mapping[str, str]) -> str:
    """A text of the SDK with flags in place of those keywords that the command has.

    The SDK writes a keyword in backticks, alone or with a value in Python: `code='.'`.
    """

    def flag(found: re.Match[str]) -> str:
        typed, value = flags.get(found[1].replace(".", "_")), found[2]
        if typed is None or value is None or value == "True":
            return typed or found[0]
        from shlex import quote

        # In backticks still, because a full stop after `--code .` would read as part of it.
        return f"`{typed} {quote(value.strip(repr('')))}`"

    return re.sub(r"`([a-z_.]+)(?:=([^`]*))?`", flag, text)


def message_of(error: TidemillError, flags: Mapping[str, str]) -> str:
    """An error as a person reads it who typed the command."""
    keyword, _, key = error.what.partition(".")
    subject = flags.get(error.what.replace(".", "_")) or (key and keyword in flags and f"{flags[keyword]} {key}")
    text = str(error)
    # Items are arguments as well, and a pipeline may be of the environment.
    if (
        subject
        and error.what not in ("command", "items", "pipeline")
        and text.startswith((f"{error.what} is ", f"{error.what}: "))
    ):
        text = subject + text.removeprefix(error.what)
    return as_typed(text, flags)
