"""`python -m ops prices set`: a price that the table has not, or not for this company."""

import datetime
import json
import math
from collections.abc import Collection
from pathlib import Path

import click

from components.rooms import CLOUDS
from ops.prices.region import refuse_region, today
from tidemill import machines
from tidemill.errors import nearest
from tidemill.folders import one_at_a_time, replace_file
from tidemill.machines import MachineType, find
from tidemill.prices import own, table

_FACTOR = 20
"""No discount reaches 95 %, and nobody agrees on a multiple of the list price."""
_MOST_PER_CPU = 10.0
"""USD per hour: ten times what the dearest GPU machines cost per vCPU."""


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
    machine = find(cloud, kind.partition("+")[0])
    if machine is None:
        raise click.UsageError(
            f"--type {kind}: the table of machines has no such type of {cloud}.{_types(cloud, kind)}"
        )
    if remove and usd_hour is not None:
        raise click.UsageError("--remove takes a price back; leave --usd-hour out.")
    for name in names:
        refuse_region(cloud, name)
        if usd_hour is not None:
            _refuse_another_unit(usd_hour, machine, _listed(cloud, name, kind), name)
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
    for name in names:
        listed = _listed(cloud, name, kind)
        list_price = f"{listed:g} USD per hour" if listed else "unknown"
        now = "counts again" if remove else f"gives way to {usd_hour:g} USD per hour"
        click.echo(f"{kind} in {name}: the list price ({list_price}) {now}.")
    click.echo(f"Commit {path}: {len(prices)} {'price' if len(prices) == 1 else 'prices'} of your own.")


def _types(cloud: str, name: str) -> str:
    """The types of a family that was named in place of one, or the nearest type."""
    known = machines.families(cloud)
    if name in known:
        return f" It is a family, of {', '.join(machine.type for machine in known[name])}."
    return nearest(name, [machine.type for family in known.values() for machine in family])


def _listed(cloud: str, region: str, kind: str) -> float | None:
    """The list price; None where it is unknown."""
    if region not in table.covered(cloud):
        return None
    return table.content(cloud, region).get("on_demand", {}).get("usd_hour", {}).get(kind)


def _refuse_another_unit(usd_hour: float, machine: MachineType, listed: float | None, region: str) -> None:
    """Refuse what is a price in cents, of a month or of many machines: a cap would count it, or count too little."""
    if listed and not listed / _FACTOR <= usd_hour <= listed * _FACTOR:
        than = f"the list price in {region} is {listed:g}"
    elif usd_hour > _MOST_PER_CPU * machine.cpus:
        than = f"no machine of {machine.cpus} vCPUs costs more than {_MOST_PER_CPU * machine.cpus:g}"
    else:
        return
    raise click.UsageError(
        f"--usd-hour {usd_hour:g}: {than}. Give USD per hour of one machine; a row that you write into {own.NAME} by "
        "hand may have any price."
    )


def _wanted(usd_hour: float | None, source: str | None) -> tuple[float, datetime.date, str]:
    if usd_hour is None:
        raise click.UsageError("--usd-hour is missing. --remove takes a price back.")
    if not (math.isfinite(usd_hour) and usd_hour > 0):
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
