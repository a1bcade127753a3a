"""`tidemill estimate`: a job's time and cost, before it is submitted."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import click

from tidemill.cli.job_options import item_lists, place
from tidemill.cli.kinds import Duration
from tidemill.cli.options import common, load
from tidemill.cli.show import show_facts, show_json, show_table
from tidemill.figures import duration, span

if TYPE_CHECKING:
    from tidemill.client.estimate import JobEstimate
    from tidemill.money import MarketCost

OLD_DAYS = 180
"""Prices older than this get a warning."""


@click.command(epilog="Example: tidemill estimate --queue cpu --count 250000 --item-time 7.2m")
@click.argument("uris", nargs=-1, metavar="[URI]...")
@click.option("--count", type=click.IntRange(min=1), help="How many items, in place of the items themselves.")
@click.option("--items", metavar="SOURCE", help="The items as `tidemill submit` takes them, to count them.")
@item_lists
@click.option(
    "--item-time",
    "--item-seconds",
    "item_seconds",
    type=Duration(0.001),
    metavar="TIME",
    help="How long an item takes: 90s, 7.2m, 0.5h.",
)
@click.option("--like", metavar="JOB", help="Take the time per item from a job, and its queue, sizes and items.")
@place
@click.option("--slots", type=int, help="Items side by side in one container (AWS). Default: 1.")
@common
def command(
    *,
    uris: tuple[str, ...],
    count: int | None,
    items: str | None,
    pipeline: str | None,
    as_json: bool,
    **asked: Any,
) -> int:
    """Estimate a job's core hours, wall time with the queue at full capacity, and cost in USD.

    The estimate uses the number of items, the time per item, and the price table of this version. It submits nothing.
    """
    given = [name for name, value in (("--count", count), ("--items", items), ("URIs", uris)) if value]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} are given; give one of them.")
    if not given and asked["like"] is None:
        raise click.UsageError("no items are given; give --count, --items, URIs, or a job with --like.")
    if asked["item_seconds"] is None and asked["like"] is None:
        raise click.UsageError("--item-time is not given; state how long an item takes, or name a job with --like.")
    target = load(pipeline)
    found = target.estimate(count or items or list(uris) or None, **asked)
    if as_json:
        show_json(asdict(found))
    else:
        _show(found, here=target.site.local)
    return 0


def _show(found: JobEstimate, *, here: bool) -> None:
    learnt = f", as in {found.learnt_from}" if found.learnt_from else ""
    show_facts(
        {
            "items": f"{found.items:,} of {duration(found.item_seconds)}{learnt}, {found.cpus:g} CPU each",
            "core hours": f"{found.core_hours:,.0f}" if found.core_hours >= 10 else f"{found.core_hours:.2f}",
            "at once": span(f"{found.at_once_low:,}", f"{found.at_once_high:,}")
            + f" in queue {found.queue}, when full",
            "wall time": span(duration(found.hours_low * 3600), duration(found.hours_high * 3600)),
        }
    )
    if here:
        click.echo("The queue is this machine, which has no price.")
        return
    rows = [_row(found, "spot", found.spot), _row(found, "on_demand", found.on_demand)]
    show_table(("market", "in the queue", "USD low", "USD high", "machines without a price"), rows)
    if found.as_of:
        days = (datetime.now(UTC).date() - date.fromisoformat(found.as_of)).days
        old = f" ({days} days old; a newer release has newer ones)" if days > OLD_DAYS else ""
        from tidemill.prices import brief

        click.echo(f"Prices as of {found.as_of}{old}: machines and their scratch, without taxes and discounts.")
        click.echo(f"Source: {brief(found.sources)}.")
    else:
        click.echo("The cost is unknown: the price table has none of the queue's machines.")


def _row(found: JobEstimate, market: str, cost: MarketCost) -> tuple[str, ...]:
    unknown = ", ".join(cost.unknown[:3]) + (f" and {len(cost.unknown) - 3} more" if len(cost.unknown) > 3 else "")
    return (market, "yes" if market in found.markets else "no", _usd(cost.low), _usd(cost.high), unknown or "none")


def _usd(amount: float | None) -> str:
    """Two decimals, four below a dollar."""
    return "unknown" if amount is None else f"{amount:.2f}" if amount >= 1 else f"{amount:.4f}"
