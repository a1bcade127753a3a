"""`python -m ops advise`: which families, zones and rungs a queue should have, and why."""

from __future__ import annotations

import json
from dataclasses import replace

import click

from components.config import ConfigError
from ops import stack_files
from ops.advise import text
from ops.advise.edit import edited
from ops.advise.figures import Book
from ops.advise.rules import QueueAdvice
from ops.advise.rules import advise as by_rules
from ops.advise.standing import Subject, ask, standing, subject
from tidemill.advice.live import open_source
from tidemill.advice.sources import LiveSource
from tidemill.errors import CallerError


@click.command()
@click.option("--stack", required=True, help="A stack of stacks/, such as vision-dev.")
@click.option("--write", is_flag=True, help="Edit the stack file: comments and order of the rest stay.")
@click.option("--live/--offline", default=True, show_default=True, help="Ask the cloud with your login, or use tables.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.argument("name", metavar="QUEUE")
def advise(stack: str, name: str, *, write: bool, live: bool, as_json: bool) -> None:
    """Say which families, zones and rungs QUEUE should have, with prices, reclaims and dates.

    Uses the dated tables of this checkout, and what the cloud says now where your login may ask.

    Prints the queue's families next to those that it could have, and what should change as a diff of the stack file.
    With --write it edits the file; a second run then changes nothing. Exits 2 if an argument or the file is wrong, and
    then leaves the file alone.
    """
    about = subject(stack, name)
    known = _known(about, live)
    seen = standing(about, known)
    found = by_rules(seen)
    try:
        diff = _edit(about, found, write=write)
    except click.UsageError as error:
        if write:
            raise
        found, diff = replace(found, notes=(*found.notes, f"--write cannot edit the file. {error.message}")), ""
    if as_json:
        click.echo(json.dumps(text.document(about, seen, found, known, written=write and bool(diff)), indent=1))
        return
    click.echo("\n".join(text.lines(about, seen, found, known, diff, written=write)))


def _edit(about: Subject, found: QueueAdvice, *, write: bool) -> str:
    """The changes as a diff; empty where there are none."""
    try:
        before, after = edited(about, found.changes)
        if write and after != before:
            stack_files.write(about.path, before, after)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    return stack_files.diff(about.path, before, after)


def _known(about: Subject, live: bool) -> Book:
    source = _source(about) if live else None
    if source is None:
        return Book(about.config.cloud, about.region)
    try:
        return ask(about, source)
    except CallerError as error:
        raise click.UsageError(f"{error} Or use the tables alone: --offline.") from None


def _source(about: Subject) -> LiveSource | None:
    # Answers that are kept belong to an account. A stack has one, which its file names on GCP only.
    account = about.raw.get("gcp:project") or f"stack {about.stack}"
    return open_source(about.config.cloud, about.region, str(account))
