"""Rules of a queue's families: that a stack may name them, that they go together, and that their markets fit."""

from collections.abc import Iterable, Sequence

from tidemill import services
from tidemill.machines import family

from ... import machines
from ...machines import MachineType
from ..errors import ConfigError, key_path, nearest, shown
from ..queue_models import Queue
from .common import Path

_MARKET = {"spot": "on Spot", "on_demand": "On-Demand", "block": "for a time booked before", "reserved": "if reserved"}


def check_families(path: Path, queue: Queue, cloud: str) -> None:
    """Every family must be one that a stack may name."""
    families = machines.families(cloud)
    for index, name in enumerate(queue.machines.families):
        if name not in families:
            guess = nearest(name, families)
            why = family(cloud, name).refused
            fix = f"Did you mean {guess}?" if guess else "Take one of these"
            raise ConfigError(
                key_path([*path, "machines", "families", index]),
                shown(name),
                f"families of {cloud.upper()}: {', '.join(_alike(name, families))}",
                f"{name} is not among them: {why}" if why else fix,
            )


def _alike(name: str, families: Iterable[str]) -> list[str]:
    """The families that begin with the same letter; all of them where there are none."""
    return [each for each in families if each[0] == name[:1]] or [*families]


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
