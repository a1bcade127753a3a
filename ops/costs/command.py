"""`python -m ops costs`: what each team's stacks really cost per month, beside their estimate."""

import datetime
import hashlib
import json
import os
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import import_module

import click

from components.config import ConfigError, from_file
from components.config.load import read_file
from components.money import StackEstimate, Total
from components.rooms import CLOUDS
from ops.costs.bill import Bill, BillError, Cost, Kept, after, months
from ops.estimate import of_stack
from ops.prices.region import today
from ops.project import STACKS, told
from tidemill.errors import CallerError
from tidemill.visible import visible

UNTAGGED = "untagged"
_LOGIN = ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_ROLE_ARN", "GOOGLE_APPLICATION_CREDENTIALS")
"""The answer for one login is not that for another."""


@dataclass(frozen=True)
class Row:
    """A month of one team and environment. Money is in `currency`, before taxes; None is unknown or not comparable.

    Attributes:
        month: `2026-10`.
        team: `untagged` for costs without the tag.
        actual: Before credits.
        credits: Below zero.
        idle: The estimate of the month without work.
        most: The estimate of the month with every machine running all the time.
        estimate_complete: False if some price is unknown: both estimates are then minima.
        stacks: Their names.
    """

    month: str
    team: str
    environment: str
    actual: float
    credits: float
    currency: str
    idle: float | None
    most: float | None
    estimate_complete: bool
    stacks: tuple[str, ...]


@click.command()
@click.option("--cloud", type=click.Choice(CLOUDS), required=True, help="Whose bill.")
@click.option("--months", "count", type=click.IntRange(1, 12), default=3, show_default=True, help="Counted with this.")
@click.option("--table", help="GCP: project.dataset.table of the billing export to BigQuery.")
@click.option("--yes", is_flag=True, help="Ask the cloud without a question; asking costs money.")
@click.option("--again", is_flag=True, help="Ask again for an answer of the last six hours, which is kept.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON: a list with one object per month, team, environment."
)
def costs(cloud: str, count: int, table: str | None, yes: bool, again: bool, as_json: bool) -> None:  # noqa: PLR0917
    """Show what teams really cost per month, by the stacks' tags, beside the estimates of their stack files.

    The login is of the account that pays. Asking costs money, which the command says before. Exits 3 if the cloud does
    not tell the bill.
    """
    wanted = months(count, today())
    stacks = _stacks(cloud)
    try:
        found = _ask(cloud, table, wanted, yes, again)
    except BillError as error:
        click.echo(f"{cloud} did not tell its bill: {error}", err=True)
        sys.exit(3)
    rows = compare(found, {name: _estimated(name) for name in stacks}, stacks)
    if as_json:
        click.echo(json.dumps([asdict(row) for row in rows], indent=1))
    elif rows:
        click.echo("\n".join(_lines(rows)))
    for note in notes(cloud, found, rows, wanted, today()):
        click.echo(note, err=as_json)


def _stacks(cloud: str) -> dict[str, tuple[str, str]]:
    """Team and environment of each stack of a cloud."""
    found = {}
    for path in sorted(STACKS.glob("Pulumi.*.yaml")):
        try:
            config = from_file(path)
        except ConfigError as error:
            raise click.UsageError(told(path, error)) from None
        if config.cloud == cloud:
            found[path.stem.removeprefix("Pulumi.")] = (config.team, config.environment)
    return found


def _estimated(stack: str) -> StackEstimate | None:
    try:
        return of_stack(stack)
    except (click.UsageError, CallerError):
        # It names no region: its costs are shown without an estimate.
        return None


def _ask(cloud: str, table: str | None, wanted: Sequence[datetime.date], yes: bool, again: bool) -> list[Cost]:
    source = _source(cloud, table)
    first, last = wanted[0], wanted[-1]
    asked = hashlib.sha256(
        f"{table} {_projects(cloud)} {[os.environ.get(name) for name in _LOGIN]}".encode()
    ).hexdigest()[:12]
    kept = Kept(f"{cloud}-{first:%Y%m}-{last:%Y%m}-{asked}")
    if not again and (found := kept.read()) is not None:
        click.echo("The answer is of the last six hours; --again asks anew.", err=True)
        return found
    click.echo(source.price(first, last), err=True)
    if not yes and not click.confirm("Ask?", err=True):
        raise click.Abort
    found = source.costs(first, last)
    kept.write(found)
    return found


def _source(cloud: str, table: str | None) -> Bill:
    # The other cloud's client need not be installed.
    bill = import_module(f"ops.costs.{cloud}").BILL
    if not bill.needs_table:
        if table:
            raise click.UsageError(f"--table is of a billing export; {cloud} is asked by the stacks' tags.")
        return bill()
    if not table:
        raise click.UsageError(f"--table is missing: {cloud} tells costs in its export to BigQuery (docs/money.md).")
    return bill(table, _projects(cloud))


def _projects(cloud: str) -> list[str]:
    """The projects of a cloud's stacks; none on a cloud without projects."""
    settings = [read_file(path)["config"] for path in sorted(STACKS.glob("Pulumi.*.yaml"))]
    found = (each.get(f"{cloud}:project") for each in settings)
    return sorted({project for project in found if isinstance(project, str)})


def compare(
    found: Sequence[Cost], estimates: dict[str, StackEstimate | None], stacks: dict[str, tuple[str, str]]
) -> list[Row]:
    """The costs beside the estimates, by month, team and environment, those without a tag last.

    A stack without costs in a month has no row: it may not have been there.

    Args:
        estimates: By stack; None where there is none.
        stacks: Team and environment by stack.
    """
    sums: dict[tuple[datetime.date, str, str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for cost in found:
        both = cost.team and cost.environment
        key = (cost.month, cost.team or UNTAGGED, cost.environment if both else "", cost.currency)
        sums[key][0] += cost.amount
        sums[key][1] += cost.credits
    rows = []
    for (month, team, environment, currency), (actual, credited) in sums.items():
        names = tuple(name for name, of in stacks.items() if of == (team, environment))
        idle, most, complete = _month(month, [estimates[name] for name in names], currency)
        rows.append(
            Row(
                f"{month:%Y-%m}",
                team,
                environment,
                round(actual, 2),
                round(credited, 2),
                currency,
                idle,
                most,
                complete,
                names,
            )
        )
    return sorted(rows, key=lambda row: (row.month, row.team == UNTAGGED, row.team, row.environment, row.currency))


def _month(
    month: datetime.date, estimates: Sequence[StackEstimate | None], currency: str
) -> tuple[float | None, float | None, bool]:
    """Idle and most of a month, and whether all prices are known."""
    known = [each for each in estimates if each is not None and each.origin is not None]
    if not known or currency != "USD":
        return None, None, False
    hours = (after(month) - month).days * 24
    parts: list[tuple[Total, Total]] = [(each.idle, each.burn) for each in known]
    idle = sum(each.usd_high for each, _ in parts)
    most = sum(rest.usd_high + busy.usd_high * hours for rest, busy in parts)
    complete = len(known) == len(estimates) and all(rest.complete and busy.complete for rest, busy in parts)
    return round(idle, 2), round(most, 2), complete


def notes(
    cloud: str, found: Sequence[Cost], rows: Sequence[Row], wanted: Sequence[datetime.date], day: datetime.date
) -> list[str]:
    """A sentence each on what the figures do not show."""
    told = []
    span = f"{wanted[0]:%Y-%m} to {wanted[-1]:%Y-%m}"
    if not rows:
        return [f"The bill has no costs from {span}."]
    if missing := [f"{month:%Y-%m}" for month in wanted if month not in {cost.month for cost in found}]:
        told.append(f"The bill has no costs of {', '.join(missing)}.")
    if any(cost.month == wanted[-1] for cost in found) and wanted[-1] == day.replace(day=1):
        told.append(
            f"{wanted[-1]:%Y-%m} is not over: the bill has {day.day - 1} to {day.day} of its "
            f"{(after(wanted[-1]) - wanted[-1]).days} days, because costs come up to a day late."
        )
    if any(row.credits for row in rows):
        told.append("`actual` is before credits and refunds, which have their own column.")
    if all(row.team == UNTAGGED for row in rows):
        told.append("No cost carries a team.")
    if any(row.team == UNTAGGED or not row.environment for row in rows):
        told.append(import_module(f"ops.costs.{cloud}").UNTAGGED)
    if others := sorted({row.currency for row in rows} - {"USD"}):
        told.append(f"Estimates are in USD; costs in {', '.join(others)} are not compared with them.")
    if any(row.most is not None and not row.estimate_complete for row in rows):
        told.append("`+`: some price of the estimate is unknown, so it is a minimum.")
    fileless = (row for row in rows if not row.stacks and row.team != UNTAGGED)
    if strange := sorted({_name(f"{row.team}-{row.environment or '(no environment)'}") for row in fileless}):
        told.append(f"No stack file belongs to {', '.join(strange)}.")
    return told


def _lines(rows: Sequence[Row]) -> list[str]:
    head = ("month", "team", "environment", "actual", "credits", "idle", "most", "actual of most")
    table = [head, *(_cells(row) for row in rows)]
    widths = [max(len(row[number]) for row in table) for number in range(len(head))]
    return ["  ".join(_cell(number, text, widths[number]) for number, text in enumerate(row)).rstrip() for row in table]


def _cells(row: Row) -> tuple[str, ...]:
    unit = "" if row.currency == "USD" else f" {row.currency}"
    more = "" if row.estimate_complete else "+"
    idle, most = ("unknown" if each is None else f"{each:,.2f}{more}" for each in (row.idle, row.most))
    part = f"{100 * row.actual / row.most:.1f} %" if row.most and row.estimate_complete else ""
    return (
        *(row.month, _name(row.team), _name(row.environment), f"{row.actual:,.2f}{unit}", f"{row.credits:,.2f}{unit}"),
        *(idle, most, part),
    )


def _name(tag: str) -> str:
    """A tag's value on one line: whoever may tag a resource of the payer's accounts chooses it."""
    return visible(" ".join(tag.split()))


def _cell(number: int, text: str, width: int) -> str:
    return text.ljust(width) if number < 3 else text.rjust(width)
