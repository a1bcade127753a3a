"""Rules of a queue's families: that a stack may name them, that they go together, and that their markets fit."""

from collections.abc import Iterable, Mapping, Sequence

from tidemill import services
from tidemill.machines import family

from ... import machines
from ...machines import MachineType
from ...rooms import CLOUDS
from ..errors import ConfigError, key_path, nearest, shown
from ..queue_models import Queue
from .common import Path

_MARKET = {"spot": "on Spot", "on_demand": "On-Demand", "block": "for a time booked before", "reserved": "if reserved"}


def check_families(path: Path, queue: Queue, cloud: str) -> None:
    """Every family must be one that a stack may name."""
    families = machines.families(cloud)
    for index, name in enumerate(queue.machines.families):
        if name not in families:
            why = family(cloud, name).refused
            raise ConfigError(
                key_path([*path, "machines", "families", index]),
                shown(name),
                f"families of {cloud.upper()}{_alike(name, families)}",
                f"{name} is not among them: {why}" if why else _meant(name, cloud, families),
            )


def _alike(name: str, families: Iterable[str]) -> str:
    """The families that begin with the same letter; where there are none, the place that lists all."""
    alike = ", ".join(each for each in families if each[0] == name[:1].lower())
    return f": {alike}" if alike else ", which stacks/schema.json lists"


def _meant(name: str, cloud: str, families: Mapping[str, Sequence[MachineType]]) -> str:
    """The fix of a name that is no family: people type machine types, and families of the other cloud.

    A name such as `a3-highgpu` is the beginning of a type.
    """
    lower = name.lower()
    if lower in families:
        return f"Did you mean {lower}?"
    for known, types in families.items():
        if any(f"{each.type}-".startswith((f"{lower}-", f"{lower}.")) for each in types):
            return f"Write the family, {known}; machines.cpus limits its sizes"
    elsewhere = [other for other in CLOUDS if other != cloud and lower in machines.families(other)]
    if elsewhere:
        return f"{lower} is a family of {elsewhere[0].upper()}; take one of {cloud.upper()}"
    guess = nearest(lower, families)
    return f"Did you mean {guess}?" if guess else "Take one of these"


def check_kinds(path: Path, queue: Queue, cloud: str) -> None:
    """One architecture per queue on AWS, GPU machines only for GPU items, and no Neuron machines among others."""
    families = queue.machines.families
    types = machines.families(cloud)
    here = key_path([*path, "machines", "families"])
    kinds = {family: types[family][0].architecture for family in families}
    if services.of_queue(cloud, queue).one_architecture and len(set(kinds.values())) > 1:
        by_kind = "; ".join(
            f"{kind}: {', '.join(f for f in families if kinds[f] == kind)}" for kind in sorted(set(kinds.values()))
        )
        raise ConfigError(
            here,
            shown(families),
            f"families of one architecture ({by_kind}), because a job queue of Batch takes no two",
            "Make a queue for each architecture",
        )
    with_gpus = [family for family in families if types[family][0].gpus]
    if queue.item.gpus and not with_gpus:
        raise ConfigError(
            key_path([*path, "item", "gpus"]),
            str(queue.item.gpus),
            f"0 on machines without GPUs ({', '.join(families)})",
            f"Take GPU families: {', '.join(f for f in types if types[f][0].gpus)}",
        )
    if with_gpus and (not queue.item.gpus or len(with_gpus) < len(families)):
        raise ConfigError(
            here,
            shown(families),
            "either families with GPUs and an item with item.gpus of 1 or more, or families without GPUs",
            f"Set item.gpus, or leave out {', '.join(with_gpus)}",
        )
    with_neurons = [family for family in families if types[family][0].neurons]
    if with_neurons and len(with_neurons) < len(families):
        raise ConfigError(
            here,
            shown(families),
            "either families with Inferentia or Trainium, or families without",
            f"Make a queue for {', '.join(with_neurons)}",
        )


def check_markets(path: Path, queue: Queue, selected: Sequence[MachineType]) -> None:
    """Every rung must be able to buy every type.

    Args:
        selected: The types that the queue may start.
    """
    for index, rung in enumerate(queue.capacity):
        wanted = {"block"} if rung.block else {rung.market, "reserved"} if rung.reservation else {rung.market}
        here = [*path, "capacity", index]
        if not_sold := [machine for machine in selected if not wanted & {*machine.markets}]:
            names = ", ".join(machine.type for machine in not_sold[:4])
            more = f" and {len(not_sold) - 4} more" if len(not_sold) > 4 else ""
            markets = sorted({_MARKET[market] for machine in not_sold for market in machine.markets})
            raise ConfigError(
                key_path([*here, "block" if rung.block else "market"]),
                "true" if rung.block else shown(rung.market),
                f"a market on which the queue's types are sold: {names}{more} only {' or '.join(markets)}",
                "Change the rung, or leave these types out with machines.exclude",
            )
