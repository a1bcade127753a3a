"""Cost of a job by the price table: its slots' share of each machine, for as long as they were held."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidemill import capacity, prices, services
from tidemill.client.report.model import Cost, CostLine, ReclaimLoss
from tidemill.client.report.totals import PlaceKey, PlaceTotal
from tidemill.descriptor import Descriptor, Machine
from tidemill.job import JobSpec


@dataclass
class _Hours:
    """Slot-hours on one kind of machine."""

    held: float = 0.0
    lost: float = 0.0
    """Those of them that led to no outcome, because a reclaim ended the attempt: On-Demand machines lose none."""


def cost_of(
    descriptor: Descriptor,
    spec: JobSpec,
    places: Mapping[PlaceKey, PlaceTotal],
    reclaimed: Sequence[ReclaimLoss],
    emulated: bool,
) -> Cost | None:
    """The cost of what was measured; None where nothing is paid for, or nothing was measured."""
    queue = descriptor.queues.get(spec.queue)
    hours: defaultdict[tuple[str | None, str | None], _Hours] = defaultdict(_Hours)
    for (kind, _, market), total in places.items():
        hours[kind, market].held += total.held / 3600
    for each in reclaimed:
        hours[each.type, each.market].held += each.held_hours
        hours[each.type, each.market].lost += each.lost_hours
    if descriptor.cloud == "local" or queue is None or not any(each.held for each in hours.values()):
        return None
    lines: list[CostLine] = []
    used: list[prices.MachinePrice | prices.ServicePrice | None] = []
    unpriced = 0.0
    for (kind, market), each in hours.items():
        machine = next((one for one in queue.machines if one.type == kind), None)
        line = machine and market and _line(descriptor, spec, machine, market, each)
        if not line:
            unpriced += each.held
            continue
        lines.append(line)
        used.append(prices.machine(descriptor.cloud, descriptor.region, line.type, gpus=machine.gpus if machine else 0))
        used.append(prices.service(descriptor.cloud, descriptor.region, "disk_gib_month"))
    origin = prices.origin(used)
    usd = [line.on_demand for line in lines if line.on_demand is not None]
    return Cost(
        low=round(sum(line.low for line in lines), 4),
        high=round(sum(line.high for line in lines), 4),
        on_demand=round(sum(usd), 4) if len(usd) == len(lines) and lines else None,
        unpriced_hours=round(unpriced, 4),
        as_of=origin.as_of.isoformat() if origin else None,
        sources=list(origin.sources) if origin else [],
        emulated=emulated,
        lines=sorted(lines, key=lambda line: -line.high),
    )


def _line(descriptor: Descriptor, spec: JobSpec, machine: Machine, market: str, hours: _Hours) -> CostLine | None:
    """None where the machine has no price, or is too small for the job's items."""
    cloud, region = descriptor.cloud, descriptor.region
    price = prices.machine(cloud, region, machine.type, gpus=machine.gpus)
    usd = capacity.machine_usd(price, market, descriptor.queues[spec.queue].most_percent)
    fixed = capacity.machine_usd(price, "on_demand")
    slots = capacity.slots(services.of_queue(cloud, descriptor.queues[spec.queue]), machine, spec.resources, spec.slots)
    if usd is None or not slots:
        return None
    disk = prices.service(cloud, region, "disk_gib_month")
    disk_hour = descriptor.queues[spec.queue].billed_gib * disk.usd / prices.HOURS_A_MONTH if disk else 0.0
    low, high = (round((each + disk_hour) / slots * hours.held, 4) for each in usd)
    on_demand = None if fixed is None else round((fixed[0] + disk_hour) / slots * (hours.held - hours.lost), 4)
    return CostLine(machine.type, market, round(hours.held, 4), low, high, on_demand)
