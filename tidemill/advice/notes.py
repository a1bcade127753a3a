"""Lines below an answer: what a reader has to know besides the figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from tidemill.advice.knowledge import Knowledge
from tidemill.advice.rank import RankedShape
from tidemill.advice.sources import Gap, LiveAnswer
from tidemill.clouds import Cloud
from tidemill.machines.quotas import kind_of


def few_types(count: int, cloud: Cloud) -> str:
    """For a question about so few types that the cloud scores it low."""
    return (
        f"{cloud.title} scores fewer than {cloud.scored_types} types low by rule, and {count} "
        f"{'is' if count == 1 else 'are'} asked about: more families give a truer score."
    )


def gaps(missing: Iterable[Gap]) -> list[str]:
    """A line for each reason, with all calls that it is about."""
    calls: dict[str, list[str]] = {}
    for gap in missing:
        text, prefix = str(gap), f"{gap.source}: "
        calls.setdefault(text.removeprefix(prefix), []).extend([gap.source] if text.startswith(prefix) else [])
    return [": ".join([*([", ".join(sources)] if sources else []), reason]) for reason, sources in calls.items()]


def quotas(ranked: Sequence[RankedShape], live: LiveAnswer) -> Iterator[str]:
    """For shapes that are larger than the account's limit."""
    for quota in live.quotas:
        kind = (quota.region, quota.market, quota.kind)
        shapes = [row.facts.shape for row in ranked]
        same = [shape for shape in shapes if (shape.region, shape.market, kind_of(shape.type, shape.market)) == kind]
        over = sum(shape.cpus > quota.value for shape in same) if quota.value is not None else 0
        if over:
            yield (
                f"The account may run {quota.value:,.0f} vCPUs of {quota.kind} types on {quota.market} in "
                f"{quota.region} ({quota.source}, {quota.as_of}), and {over} of these shapes have more: ask AWS for a "
                "larger quota."
            )


def caps(ranked: Iterable[RankedShape], percent: int | None) -> Iterator[str]:
    """For types of a queue that cost more on Spot than it pays, in percent of their On-Demand price."""
    for row in ranked:
        shape, price = row.facts.shape, row.facts.price
        fixed = Knowledge().of(replace(shape, market="on_demand")).price
        if percent and fixed and price and shape.market == "spot" and 100 * price.now > percent * fixed.now:
            yield (
                f"{shape.type} costs {price.now:.3f} USD/h on Spot, more than the queue pays: {percent} % of "
                f"{fixed.now:.3f} ({fixed.as_of}, {fixed.source})."
            )
