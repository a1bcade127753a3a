"""`tidemill estimate`: a job's time and cost, before it is submitted."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import click

from tidemill.cli.job_options import item_lists, option, options, place
from tidemill.cli.kinds import Duration
from tidemill.cli.options import common, load
from tidemill.cli.show import show_facts, show_json, show_table
from tidemill.figures import duration, span

if TYPE_CHECKING:
    from tidemill.client.estimate.estimate import JobEstimate
    from tidemill.money import MarketCost

OLD_DAYS = 180
"""Prices older than this get a warning."""


@click.command(epilog="Example: tidemill estimate --queue cpu --count 250000 --item-time 7.2m")
@click.argument("uris", nargs=-1, metavar="[URI]...")
@click.option("--count", type=click.IntRange(min=1), help="How many items, in place of the items themselves.")
@options("items", items="The items as `tidemill submit` takes them, to count them.")
@item_lists
@option("item_seconds", "How long an item takes: 90s, 7.2m, 0.5h.", type=Duration(0.001))
@click.option("--like", metavar="JOB", help="Take the time per item from a job, and its queue, sizes and items.")
@place
@option("slots", "Items side by side in one container (AWS). Default: 1.", default=None, show_default=False)
@common
def command(
    *, uris: tuple[str, ...], count: int | None, items: str | None, pipeline: str | None, as_json: bool, **asked: Any
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
    answer = target.estimate(count or items or list(uris) or None, **asked)
    if as_json:
        show_json(asdict(answer))
    else:
        _show(answer, here=target.site.local)
    return 0


def _show(answer: JobEstimate, *, here: bool) -> None:
    learnt = f", as in {answer.learnt_from}" if answer.learnt_from else ""
    show_facts(
        {
            "items": f"{answer.items:,} of {duration(answer.item_seconds)}{learnt}, {answer.cpus:g} CPU each",
            "core hours": f"{answer.core_hours:,.0f}" if answer.core_hours >= 10 else f"{answer.core_hours:.2f}",
            "at once": span(f"{answer.at_once_low:,}", f"{answer.at_once_high:,}")
            + f" in queue {answer.queue}, when full",
            "wall time": span(duration(answer.hours_low * 3600), duration(answer.hours_high * 3600)),
        }
    )
    if here:
        click.echo("The queue is this machine, which has no price.")
        return
    rows = [_row(answer, "spot", answer.spot), _row(answer, "on_demand", answer.on_demand)]
    show_table(("market", "in the queue", "USD low", "USD high", "machines without a price"), rows)
    if answer.as_of:
        days = (datetime.now(UTC).date() - date.fromisoformat(answer.as_of)).days
        old = f" ({days} days old; a newer release has newer ones)" if days > OLD_DAYS else ""
        from tidemill.prices import brief

        click.echo(f"Prices as of {answer.as_of}{old}: machines and their scratch, without taxes and discounts.")
        click.echo(f"Source: {brief(answer.sources)}.")
    else:
        click.echo("The cost is unknown: the price table has none of the queue's machines.")


def _row(answer: JobEstimate, market: str, cost: MarketCost) -> tuple[str, ...]:
    unknown = ", ".join(cost.unknown[:3]) + (f" and {len(cost.unknown) - 3} more" if len(cost.unknown) > 3 else "")
    return (market, "yes" if market in answer.markets else "no", _usd(cost.low), _usd(cost.high), unknown or "none")


def _usd(amount: float | None) -> str:
    """Two decimals, four below a dollar."""
    return "unknown" if amount is None else f"{amount:.2f}" if amount >= 1 else f"{amount:.4f}"
