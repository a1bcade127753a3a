"""`python -m ops prices`: show the price table, or refresh it from the clouds."""

import sys
from collections.abc import Callable

import click

from ops.prices import aws, gcp
from ops.prices.region import Answer, Region, read, write
from tidemill import prices as table

_SOURCES: dict[str, Callable[[str], list[Answer]]] = {"aws": aws.ask, "gcp": gcp.ask}
_CLOUD = click.option("--cloud", type=click.Choice(["aws", "gcp"]), required=True, help="The cloud.")


@click.group()
def prices() -> None:
    """The price table that estimates are made from."""


@prices.command()
@_CLOUD
def show(cloud: str) -> None:
    """Show how many prices each region has, and from which date."""
    for name in table.regions(cloud):
        region = read(cloud, name)
        parts = [f"{len(part['usd_hour'])} {kind} ({part['as_of']})" for kind, part in region.machines().items()]
        dates = sorted({row["as_of"] for row in region.services.values()})
        services = f"{len(region.services)} services ({dates[0]} to {dates[-1]})" if dates else "no services"
        click.echo(f"{name}: {', '.join([*parts, services])}")


@prices.command()
@_CLOUD
@click.option("--region", "wanted", multiple=True, help="A region; repeat. Default: those in the table.")
def refresh(cloud: str, wanted: tuple[str, ...]) -> None:
    """Ask the cloud for prices of regions and write them into the table of this checkout.

    What the cloud refuses to tell keeps its old price and date and is reported. Exits 3 if something was refused.
    """
    refused = False
    for name in wanted or tuple(table.regions(cloud)):
        region = read(cloud, name)
        answers = _SOURCES[cloud](name)
        for answer in answers:
            region.take(answer)
            _say(name, answer)
            refused |= answer.refused is not None
        if any(answer.refused is None for answer in answers):
            write(region)
    sys.exit(3 if refused else 0)


def _say(region: str, answer: Answer) -> None:
    if answer.refused is not None:
        click.echo(f"{region}: {answer.part} prices could not be read and stay unchanged: {answer.refused}", err=True)
        return
    click.echo(f"{region}: {len(answer.found)} {answer.part}")
    if answer.missing:
        names = ", ".join(answer.missing[:5]) + (f" and {len(answer.missing) - 5} more" if answer.missing[5:] else "")
        click.echo(f"{region}: {answer.part}: no price for {names}", err=True)


__all__ = ["Region", "prices"]
