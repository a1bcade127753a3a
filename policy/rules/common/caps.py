"""Caps on what a stack may start: vCPUs, and USD per hour by the dated price table of the package."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tidemill import planned_fleet, prices
from tidemill.capacity import UsdRange
from tidemill.planned_fleet import PlannedFleet

from .rule import KINDS
from .settings import settings

CPUS = {
    "maxCpus": {
        "type": "integer",
        "minimum": 1,
        "default": 10_000,
        "description": "vCPUs that all fleets of the stack together may reach.",
    }
}
"""The parameter of the rules on vCPUs."""
USD = {
    "maxUsdPerHour": {
        "type": "number",
        "exclusiveMinimum": 0,
        "default": 1_000,
        "description": "USD per hour that all machines of the stack together may cost, of their most expensive type.",
    },
    "unknownUsdPerCpuHour": {
        "type": "number",
        "minimum": 0,
        "default": 0,
        "description": "USD per vCPU and hour of a machine whose family has no known price anywhere; 0 refuses it.",
    },
}
"""The parameter of the rules on money."""
_CONFIGS = Path(__file__).parents[2] / "environments"
_NAMED = 5
"""Types that a message names; a stack may have dozens."""


def over_cpus(fleets: Sequence[PlannedFleet], most: int) -> Iterator[tuple[str, str]]:
    """Yield that the fleets of a stack may start too many vCPUs together, at the largest of them."""
    total = sum(fleet.cpus or 0 for fleet in fleets)
    if total > most:
        largest = max(fleets, key=lambda fleet: fleet.cpus or 0)
        message = (
            f"the stack's fleets may reach {total} vCPUs together, this one {largest.cpus}; maxCpus is {most}. "
            f"Lower max_cpus of the queues' capacity, or have maxCpus raised in {_config()}."
        )
        yield message, largest.urn


def hourly(cloud: str, region: str | None, fleet: PlannedFleet, *, at_most: bool = False) -> UsdRange:
    """Cost of a fleet per hour when all of its machines run.

    Args:
        at_most: Count a type without a known price in the region at the dearest price known elsewhere.
    """

    def price(kind: str) -> prices.MachinePrice | None:
        if at_most:
            return prices.at_most(cloud, region, kind, gpus=fleet.gpus)
        return prices.machine(cloud, region, kind, gpus=fleet.gpus) if region else None

    return planned_fleet.hourly(cloud, fleet, price)


def over_usd(
    cloud: str, region: str | None, fleets: Iterable[PlannedFleet], most: float, unknown: float
) -> Iterator[tuple[str, str]]:
    """Yield that the fleets of a stack together may cost too much per hour, at the most expensive of them.

    A type without a known price in the region counts as the dearest of any region, or of its family's vCPUs.

    Args:
        unknown: USD per vCPU and hour of a type without any known price; 0 refuses it, because no cap holds for it.
    """
    fleets = list(fleets)
    usd = {fleet.urn: hourly(cloud, region, fleet, at_most=True) for fleet in fleets}
    missing = sorted({kind for each in usd.values() for kind in each.unknown})
    if missing and not unknown:
        yield _no_cap(cloud, missing), next(urn for urn, each in usd.items() if each.unknown)
        return
    highest = {
        fleet.urn: max(usd[fleet.urn].high or 0.0, (fleet.cpus or 0) * unknown if usd[fleet.urn].unknown else 0.0)
        for fleet in fleets
    }
    total = sum(highest.values())
    if total > most:
        urn = max(highest, key=lambda key: highest[key])
        message = (
            f"the stack's machines may cost ${total:,.2f} per hour together, this fleet's ${highest[urn]:,.2f}; "
            f"maxUsdPerHour is {most:g}. Prices: {_origin(cloud, region, fleets)}. Lower max_cpus of the queues' "
            f"capacity or take cheaper machines, or have maxUsdPerHour raised in {_config()}."
        )
        yield message, urn


def _no_cap(cloud: str, kinds: Sequence[str]) -> str:
    more = f" and {len(kinds) - _NAMED} more" if len(kinds) > _NAMED else ""
    rule = next(name for name in KINDS if name.startswith(f"{cloud}-") and name.endswith("-money-cap"))
    return (
        f"no price is known anywhere for {', '.join(kinds[:_NAMED])}{more}, so no cap on money per hour holds. Take "
        f"other families, refresh the table (python -m ops prices refresh --cloud {cloud}), set the price that you pay "
        f"(python -m ops prices set --cloud {cloud} --type {kinds[0]} ...), or have the policy pack's config say what "
        f"a vCPU and hour of them counts, in USD: in {_config()}, "
        f'"{rule}": {{"unknownUsdPerCpuHour": 0.1}}.'
    )


def _config() -> str:
    """The config of the pack that our commands and CI take for the stack."""
    own = _CONFIGS / f"{settings().text('tidemill:environment')}.json"
    return f"policy/environments/{own.name if own.is_file() else 'default.json'}"


def _origin(cloud: str, region: str | None, fleets: Iterable[PlannedFleet]) -> prices.PriceOrigin | None:
    """When and from where the prices of the fleets' machines are."""
    dated = (prices.at_most(cloud, region, kind, gpus=fleet.gpus) for fleet in fleets for kind in fleet.types)
    return prices.origin(dated)


def unpriced(cloud: str, region: str | None, fleets: Sequence[PlannedFleet]) -> Iterator[tuple[str, str]]:
    """Yield which types of a stack's fleets have no known price in their region, once."""
    unknown = sorted({kind for fleet in fleets for kind in hourly(cloud, region, fleet).unknown})
    if unknown:
        place = region or "a region that the stack does not name"
        more = f" and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
        message = (
            f"no price is known in {place} for {', '.join(unknown[:_NAMED])}{more}: an estimate leaves them out, "
            "and the cap on money counts the dearest price known elsewhere, or refuses them. Refresh the table: "
            f"python -m ops prices refresh --cloud {cloud}."
        )
        yield message, min(fleet.urn for fleet in fleets)
