"""`python -m ops prices coverage`: how many machine types have a known price, and what a cap does with the rest."""

import gzip
import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import click

from components import machines
from components.rooms import CLOUDS
from ops import git
from ops.project import ROOT
from tidemill import prices
from tidemill.machines import MachineType
from tidemill.prices import table

MARKETS = {"on_demand": "On-Demand", "spot": "Spot"}
_FOLDER = "tidemill/prices/data"
_TIMEOUT_SECONDS = 60


@dataclass
class Shares:
    """The machine types of a market, counted once for every region that may sell them.

    Attributes:
        sold: All of them.
        known: Those with a price; a Spot machine also by its On-Demand price, which it never exceeds.
        bounded: Those that a cap counts at a dearer price from elsewhere.
        refused: Families of the rest, which a cap refuses.
    """

    sold: int = 0
    known: int = 0
    bounded: int = 0
    refused: set[str] = field(default_factory=set)


@click.command()
@click.option("--base", help="A git revision to compare the known prices with.")
def coverage(base: str | None) -> None:
    """Count the machine types and regions with a known price, and what a cap does with the rest."""
    if base:
        git.known(base)
    for cloud in CLOUDS:
        regions = table.covered(cloud)
        click.echo(f"{cloud}: {len(regions)} regions, {len(_types(cloud))} machine types that a stack may name")
        before = _of_revision(base, cloud) if base else {}
        for market, title in MARKETS.items():
            shares = count(cloud, market)
            was = f"{share(before.get(market, 0), shares.sold)} at {base}, " if base else ""
            rest = shares.sold - shares.known - shares.bounded
            click.echo(
                f"  {title}: known {was}{share(shares.known, shares.sold)} now, of {shares.sold:,}; a cap counts the "
                f"dearest known price for {share(shares.bounded, shares.sold)} and refuses {share(rest, shares.sold)}"
                + (f" ({len(shares.refused)} families)" if rest else "")
            )


def count(cloud: str, market: str) -> Shares:
    """Count what the table of this checkout knows of a market, and what a cap makes of the rest."""
    shares = Shares()
    for region, machine in _sold(cloud, market):
        shares.sold += 1
        price = prices.machine(cloud, region, machine.type, gpus=machine.gpus)
        if price and (price.on_demand or (market == "spot" and price.spot)):
            shares.known += 1
        elif (most := prices.at_most(cloud, region, machine.type, gpus=machine.gpus)) and most.on_demand:
            shares.bounded += 1
        else:
            shares.refused.add(machine.family)
    return shares


def share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "0 %"


def _types(cloud: str) -> list[MachineType]:
    return [machine for family in machines.families(cloud).values() for machine in family]


def _sold(cloud: str, market: str) -> Iterator[tuple[str, MachineType]]:
    """Regions and types, without those of which it is known that they are not sold there."""
    for region in table.covered(cloud):
        for machine in _types(cloud):
            there = prices.offering(cloud, region, machine.type)
            if market in machine.markets and (there is None or there.zones):
                yield region, machine


def _of_revision(revision: str, cloud: str) -> dict[str, int]:
    """How many of the types and regions that are sold now had a known price in a revision, by market."""
    folder = f"{_FOLDER}/{cloud}/"
    listed = _git("ls-tree", "--name-only", revision, folder).decode().split()
    held = {path.rpartition("/")[2].removesuffix(table.SUFFIX): _file(revision, path) for path in listed}
    return {market: sum(_priced(held, market, _sold(cloud, market))) for market in MARKETS}


def _priced(
    held: Mapping[str, Mapping[str, Mapping[str, float]]], market: str, sold: Iterable[tuple[str, MachineType]]
) -> Iterator[bool]:
    parts = ("on_demand", "spot") if market == "spot" else ("on_demand",)
    for region, machine in sold:
        name = f"{machine.type}+{machine.gpus}t4" if machine.attach else machine.type
        yield any(name in held.get(region, {}).get(part, {}) for part in parts)


def _file(revision: str, path: str) -> dict[str, Mapping[str, float]]:
    content = json.loads(gzip.decompress(_git("show", f"{revision}:{path}")))
    return {part: content.get(part, {}).get("usd_hour", {}) for part in MARKETS}


def _git(*arguments: str) -> bytes:
    command = ["git", "-C", str(ROOT), *arguments]
    done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT_SECONDS, check=False)
    if done.returncode:
        raise click.UsageError(f"git {' '.join(arguments)}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout
