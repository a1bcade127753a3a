"""`python -m ops prices set`: a price that the table has not, or not for this company."""

import datetime
import json
import math
from collections.abc import Collection
from pathlib import Path

import click

from components.rooms import CLOUDS
from ops.prices.region import today
from tidemill.folders import one_at_a_time, replace_file
from tidemill.machines import find
from tidemill.prices import own, table


@click.command("set")
@click.option("--cloud", type=click.Choice(CLOUDS), required=True, help="The cloud.")
@click.option("--region", "names", multiple=True, required=True, help="A region; repeat.")
@click.option("--type", "kind", required=True, help="A machine type, such as p5.48xlarge; n1-standard-8+1t4 has a T4.")
@click.option("--usd-hour", type=float, help="What it costs On-Demand, in USD per hour.")
@click.option("--source", help="Where that is from, such as a contract's name. Figures show it.")
@click.option("--remove", is_flag=True, help="Take the price back: the list price counts again.")
def set_price(  # noqa: PLR0917
    cloud: str, names: tuple[str, ...], kind: str, usd_hour: float | None, source: str | None, remove: bool
) -> None:
    """Set a machine's On-Demand price by hand, such as a negotiated one; no refresh changes it.

    It goes into tidemill/prices/data/own.json, which belongs into git, and counts in every figure, cap and limit.
    """
    if find(cloud, kind.partition("+")[0]) is None:
        raise click.UsageError(f"--type {kind}: the table of machines has no such type of {cloud}.")
    path = table.DATA / own.NAME
    keys = [(cloud, name, kind) for name in names]
    with one_at_a_time(path.parent):
        prices = dict(own.read(path))
        if remove:
            if missing := [region for _, region, _ in keys if (cloud, region, kind) not in prices]:
                raise click.UsageError(f"{kind} has no price of your own in {', '.join(missing)}.")
            for key in keys:
                del prices[key]
        else:
            prices |= {key: own.OwnPrice(*key, *_wanted(usd_hour, source)) for key in keys}
        write(path, prices.values())
    click.echo(f"{path}: {len(prices)} {'price' if len(prices) == 1 else 'prices'} of your own.")


def _wanted(usd_hour: float | None, source: str | None) -> tuple[float, datetime.date, str]:
    if usd_hour is None or not (math.isfinite(usd_hour) and usd_hour > 0):
        raise click.UsageError(f"--usd-hour is {usd_hour}; it must be above 0. --remove takes a price back.")
    if not source:
        raise click.UsageError("--source is missing: every figure names where its prices are from.")
    return usd_hour, today(), source


def write(path: Path, prices: Collection[own.OwnPrice]) -> None:
    """Write the file whole, one price per line."""
    ordered = sorted(prices, key=lambda price: (price.cloud, price.region, price.type))
    rows = ",\n".join(f"  {json.dumps({**vars(price), 'as_of': price.as_of.isoformat()})}" for price in ordered)
    replace_file(path, (f"[\n{rows}\n]\n" if prices else "[]\n").encode(), 0o644)
    own.read.cache_clear()
