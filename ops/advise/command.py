"""`python -m ops advise`: which families, zones and rungs a queue should have, and why."""

import json

import click

from ops.advise import text
from ops.advise.figures import Book
from ops.advise.rules import advise as by_rules
from ops.advise.standing import Subject, ask, standing, subject
from ops.options import STACK
from tidemill.advice.live import open_source
from tidemill.advice.sources import LiveSource
from tidemill.errors import CallerError


@click.command()
@click.option("--stack", type=STACK, required=True, help="A stack of stacks/, such as vision-dev.")
@click.option("--live/--offline", default=True, show_default=True, help="Ask the cloud with your login, or use tables.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.argument("name", metavar="QUEUE")
def advise(stack: str, name: str, *, live: bool, as_json: bool) -> None:
    """Say which families, zones and rungs QUEUE should have, with prices, reclaims and dates.

    Uses the dated tables of this checkout, and what the cloud says now where your login may ask.

    Prints the queue's families next to those that it could have, what should change, and the command that changes it.
    Exits 2 if an argument or the file is wrong.
    """
    about = subject(stack, name)
    book = _known(about, live)
    seen = standing(about, book)
    advice = by_rules(seen)
    if as_json:
        click.echo(json.dumps(text.document(about, seen, advice, book), indent=1))
        return
    click.echo("\n".join(text.lines(about, seen, advice, book)))


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
