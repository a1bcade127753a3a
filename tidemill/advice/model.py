"""What advice answers: the document of `tidemill advise --json`."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from tidemill import machines
from tidemill.advice.rank import Bucket, DatedFigure, Price, Ranked
from tidemill.advice.shapes import MachineShape, Market


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
        usd_unit_hour: The same per GPU asked for, or per vCPU where no GPU is.
        score: How likely the machines are to be there now, from 0 to 1.
        interruption: Machines that are taken away in a month, in percent.
        reclaim_hours: Mean time between two reclaims of a machine.
        reclaims_from: What that mean is from: `own` jobs or the `bucket` that the cloud publishes.
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
    score: DatedFigure | None
    interruption: Bucket | None
    reclaim_hours: DatedFigure | None
    reclaims_from: str | None
    items_per_second: DatedFigure | None
    usd_million: DatedFigure | None
    usd_total: DatedFigure | None
    at_least: bool
    save_every_seconds: DatedFigure | None


@dataclass(frozen=True)
class ShapeAdvice:
    """Shapes in the order of their cost.

    Attributes:
        at: When this was put together, in UTC.
        hours: For how long the total is.
        unit: What `usd_unit_hour` is per: `gpu` or `vcpu`.
        shapes: The first of them.
        found: How many there are in all.
        notes: What a reader has to know besides.
    """

    at: str
    hours: float
    unit: str
    shapes: list[AdvisedShape]
    found: int
    notes: list[str]


def document(
    ranked: Sequence[Ranked], *, hours: float, unit: str, limit: int, notes: Sequence[str] = ()
) -> ShapeAdvice:
    """The answer for ranked shapes."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return ShapeAdvice(now, hours, unit, [_shape(row) for row in ranked[:limit]], len(ranked), list(notes))


def _shape(row: Ranked) -> AdvisedShape:
    facts, shape = row.facts, row.facts.shape
    mean = facts.reclaim_hours
    bucket_alone = mean and facts.bucket and mean.source == facts.bucket.source
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
        reclaim_hours=mean,
        reclaims_from=("bucket" if bucket_alone else "own") if mean else None,
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
