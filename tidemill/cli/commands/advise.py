"""`tidemill advise`: where to run, on which machines, at what risk, and what the work costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tidemill.cli.kinds import Duration, Size
from tidemill.cli.options import common, load, pipeline_uri
from tidemill.cli.show import show_json

if TYPE_CHECKING:
    from tidemill.client.site import Site


@click.command(epilog="Example: tidemill advise --gpus 4 --gpu-memory 24 --hours 20 --regions us-west-2,us-east-1")
@click.option("--cpus", type=click.IntRange(min=1), help="vCPUs of all machines together.")
@click.option("--memory", "memory_mib", type=Size(), metavar="SIZE", help="Memory of all machines together: 512G.")
@click.option("--gpus", type=click.IntRange(min=1), help="NVIDIA GPUs of all machines together.")
@click.option("--gpu-memory", type=click.FloatRange(min=0, min_open=True), metavar="GB", help="Memory of each GPU.")
@click.option("--arch", type=click.Choice(["x86_64", "arm64"]), help="Processors. Default: any.")
@click.option("--families", metavar="NAMES", help="Only these families of machines: g5,g6.")
@click.option("--market", type=click.Choice(["spot", "on-demand"]), help="Only this market. Default: both.")
@click.option("--regions", metavar="NAMES", help="Regions to compare. Default: the pipeline's.")
@click.option("--one-zone", is_flag=True, help="All machines in one zone; compares the zones.")
@click.option("--hours", type=click.FloatRange(min=0, min_open=True), metavar="N", help="How long the work takes.")
@click.option("--like", metavar="JOB", help="Use the measured speed of jobs of this name, and the size of their items.")
@click.option("--queue", metavar="NAME", help="Instead: the machines of a queue, as they stand now.")
@click.option("--save-time", type=Duration(0.001), metavar="TIME", help="How long saving the state takes. Default: 1m.")
@click.option(
    "--live/--offline",
    default=None,
    help="Ask the clouds of all regions, or use tables alone. Default: asks the pipeline's cloud.",
)
@click.option("--all-sizes", is_flag=True, help="Without GPUs: every size of a family, not only the best.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="How many shapes.")
@click.option("--wide", is_flag=True, help="Show every column.")
@common
def command(
    *, pipeline: str | None, as_json: bool, wide: bool, hours: float | None, save_time: float | None, **asked: Any
) -> int:
    """Compare machines and regions for a piece of work: price, risk and cost.

    It uses the tables of this version, what the pipeline's jobs have shown, and what the cloud says now where your
    login may ask. It starts nothing. Your own jobs' speed counts where --like names one.
    """
    from tidemill.advice.rank import SAVE_SECONDS
    from tidemill.client.estimate.advise import AdviceRequest, advise

    needed = bool(asked["queue"] or asked["like"] or not asked["regions"])
    site = None if asked["live"] is False and not needed else _site(pipeline, needed=needed)
    wanted = AdviceRequest(
        need=_need(asked),
        regions=_names("regions", asked["regions"]),
        queue=asked["queue"],
        like=asked["like"],
        hours=hours or 1.0,
        save_seconds=save_time or SAVE_SECONDS,
        one_zone=asked["one_zone"],
        every_size=asked["all_sizes"],
        limit=asked["limit"],
        live=asked["live"],
    )
    advice = advise(wanted, site)
    if as_json:
        from pydantic import TypeAdapter

        from tidemill.advice.model import ShapeAdvice

        show_json(TypeAdapter(ShapeAdvice).dump_python(advice, mode="json"))
    else:
        from tidemill.cli.advice_table import show_advice

        show_advice(advice, wide=wide, total=hours is not None)
    return 0


def _need(asked: dict[str, Any]) -> Any:
    from tidemill.advice.shapes import MARKETS, Need

    given = ("cpus", "memory_mib", "gpus", "gpu_memory", "arch", "families", "regions")
    clash = [name for name in given if asked[name]] if asked["queue"] else []
    if clash:
        option = f"--{clash[0].removesuffix('_mib').replace('_', '-')}"
        raise click.UsageError(f"{option} and --queue are given; a queue has its own machines and region.")
    if asked["gpu_memory"] and not asked["gpus"]:
        raise click.UsageError("--gpu-memory is given without --gpus; say how many GPUs.")
    return Need(
        cpus=asked["cpus"] or 0,
        memory_mib=asked["memory_mib"] or 0,
        gpus=asked["gpus"] or 0,
        gpu_memory_gb=asked["gpu_memory"] or 0.0,
        architecture=asked["arch"],
        families=_names("families", asked["families"]),
        markets=tuple(each for each in MARKETS if asked["market"] in (None, each.replace("_", "-"))),
    )


def _names(option: str, typed: str | None) -> tuple[str, ...]:
    names = tuple(name.strip() for name in (typed or "").split(",") if name.strip())
    if typed is not None and not names:
        raise click.UsageError(f"--{option} is {typed!r}; give names, separated by commas.")
    return names


def _site(pipeline: str | None, *, needed: bool) -> Site | None:
    """The pipeline; None where none is set up, or it cannot be reached, and none is needed."""
    from tidemill.errors import TidemillError

    try:
        pipeline_uri(pipeline)
    except click.UsageError as error:
        if needed:
            raise click.UsageError(f"{error.message} Or compare regions without one: --regions NAMES.") from error
        return None
    try:
        return load(pipeline).site
    except TidemillError as error:
        if needed:
            raise
        click.echo(f"The pipeline is left out: {error}", err=True)
        return None
