"""How much choice Spot has: fleets with a single type or zone, and machines that are often reclaimed."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ops.review.capacity import Prices, Side
from ops.review.compute import ENVIRONMENT, GROUPS
from ops.review.diffs import at
from ops.review.document import SpotScore, State, Step
from ops.review.models import Finding
from tidemill.figures import counted
from tidemill.prices import brief

OFTEN_PERCENT = 20
"""The worst bucket of the Spot Instance Advisor begins here."""
_SUBNET = "aws:ec2/subnet:Subnet"
_ADVISE = "`python -m ops advise --stack STACK QUEUE` compares families and zones."


class SpotFleet(NamedTuple):
    """A Spot fleet that is new, or gets other types or zones."""

    step: Step
    types: list[str]
    """Each once, sorted."""
    cpus: int | None
    zones: int | None
    """How many; None where that is unknown, and on GCP for all of the region's."""
    attached: int = 0
    """GPUs that are attached to each machine."""


def fleets(steps: list[Step]) -> Iterator[SpotFleet]:
    """The Spot fleets of a preview whose choice of machines changes."""
    before, after = (Side(steps, old) for old in (True, False))
    for step in steps:
        if step.type != ENVIRONMENT and step.type not in GROUPS:
            continue
        fleet, old = after.fleet(step), before.fleet(step)
        if not fleet or fleet.market != "spot" or not fleet.types:
            continue
        zones = _zones(step.after)
        if old and (sorted(old.types), old.market, _zones(step.before)) == (sorted(fleet.types), "spot", zones):
            continue
        yield SpotFleet(step, sorted(set(fleet.types)), fleet.cpus, zones, fleet.gpus)


def findings(
    steps: list[Step], cloud: str, region: str | None, prices: Prices, scores: Iterable[SpotScore] = ()
) -> Iterator[Finding]:
    """Findings of the kind `spot`.

    Args:
        scores: What the cloud said of these fleets when they were previewed.
    """
    by_fleet = {score.fleet: score for score in scores}
    for step, types, _, zones, _ in fleets(steps):
        if len(types) == 1:
            title = f"Spot has no choice: one machine type ({types[0]})"
            yield Finding("low", "spot", step.name, step.urn, title, (_ADVISE,))
        if zones == 1:
            title = "Spot has no choice: machines start in one zone"
            yield Finding("low", "spot", step.name, step.urn, title, (_ADVISE,))
        if region:
            yield from _reclaimed(step, types, cloud, region, prices)
        if (score := by_fleet.get(step.name)) and score.low:
            title = f"Spot machines were scarce at the preview: {score.told}"
            told = f"Of {score.at:%Y-%m-%d %H:%M} UTC, from {score.source}."
            yield Finding("medium", "spot", step.name, step.urn, title, (told, _ADVISE))


def _zones(state: State | None) -> int | None:
    """How many zones machines may start in; None where that is unknown, and on GCP for all of the region's."""
    if state is None:
        return None
    named = state.inputs.get("distributionPolicyZones")
    if isinstance(named, list):
        return len(named) or None
    subnets: Any = at(state.inputs, ("computeResources", "subnets"))
    if isinstance(subnets, list):
        return len(subnets)
    # A new network's subnets have no ids yet, but the engine knows which they are.
    needs = state.property_dependencies.get("computeResources") or []
    return len({urn for urn in needs if urn.split("::", 3)[2].rpartition("$")[2] == _SUBNET}) or None


def _reclaimed(step: Step, types: Sequence[str], cloud: str, region: str, prices: Prices) -> Iterator[Finding]:
    figures = {each: figure for each in types if (figure := prices.interruption(cloud, region, each))}
    often = [each for each, figure in figures.items() if figure.low >= OFTEN_PERCENT]
    if 2 * len(often) <= len(types):
        return
    which = f"{len(often)} of " if len(often) < len(types) else ""
    which += f"its {counted(len(types), 'type')}"
    oldest = min(figure.as_of for figure in figures.values())
    told = (
        f"Types: {', '.join(often)}.",
        f"Of {oldest}, from {brief(figure.source for figure in figures.values())}.",
        _ADVISE,
    )
    title = f"Spot machines are often reclaimed: more than {OFTEN_PERCENT} % in a month for {which}"
    yield Finding("medium", "spot", step.name, step.urn, title, told)
