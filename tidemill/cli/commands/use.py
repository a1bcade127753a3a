"""`tidemill use`: choose the default pipeline of the other commands."""

from __future__ import annotations

import os
import re

import click

from tidemill.cli import contexts
from tidemill.cli.options import PIPELINE, as_json, complete_pipeline, load
from tidemill.cli.show import show_json, show_table
from tidemill.descriptor import Descriptor
from tidemill.errors import CallerError

NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"


@click.command()
@click.argument("context", required=False, metavar="[NAME | URI]", shell_complete=complete_pipeline)
@click.option("--name", metavar="NAME", help="Name of a new context. Default: <team>-<environment> of the pipeline.")
@click.option("--forget", is_flag=True, help="Remove the context NAME. The pipeline stays.")
@as_json
def command(context: str | None, name: str | None, forget: bool, as_json: bool) -> int:
    """Choose the default pipeline.

    The URI of a pipeline.json makes a context and uses it; a NAME uses an existing one; without either, contexts are
    listed. --pipeline and TIDEMILL_PIPELINE override the context.
    """
    saved = contexts.read()
    if context is None and (forget or name):
        raise click.UsageError("--forget and --name need a NAME or URI.")
    if context is not None:
        if forget:
            saved.uri(context)
            del saved.pipelines[context]
            saved.current = None if saved.current == context else saved.current
        elif "/" in context:
            descriptor = load(context).descriptor
            saved.current = chosen_name(name, descriptor)
            saved.pipelines[saved.current] = context
        else:
            saved.uri(context)
            saved.current = context
        contexts.write(saved)
    show(saved, as_json, listing=context is None)
    return 0


def chosen_name(name: str | None, descriptor: Descriptor) -> str:
    """The name of a new context.

    Raises:
        CallerError: It could be taken for a URI or an option.
    """
    if name is not None and not re.fullmatch(NAME, name):
        raise CallerError.about("--name", name, "letters, digits, dots, dashes and underscores", "Choose another.")
    return name or f"{descriptor.team}-{descriptor.environment}"


def show(saved: contexts.Contexts, as_json: bool, listing: bool) -> None:
    if as_json:
        rows = [{"name": name, "pipeline": uri} for name, uri in sorted(saved.pipelines.items())]
        show_json({"current": saved.current, "contexts": rows})
        return
    if listing and saved.pipelines:
        rows = [("*" if name == saved.current else "", name, uri) for name, uri in sorted(saved.pipelines.items())]
        show_table(("", "context", "pipeline"), rows)
    elif listing:
        click.echo("No context has been made yet: tidemill use s3://.../pipeline.json makes one.")
    elif saved.current:
        click.echo(f"{saved.current}: {saved.pipelines[saved.current]}")
    else:
        click.echo("No context is in use.")
    if os.environ.get(PIPELINE):
        click.echo(f"{PIPELINE} is set and overrides it: {os.environ[PIPELINE]}", err=True)
