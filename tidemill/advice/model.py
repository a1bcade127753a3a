"""The document of `tidemill advise --json`."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Literal

from tidemill import machines
from tidemill.advice.knowledge import of_ten
from tidemill.advice.rank import Bucket, DatedFigure, Price, RankedShape, ReclaimMean, ShapeScore
from tidemill.advice.shapes import MachineShape, Market
from tidemill.advice.sources import LiveAnswer


@dataclass(frozen=True)
class MachineFacts:
    """A machine type. Null is unknown."""

    type: str
    architecture: str
    cpus: int
    memory_mib: int
    gpus: int
    gpu_name: str | None
    gpu_memory_mib: int | None
    cpus_per_gpu: float | None
    network_gbps: float | None
    network_burst_gbps: float | None
    efa: bool | None
    as_of: datetime.date
    source: str


@dataclass(frozen=True)
class AdvisedShape:
    """So many machines of one type on one market, and what is known of them. Null is unknown.

    Attributes:
        zone: Null for any zone of the region. On AWS a zone's id.
        price: Of one machine, in USD per hour.
        usd_hour: Of all machines, per hour.
        usd_unit_hour: The same per GPU, vCPU or GiB that was asked for; see `unit`.
        score: How likely the machines are to be there now; on AWS all the types asked about together.
        interruption: AWS: machines of the type that are taken away in a month, in percent.
        reclaimed_part: GCP: the part of the type's stopped machines that was reclaimed, from 0 to 1.
        uptime: GCP: seconds that most of the machines are expected to run at least, an hour at most.
        reclaims: Mean time between two reclaims of a machine, in hours, and its basis.
        items_per_second: Of one machine, measured on your own jobs.
        usd_million: A million items, with what reclaims cost.
        usd_total: All machines for the hours asked for, with what reclaims cost.
        at_least: Whether those two leave reclaims out, because it is unknown how frequent they are.
        save_every_seconds: The best interval between saves of the state.
    """

    cloud: str
    region: str
    zone: str | None
    type: str
    count: int
    market: Market
    machine: MachineFacts
    price: Price | None
    usd_hour: DatedFigure | None
    usd_unit_hour: DatedFigure | None
    score: ShapeScore | None
    interruption: Bucket | None
    reclaimed_part: DatedFigure | None
    uptime: DatedFigure | None
    reclaims: ReclaimMean | None
    items_per_second: DatedFigure | None
    usd_million: DatedFigure | None
    usd_total: DatedFigure | None
    at_least: bool
    save_every_seconds: DatedFigure | None


@dataclass(frozen=True)
class ZoneScore:
    """How likely Spot machines are to be there in one zone; the zone by its name in the asking account."""

    region: str
    zone: str
    score: ShapeScore


@dataclass(frozen=True)
class ShapeAdvice:
    """Shapes in the order of their cost.

    Attributes:
        at: When this was put together, in UTC.
        queue: The queue that was asked about; null where none was.
        hours: How long the work takes that `usd_total` is for.
        save_seconds: What saving the state is taken to last.
        restart_seconds: What a new machine is taken to need until it goes on with the work.
        unit: What `usd_unit_hour` is per: `gpu`, `vcpu`, or `gib` of memory.
        shapes: The first of them.
        found: How many there are in all.
        zones: Scores of single zones, where they were asked for.
        notes: What a reader has to know besides: what could not be asked, and what a figure rests on.
    """

    at: str
    queue: str | None
    hours: float
    save_seconds: float
    restart_seconds: float
    unit: Literal["gpu", "vcpu", "gib"]
    shapes: list[AdvisedShape]
    found: int
    zones: list[ZoneScore]
    notes: list[str]


def zone_scores(answer: LiveAnswer) -> list[ZoneScore]:
    """AWS's scores of single zones, the best of a region first."""
    zones = [(each, each.zone or each.zone_id) for each in answer.scores]
    scores = [ZoneScore(each.region, zone, of_ten(each)) for each, zone in zones if zone]
    return sorted(scores, key=lambda zone: (zone.region, -zone.score.value, zone.zone))


def advised(row: RankedShape) -> AdvisedShape:
    facts, shape = row.facts, row.facts.shape
    return AdvisedShape(
        cloud=shape.cloud,
        region=shape.region,
        zone=shape.zone,
        type=shape.type,
        count=shape.count,
        market=shape.market,
        machine=_machine(shape),
        price=facts.price,
        usd_hour=row.usd_hour,
        usd_unit_hour=row.usd_unit_hour,
        score=facts.score,
        interruption=facts.bucket,
        reclaimed_part=facts.reclaimed_part,
        uptime=facts.uptime,
        reclaims=facts.reclaims,
        items_per_second=facts.items_per_second,
        usd_million=row.usd_million,
        usd_total=row.usd_total,
        at_least=row.at_least,
        save_every_seconds=row.save_every_seconds,
    )


def _machine(shape: MachineShape) -> MachineFacts:
    one, table = shape.machine, machines.table(shape.cloud)
    return MachineFacts(
        type=shape.type,
        architecture=one.architecture,
        cpus=one.cpus,
        memory_mib=one.memory_mib,
        gpus=one.gpus,
        gpu_name=one.gpu_name,
        gpu_memory_mib=one.gpu_memory_mib,
        cpus_per_gpu=round(one.cpus / one.gpus, 2) if one.gpus else None,
        network_gbps=one.network_gbps,
        network_burst_gbps=one.network_burst_gbps,
        efa=one.efa,
        as_of=table.as_of,
        source=table.source,
    )
