"""`python -m ops estimate`: what a stack costs, before it is created."""

import dataclasses
import json
from collections.abc import Iterable

import click
import yaml

from components import money
from components.money import Line, StackEstimate, Total
from ops.project import read_config, stack_file
from tidemill import prices

NOT_COUNTED = (
    "data that is stored or leaves the region, requests, log lines, images in the registry, taxes, discounts and free "
    "tiers"
)


@click.command()
@click.option("--stack", "stacks", required=True, multiple=True, help="A stack of stacks/, such as vision-dev; repeat.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: a list with one object per stack.")
def estimate(stacks: tuple[str, ...], as_json: bool) -> None:
    """Estimate what stacks cost: idle per month, and at most per hour.

    Uses only the stack file and the price table of this checkout; it asks no cloud and creates nothing. Exits 2 if an
    argument or a stack file is wrong.
    """
    estimates = {stack: of_stack(stack) for stack in stacks}
    if as_json:
        click.echo(json.dumps([document(stack, costs) for stack, costs in estimates.items()], indent=1))
        return
    for number, (stack, costs) in enumerate(estimates.items()):
        click.echo(("\n" if number else "") + "\n".join(table(stack, costs)))


def of_stack(stack: str) -> StackEstimate:
    """The estimate of a stack of stacks/.

    Raises:
        click.UsageError: The stack does not exist, or its file is wrong.
    """
    path, config = stack_file(stack), read_config(stack)
    key = f"{config.cloud}:region"
    region = yaml.safe_load(path.read_text(encoding="utf-8"))["config"].get(key)
    if not isinstance(region, str):
        raise click.UsageError(f"{path.name} does not set {key}, and prices depend on it.")
    return money.estimate(config, region)


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


def table(stack: str, costs: StackEstimate) -> Iterable[str]:
    yield f"{stack}, {costs.cloud} {costs.region}"
    yield from _part("Idle, per month", costs.idle_month, costs.idle)
    yield from _part("At full capacity, per hour", costs.burn_hour, costs.burn)
    if costs.origin is None:
        regions = ", ".join(prices.regions(costs.cloud))
        yield f"The price table has no prices for {costs.region}; it has {regions}."
        yield f"`python -m ops prices refresh --cloud {costs.cloud} --region {costs.region}` asks the cloud."
        return
    yield f"USD; the oldest price used is from {costs.as_of}. Not counted: {NOT_COUNTED}."
    yield from (f"Source: {source}" for source in costs.origin.sources)


def _part(head: str, lines: list[Line], summed: Total) -> Iterable[str]:
    yield f"{head}: {_total(summed) if lines else 'none'}"
    width = max((len(line.what) for line in lines), default=0)
    for line in lines:
        quantity = f"{line.quantity:g}"
        yield f"  {line.what.ljust(width)}  {quantity:>6}  {_usd(line.usd_low, line.usd_high):>17}  {line.why}"


def _total(summed: Total) -> str:
    told = money.usd(summed)
    return told if summed.complete or told == money.UNKNOWN else f"{told}; some prices are unknown"


def _usd(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return "unknown"
    first, last = f"{low:,.2f}", f"{high:,.2f}"
    return first if first == last else f"{first} to {last}"
