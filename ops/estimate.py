"""`python -m ops estimate`: what a stack costs, before it is created."""

import dataclasses
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from components import money
from components.config.bootstrap_models import BootstrapConfig
from components.config.load import read_file
from components.config.shared_models import SharedConfig
from components.money import Line, StackEstimate, Total
from ops.costs.commitments import Cover, Pool, read
from ops.options import STACKS
from ops.prices.region import today
from ops.project import read_any, stack_file
from tidemill import prices

_OLD_DAYS = 365
NOT_COUNTED = (
    "data that is stored or leaves the region, requests, log lines, images in the registry, taxes, discounts and free "
    "tiers"
)


@click.command()
@STACKS
@click.option(
    "--commitments",
    "paid",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A YAML file of reservations, savings plans and committed use that are paid already.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: a list with one object per stack.")
def estimate(stacks: tuple[str, ...], paid: Path | None, as_json: bool) -> None:
    """Estimate what stacks cost: idle per month, and at most per hour; with --commitments, what of it is paid already.

    Uses only the stack file and the price table of this checkout; it asks no cloud and creates nothing. Exits 2 if an
    argument or a stack file is wrong.
    """
    estimates = {stack: of_stack(stack) for stack in stacks}
    pool = Pool(read(paid)) if paid else None
    covers = {
        stack: pool.cover(costs.cloud, costs.region, costs.burn_hour) if pool else None
        for stack, costs in estimates.items()
    }
    if as_json:
        rows = [document(stack, costs) | _paid(covers[stack]) for stack, costs in estimates.items()]
        click.echo(json.dumps(rows, indent=1))
        return
    for number, (stack, costs) in enumerate(estimates.items()):
        click.echo(("\n" if number else "") + "\n".join(table(stack, costs, covers[stack])))
    if pool:
        click.echo("\n" + "\n".join(_of_commitments(pool)))


def of_stack(stack: str) -> StackEstimate:
    """The estimate of a stack, which may be one of bootstrap/ or shared/.

    Raises:
        click.UsageError: The stack does not exist, or its file is wrong.
    """
    path, config = stack_file(stack), read_any(stack)
    key = f"{config.cloud}:region"
    region = read_file(path)["config"].get(key)
    if not isinstance(region, str):
        raise click.UsageError(f"{path.name} does not set {key}, and prices depend on it.")
    if isinstance(config, BootstrapConfig):
        return money.account_estimate(config, region)
    return money.shared_estimate(config, region) if isinstance(config, SharedConfig) else money.estimate(config, region)


def document(stack: str, costs: StackEstimate) -> dict:
    """The estimate as plain data with stable keys; null is unknown."""
    return {
        "stack": stack,
        **{key: value for key, value in dataclasses.asdict(costs).items() if key != "origin"},
        "as_of": costs.as_of.isoformat() if costs.as_of else None,
        "sources": list(costs.origin.sources) if costs.origin else [],
        "idle_month_total": dataclasses.asdict(costs.idle),
        "burn_hour_total": dataclasses.asdict(costs.burn),
        "not_counted": NOT_COUNTED,
    }


def _paid(covers: Sequence[Cover] | None) -> dict:
    """The covered part of each line of `burn_hour`, for JSON."""
    return {} if covers is None else {"burn_hour_covered": [dataclasses.asdict(cover) for cover in covers]}


def table(stack: str, costs: StackEstimate, covers: Sequence[Cover] | None = None) -> Iterable[str]:
    """The lines of an estimate.

    Args:
        covers: What commitments cover of each line of an hour; it adds two columns.
    """
    yield f"{stack}, {costs.cloud} {costs.region}"
    yield from _part("Idle, per month", costs.idle_month, costs.idle)
    yield from _part("At full capacity, per hour", costs.burn_hour, costs.burn, covers)
    if covers is not None:
        low, high = sum(each.low for each in covers), sum(each.high for each in covers)
        further = money.usd(Total(costs.burn.usd_low - low, costs.burn.usd_high - high, costs.burn.complete))
        yield f"  Commitments cover {_usd(low, high)} USD of the hour at On-Demand prices; it costs {further} besides."
    if costs.origin is None:
        regions = ", ".join(prices.regions(costs.cloud))
        yield f"The price table has no prices for {costs.region}; it has {regions}."
        yield f"`python -m ops prices refresh --cloud {costs.cloud} --region {costs.region}` asks the cloud."
        return
    yield f"USD; the oldest price used is from {costs.as_of}. Not counted: {NOT_COUNTED}."
    if costs.as_of and (today() - costs.as_of).days > _OLD_DAYS:
        yield f"That is more than a year ago: `python -m ops prices refresh --cloud {costs.cloud}` asks the cloud."
    yield from (f"Source: {source}" for source in costs.origin.sources)


def _of_commitments(pool: Pool) -> Iterable[str]:
    """The table of what the stacks use of each commitment."""
    rows = pool.used()
    width = max((len(each.name) for each, _ in rows), default=0)
    yield "Commitments, USD per hour. They are paid whatever runs; the stacks above draw on them in their order."
    yield f"  {''.ljust(width)}  {'paid':>9}  {'covers':>9}  {'used':>17}  {'unused':>17}"
    for each, cover in rows:
        unused = sorted((each.worth - cover.low, each.worth - cover.high))
        yield (
            f"  {each.name.ljust(width)}  {each.usd_hour:>9,.2f}  {each.worth:>9,.2f}  "
            f"{_usd(cover.low, cover.high):>17}  {_usd(*unused):>17}"
        )
    yield "`covers`, `used` and `unused` are at On-Demand prices."


def _part(head: str, lines: Sequence[Line], summed: Total, covers: Sequence[Cover] | None = None) -> Iterable[str]:
    yield f"{head}: {_total(summed) if lines else 'none'}"
    width = max((len(line.what) for line in lines), default=0)
    if covers is not None and lines:
        yield f"  {''.ljust(width)}  {'':>6}  {'USD':>17}  {'covered':>17}  {'further':>17}"
    for number, line in enumerate(lines):
        usd = [_usd(line.usd_low, line.usd_high)]
        if covers is not None:
            cover = covers[number]
            low, high = line.usd_low, line.usd_high
            usd += [
                _usd(cover.low, cover.high),
                _usd(low if low is None else low - cover.low, high if high is None else high - cover.high),
            ]
        columns = "  ".join(f"{each:>17}" for each in usd)
        yield f"  {line.what.ljust(width)}  {f'{line.quantity:g}':>6}  {columns}  {line.why}"


def _total(summed: Total) -> str:
    told = money.usd(summed)
    return told if summed.complete or told == money.UNKNOWN else f"{told}; some prices are unknown"


def _usd(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return "unknown"
    first, last = f"{low:,.2f}", f"{high:,.2f}"
    return first if first == last else f"{first} to {last}"
