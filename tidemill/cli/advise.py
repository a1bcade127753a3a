"""`tidemill advise`: where to run, on which machines, at what risk, and what the work costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from tidemill.cli.kinds import Size
from tidemill.cli.options import common
from tidemill.cli.show import show_json, show_table

if TYPE_CHECKING:
    from tidemill.advice.model import AdvisedShape, ShapeAdvice

HINT = "This is a hint: capacity changes within minutes."


@click.command(epilog="Example: tidemill advise --gpus 4 --gpu-memory 24 --hours 20 --regions us-west-2,us-east-1")
@click.option("--cpus", type=click.IntRange(min=1), help="vCPUs of all machines together.")
@click.option("--memory", "memory_mib", type=Size(), metavar="SIZE", help="Memory of all machines: 512G.")
@click.option("--gpus", type=click.IntRange(min=1), help="NVIDIA GPUs of all machines together.")
@click.option("--gpu-memory", type=click.FloatRange(min=0, min_open=True), metavar="GB", help="Memory of each GPU.")
@click.option("--arch", type=click.Choice(["x86_64", "arm64"]), help="Processors. Default: any.")
@click.option("--families", metavar="NAMES", help="Only these families of machines: g5,g6.")
@click.option("--market", type=click.Choice(["spot", "on-demand"]), help="Only this market. Default: both.")
@click.option("--regions", metavar="NAMES", help="Regions to compare: us-west-2,us-central1.")
@click.option("--one-zone", is_flag=True, help="All machines in one zone; zones are compared.")
@click.option("--hours", type=click.FloatRange(min=0, min_open=True), default=1.0, help="For how long. Default: 1.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="How many shapes.")
@common
def command(
    *,
    cpus: int | None,
    memory_mib: int | None,
    gpus: int | None,
    gpu_memory: float | None,
    arch: str | None,
    families: str | None,
    market: str | None,
    regions: str | None,
    one_zone: bool,
    hours: float,
    limit: int,
    pipeline: str | None,
    as_json: bool,
) -> int:
    """Compare machines and regions for a piece of work: price, risk and cost.

    It uses the tables of this version, and starts nothing.
    """
    from tidemill.advice.shapes import MARKETS, Need
    from tidemill.client.advise import AdviceWanted, advise

    need = Need(
        cpus=cpus or 0,
        memory_mib=memory_mib or 0,
        gpus=gpus or 0,
        gpu_memory_gb=gpu_memory or 0.0,
        architecture=arch,  # type: ignore[arg-type]
        families=_names(families),
        markets=tuple(each for each in MARKETS if market in (None, each.replace("_", "-"))),
    )
    if not regions:
        raise click.UsageError("--regions is not given; name the regions to compare: --regions us-west-2,us-east-1.")
    found = advise(AdviceWanted(need, _names(regions), hours, one_zone, limit))
    if as_json:
        from pydantic import TypeAdapter

        from tidemill.advice.model import ShapeAdvice

        show_json(TypeAdapter(ShapeAdvice).dump_python(found, mode="json"))
    else:
        _show(found)
    return 0


def _names(typed: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (typed or "").split(",") if name.strip())


def _show(found: ShapeAdvice) -> None:
    marks: dict[tuple[str, str, str], str] = {}
    header = ("shape", "where", "USD/h", f"per {'GPU' if found.unit == 'gpu' else 'vCPU'}-h", "reclaims", "USD total")
    rows = [_row(shape, marks) for shape in found.shapes]
    show_table((*header, "from"), rows)
    for (what, day, source), mark in marks.items():
        click.echo(f"{mark}  {what}, {day}: {source}")
    if found.found > len(found.shapes):
        click.echo(f"{len(found.shapes)} of {found.found} shapes; --limit shows more.")
    if any(shape.at_least for shape in found.shapes):
        click.echo("+ is without what reclaims cost: how frequent they are is unknown.")
    for note in found.notes:
        click.echo(note)
    click.echo(HINT)


def _row(shape: AdvisedShape, marks: dict[tuple[str, str, str], str]) -> tuple[str, ...]:
    bucket = shape.interruption
    total = shape.usd_total
    return (
        f"{shape.count} x {shape.type} {shape.market.replace('_', '-')}",
        shape.zone or shape.region,
        f"{shape.usd_hour.value:.3f}" if shape.usd_hour else "unknown",
        f"{shape.usd_unit_hour.value:.4f}" if shape.usd_unit_hour else "unknown",
        (f"{bucket.low}-{bucket.high} %" if bucket else "unknown") if shape.market == "spot" else "none",
        f"{total.value:.2f}{'+' if shape.at_least else ''}" if total else "unknown",
        "".join(_marks(shape, marks)),
    )


def _marks(shape: AdvisedShape, marks: dict[tuple[str, str, str], str]) -> Iterator[str]:
    """The letters of a row's sources; a new source gets the next letter."""
    for key in _origins(shape):
        yield marks.setdefault(key, chr(ord("a") + len(marks)))


def _origins(shape: AdvisedShape) -> Iterable[tuple[str, str, str]]:
    if shape.price:
        yield f"price {shape.market.replace('_', '-')}", shape.price.as_of.isoformat(), shape.price.source
    if shape.interruption:
        yield "reclaims", shape.interruption.as_of.isoformat(), shape.interruption.source
