"""Measures machine types on the pipeline's own jobs: how fast they are, and how often they are taken away.

It reads a few records and markers of a few of the newest jobs, so that the number of requests does not grow with the
jobs.
"""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice

from tidemill import capacity, machines
from tidemill.advice.own_figures import ENOUGH_HOURS, OwnFigures
from tidemill.advice.rank import DatedFigure, ReclaimMean
from tidemill.advice.shapes import type_name
from tidemill.client.journal import newest_specs
from tidemill.client.report.reclaims import drained_of, read_reclaims
from tidemill.client.report.records import read_digests
from tidemill.client.report.totals import Steps, Totals
from tidemill.client.site import Site
from tidemill.clouds.account import ignore
from tidemill.descriptor import Machine
from tidemill.errors import StoreError
from tidemill.figures import counted
from tidemill.job import JobSpec
from tidemill.ledger import Ledger

JOBS = 10
"""The newest jobs that are looked at; and so many of the name of `--like`."""
RECORDS = 16
"""Records, and markers of reclaims, that are read of each."""
_AT_ONCE = 10


@dataclass
class TypeWork:
    """Work that ran on machines of one type.

    Attributes:
        items: Items that succeeded, each in an attempt that committed.
        item_hours: Machine-hours that these took.
        spot_hours: Machine-hours on Spot, those of reclaimed attempts included.
        attempt_hours: Hours of attempts on Spot.
        reclaimed: Attempts on Spot that a reclaim ended. Those on one machine end together; so do their hours.
        jobs: Which ones ran there.
        oldest: When the first of them was submitted.
    """

    items: float = 0.0
    item_hours: float = 0.0
    spot_hours: float = 0.0
    attempt_hours: float = 0.0
    reclaimed: int = 0
    jobs: list[str] = field(default_factory=list)
    oldest: datetime.date = datetime.date.max

    def add(self, other: TypeWork) -> None:
        self.items, self.item_hours = self.items + other.items, self.item_hours + other.item_hours
        self.spot_hours, self.attempt_hours = (
            self.spot_hours + other.spot_hours,
            self.attempt_hours + other.attempt_hours,
        )
        self.reclaimed, self.jobs = self.reclaimed + other.reclaimed, self.jobs + other.jobs
        self.oldest = min(self.oldest, other.oldest)


@dataclass(frozen=True)
class JobWork:
    """Work of one job by machine type, and the mean time of an item."""

    spec: JobSpec
    types: dict[str, TypeWork]
    item_seconds: float | None


def _newest(site: Site, name: str = "*") -> list[JobSpec]:
    return list(islice(newest_specs(site.store, name, passed_over=ignore), JOBS))


def read_own(site: Site, like: JobSpec | None) -> OwnFigures:
    """Read the figures of own jobs.

    Args:
        site: The pipeline.
        like: A job: speeds are measured on the jobs of its name, because items of other jobs are other work.
    """
    with ThreadPoolExecutor(2) as pool:
        alike = pool.submit(_newest, site, like.name) if like else None
        newest = _newest(site)
        wanted = {spec.job: spec for spec in [*([like] if like else []), *(alike.result() if alike else []), *newest]}
    left_out: list[str] = []

    def readable(spec: JobSpec) -> JobWork | None:
        """A job that is damaged, or whose records expire meanwhile, takes only its own figures away."""
        try:
            return read_job(site, spec)
        except StoreError as error:
            left_out.append(f"The job {spec.job} is left out: {error}")
            return None

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        read = [each for each in pool.map(readable, wanted.values()) if each]
    own = site.descriptor
    same = [each for each in read if like and each.spec.name == like.name]
    return OwnFigures(
        cloud=own.cloud,
        region=own.region,
        items_per_second=speeds(same),
        reclaims=reclaim_means(read),
        item_seconds=_item_seconds(same) if like and like.state is None else None,
        left_out=tuple(left_out),
    )


def read_job(site: Site, spec: JobSpec) -> JobWork:
    """Read a job's work by machine type, without types that its queue no longer has."""
    ledger, queue = Ledger(site.store, spec.job), site.descriptor.queues.get(spec.queue)
    listing = ledger.listing()
    totals = Totals(Steps(0.0, 1.0))
    step = read_digests(site.store, spec.job, listing, totals, spec.chunk_size, most=RECORDS)
    taken = read_reclaims(site.store, drained_of(site.store, spec.job, listing), RECORDS)
    # A job whose machines are unknown says nothing of reclaims.
    silent = any(loss.type is None for loss in taken)
    by_name = {machine.type: machine for machine in queue.machines} if queue else {}
    types: defaultdict[str, TypeWork] = defaultdict(
        lambda: TypeWork(jobs=[spec.job], oldest=spec.created_at.astimezone(datetime.UTC).date())
    )
    for (kind, _, market), place in totals.places.items():
        if machine := by_name.get(kind or ""):
            ran, slots = types[_name(site, machine)], _slots(site, machine, spec)
            hours = place.held * step / 3600
            ran.items += place.succeeded * step
            ran.item_hours += hours / slots.machine
            if market == "spot" and not silent:
                ran.spot_hours += hours / slots.machine
                ran.attempt_hours += hours / slots.attempt
    for loss in taken:
        if (machine := by_name.get(loss.type or "")) and loss.market == "spot" and not silent:
            ran, slots = types[_name(site, machine)], _slots(site, machine, spec)
            ran.reclaimed += loss.reclaims
            ran.spot_hours += loss.held_hours / slots.machine
            ran.attempt_hours += loss.held_hours / slots.attempt
    wall = totals.measures["wall"]
    return JobWork(spec, dict(types), wall.sum / wall.sketch.total if wall.sketch.total else None)


def speeds(read: Iterable[JobWork]) -> dict[str, DatedFigure]:
    """Items per second of one machine, by type."""
    return {
        kind: DatedFigure(ran.items / ran.item_hours / 3600, ran.oldest, f"{counted(len(ran.jobs), 'own job')}")
        for kind, ran in _together(read).items()
        if ran.items and ran.item_hours > 0
    }


def reclaim_means(read: Iterable[JobWork]) -> dict[str, ReclaimMean]:
    """Mean hours between reclaims of a machine, by type, where there were enough machine-hours."""
    means: dict[str, ReclaimMean] = {}
    for kind, ran in _together(read).items():
        if ran.spot_hours >= ENOUGH_HOURS:
            # None at all counts as one: longer hours without a reclaim say only that it is rarer.
            source = (
                f"{counted(ran.reclaimed, 'reclaim')} in {ran.spot_hours:.0f} machine-hours of "
                f"{counted(len(ran.jobs), 'own job')}"
            )
            means[kind] = ReclaimMean(ran.attempt_hours / max(1, ran.reclaimed), ran.oldest, source, "own")
    return means


def _together(read: Iterable[JobWork]) -> dict[str, TypeWork]:
    by_type: defaultdict[str, TypeWork] = defaultdict(TypeWork)
    for job in read:
        for kind, ran in job.types.items():
            by_type[kind].add(ran)
    return dict(by_type)


@dataclass(frozen=True)
class Slots:
    """Slots of a whole machine, and those that one attempt on a chunk holds."""

    machine: int
    attempt: int


def _slots(site: Site, machine: Machine, spec: JobSpec) -> Slots:
    service = site.service(spec.queue)
    whole = max(1, capacity.slots(service, machine, spec.resources, spec.slots))
    worker = spec.slots if service.slots == "job" else whole
    return Slots(whole, max(1, min(worker, spec.chunk_size)))


def _name(site: Site, machine: Machine) -> str:
    kind = machines.find(site.descriptor.cloud, machine.type, gpus=machine.gpus)
    return type_name(kind) if kind else machine.type


def _item_seconds(read: Sequence[JobWork]) -> float | None:
    seconds = [each.item_seconds for each in read if each.item_seconds]
    return sum(seconds) / len(seconds) if seconds else None
