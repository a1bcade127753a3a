"""Options that every command has, and the pipeline they lead to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from tidemill.client import Job, Pipeline

PIPELINE = "TIDEMILL_PIPELINE"
LOCAL = Path(".tidemill", "pipeline.json")
"""Where `tidemill run` describes this machine, by default."""


def complete_pipeline(ctx: click.Context, param: click.Parameter, typed: str) -> list[str]:
    """Names of contexts that begin with what was typed."""
    from tidemill.cli import contexts

    return [name for name in contexts.names() if name.startswith(typed)]


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
job_argument = click.argument("job", metavar="JOB")


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
    known = contexts.read()
    if known.current is None:
        if LOCAL.exists():
            return LOCAL.absolute().as_uri()
        raise click.UsageError(
            f"--pipeline is not given, {PIPELINE} is not set and no context is in use; give the URI of the stack's "
            "pipeline.json (`pulumi stack output pipeline_uri`, or ask the stack's owner) once: `tidemill use URI`."
        )
    return known.pipelines[known.current]


def load(pipeline: str | None) -> Pipeline:
    """The pipeline that `--pipeline`, the environment or the context names."""
    uri = pipeline_uri(pipeline)
    from tidemill.client import Pipeline

    return Pipeline.load(uri)


def load_job(pipeline: str | None, job: str) -> Job:
    """A job of the pipeline, by its id or its name. For a name it is the newest, and its id is printed."""
    found = load(pipeline).job(job)
    if found.id != job:
        click.echo(f"Using the newest job named {job}: {found.id}", err=True)
    return found
