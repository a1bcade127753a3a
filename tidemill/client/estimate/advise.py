"""Advises where to run and on which machines: collects shapes and their facts, and ranks them by cost."""

from __future__ import annotations

import datetime
import math
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Literal

from tidemill import capacity, clouds, machines, prices, services
from tidemill.advice import notes
from tidemill.advice.knowledge import Knowledge
from tidemill.advice.model import ShapeAdvice, ZoneScore, advised, zone_scores
from tidemill.advice.own_figures import OwnFigures
from tidemill.advice.question import joined, question_of
from tidemill.advice.rank import RESTART_SECONDS, SAVE_SECONDS, RankedShape, Work, rank
from tidemill.advice.shapes import MachineShape, Need, Region, regions_of, shapes
from tidemill.advice.sources import LiveAnswer, LiveSource
from tidemill.client.estimate.measured_speed import read_own
from tidemill.client.journal import find_spec
from tidemill.client.plan.place import choose_queue
from tidemill.client.site import Site
from tidemill.descriptor import Machine, Queue
from tidemill.errors import CallerError, CloudError
from tidemill.job import JobSpec
from tidemill.machines import MachineType

LONGEST = 1e6
"""Hours of work, seconds of a save, GB of a GPU: no more than this."""

OpenSource = Callable[[str, str, str], LiveSource | None]
"""Makes the source of a cloud, from its name, the pipeline's region and the pipeline's account."""


@dataclass(frozen=True)
class AdviceRequest:
    """A request for advice; see `Pipeline.advise`.

    Attributes:
        live: Whether to ask the clouds; None for that of the pipeline alone. Without them, own jobs are read for `like`
            only.
    """

    need: Need
    regions: tuple[str, ...] = ()
    queue: str | None = None
    like: str | None = None
    hours: float = 1.0
    save_seconds: float = SAVE_SECONDS
    one_zone: bool = False
    every_size: bool = False
    limit: int = 20
    live: bool | None = None


def advise(wanted: AdviceRequest, site: Site | None = None, source: OpenSource | None = None) -> ShapeAdvice:
    """Shapes that satisfy a need, or those of a queue, the cheapest for the work first.

    Args:
        wanted: The question.
        site: The pipeline; None where nothing of one is asked.
        source: Makes the source of a cloud, for tests.

    Raises:
        CallerError: Which argument, its value, what is allowed, what to do.
    """
    return _AdviceRun(wanted, site, source or _open_source).answer()


def _open_source(cloud: str, region: str, account: str) -> LiveSource | None:
    # Imported late: the tables alone need no SDK.
    from tidemill.advice.live import open_source

    return open_source(cloud, region, account)


class _AdviceRun:
    def __init__(self, wanted: AdviceRequest, site: Site | None, source: OpenSource) -> None:
        self._wanted, self._site, self._source = wanted, site, source
        self._notes: list[str] = []
        self._like: JobSpec | None = None
        if site and wanted.like is not None:
            self._like = find_spec(site.store, wanted.like)

    def answer(self) -> ShapeAdvice:
        wanted = self._wanted
        _check_numbers(wanted)
        queue = _queue(self._site, wanted.queue) if self._site and wanted.queue is not None else None
        need = Need(architecture=queue[1].architecture) if queue else self._need()
        candidates = _queue_shapes(self._site, queue[1]) if self._site and queue else self._shapes(need)
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(self._own)
            live, zones = self._live(candidates, need)
            own = reading.result()
        knowledge = Knowledge(live, own)
        work = Work(
            units=need.units,
            hours=wanted.hours,
            save_seconds=wanted.save_seconds,
            item_seconds=own.item_seconds if own else None,
        )
        ranked = rank((knowledge.of(shape) for shape in candidates if knowledge.sold(shape)), work)
        self._check(ranked, candidates)
        if self._like and not any(row.facts.items_per_second for row in ranked):
            self._notes.append(
                f"No speed is measured: jobs named {self._like.name} have run on none of these machines."
            )
        self._notes += notes.quotas(ranked, live)
        self._notes += notes.caps(ranked, queue[1].most_percent) if queue else []
        if not (need.gpus or wanted.every_size or queue):
            ranked = _best_sizes(ranked)
        return ShapeAdvice(
            at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            queue=queue[0] if queue else None,
            hours=wanted.hours,
            save_seconds=wanted.save_seconds,
            restart_seconds=RESTART_SECONDS,
            unit=_unit(need, candidates),
            shapes=[advised(row) for row in ranked[: wanted.limit]],
            found=len(ranked),
            zones=zones,
            notes=list(dict.fromkeys(self._notes)),
        )

    def _need(self) -> Need:
        need, like = self._wanted.need, self._like
        if need.cpus or need.gpus or need.memory_mib:
            return need
        if like is None:
            raise CallerError("Nothing is asked for.", "Give `gpus`, `cpus` or `memory_mib`, or a queue.", what="cpus")
        item = like.resources
        return replace(need, cpus=math.ceil(item.cpus), memory_mib=item.memory_mib, gpus=item.gpus)

    def _shapes(self, need: Need) -> list[MachineShape]:
        regions = self._regions()
        like, site = self._like, self._site
        if like and site and need.architecture is None and like.queue in site.descriptor.queues:
            need = replace(need, architecture=site.descriptor.queues[like.queue].architecture)
        candidates = shapes(need, regions, one_zone=self._wanted.one_zone)
        if like is None:
            return candidates
        fitting = [
            shape
            for shape in candidates
            if capacity.slots(services.of_cloud(shape.cloud), shape.machine, like.resources, like.slots) > 0
        ]
        if not fitting:
            raise CallerError(
                f"No machine type with what is asked for holds an item of {like.job}.",
                "Leave out `families` or `arch`, or name another job.",
                what="like",
                value=like.job,
            )
        return fitting

    def _regions(self) -> list[Region]:
        if self._wanted.regions:
            return regions_of(self._wanted.regions, unlisted=self._wanted.live is True)
        if self._site is None or self._site.local:
            raise CallerError(
                "regions is not given.", "Name the regions to compare, such as us-west-2 and us-east-1.", what="regions"
            )
        return [Region(self._site.descriptor.cloud, self._site.descriptor.region)]

    # ---- what is known --------------------------------------------------------------------------------------------

    def _own(self) -> OwnFigures | None:
        """Figures of own jobs; without them, advice goes on."""
        if self._site is None or self._site.local or (self._wanted.live is False and self._like is None):
            return None
        try:
            own = read_own(self._site, self._like)
        except CloudError as error:
            self._notes.append(f"Own jobs are left out: {error}")
            return None
        self._notes += own.left_out
        return own

    def _live(self, candidates: Sequence[MachineShape], need: Need) -> tuple[LiveAnswer, list[ZoneScore]]:
        """The clouds' answers about Spot machines, now."""
        answers: list[LiveAnswer] = []
        zones: list[ZoneScore] = []
        home = self._site.descriptor if self._site else None
        for cloud in dict.fromkeys(shape.cloud for shape in candidates if shape.market == "spot"):
            record = clouds.find(cloud)
            assert record
            if self._wanted.live is False or not (self._wanted.live or (home and home.cloud == cloud)):
                continue
            if home and home.cloud == cloud:
                region, account = home.region, home.account
            else:
                region = next(each.region for each in candidates if each.cloud == cloud)
                variable, title = record.account_variable, cloud.upper()
                account = os.environ.get(variable, "")
                if variable and not account:
                    self._notes.append(f"{title} was not asked: set {variable}, or use a pipeline on {title}.")
                    continue
            source = self._source(cloud, region, account)
            question = question_of([shape for shape in candidates if shape.cloud == cloud], need, self._wanted.one_zone)
            if source is None:
                continue
            try:
                answers.append(source.ask(question))
            except CallerError as error:
                # Without the cloud's SDK the tables still say something.
                if self._wanted.live:
                    raise
                self._notes.append(f"No cloud was asked: {error}")
                continue
            if len(question.types) < record.scored_types:
                self._notes.append(notes.few_types(len(question.types), record))
            if record.scored_types and self._wanted.queue is not None:
                by_zone = source.ask(replace(question, one_zone=True))
                zones += zone_scores(by_zone)
        self._notes += notes.gaps(gap for answer in answers for gap in answer.gaps)
        return joined(answers), zones

    # ---- what is noted --------------------------------------------------------------------------------------------

    def _check(self, ranked: Sequence[RankedShape], candidates: Sequence[MachineShape]) -> None:
        """Refuse an answer that says nothing. Of a queue, scores and reclaims say something without prices."""
        where = ", ".join(dict.fromkeys(shape.region for shape in candidates))
        if not ranked:
            raise CallerError(
                f"The cloud sells none of these machines in {where}.",
                "Name other families, or another region with `regions`.",
                what="regions",
                value=where,
            )
        priced = {row.facts.shape.region for row in ranked if row.facts.price}
        if not priced and self._wanted.queue is None:
            clouds = dict.fromkeys(shape.cloud for shape in candidates)
            asked = {row.facts.shape.region for row in ranked}
            regions = ", ".join(name for cloud in clouds for name in prices.regions(cloud) if name not in asked)
            others = f", or try other regions: {regions}" if regions else ""
            raise CallerError(
                f"No price of these machines in {where} is known, neither from this version's tables nor from a cloud.",
                " ".join([*self._notes, f"Ask the cloud with `live=True` and a login{others}."]),
                what="regions",
                value=where,
                allowed=regions,
            )
        silent = [name for name in dict.fromkeys(row.facts.shape.region for row in ranked) if name not in priced]
        if silent:
            self._notes.append(f"No price of these machines is known in {', '.join(silent)}: they come last.")


def _check_numbers(wanted: AdviceRequest) -> None:
    given = {"hours": wanted.hours, "save_time": wanted.save_seconds, "gpu_memory": wanted.need.gpu_memory_gb}
    for what, value in given.items():
        if not 0 <= value <= LONGEST or (value == 0 and what != "gpu_memory"):
            raise CallerError.about(
                what, value, f"more than 0 and at most {LONGEST:,.0f}", "Leave it out for the default."
            )


def _queue(site: Site, name: str) -> tuple[str, Queue]:
    chosen = choose_queue(site.descriptor, name)
    if site.local:
        raise CallerError(
            f"The queue {chosen!r} is of this machine, which costs nothing and is not taken away.",
            "Ask a pipeline on AWS or GCP.",
            what="queue",
            value=repr(chosen),
        )
    return chosen, site.descriptor.queues[chosen]


def _queue_shapes(site: Site, queue: Queue) -> list[MachineShape]:
    """A shape for each type of the queue on each of its markets, as many machines as the rung may start."""
    cloud, region = site.descriptor.cloud, site.descriptor.region
    service = services.of_queue(cloud, queue)
    rungs = {rung.market: rung for rung in reversed(queue.capacity)}.values()
    return [
        MachineShape(
            cloud, region, None, machine, capacity.most_machines(service, rung.max_cpus, machine.cpus), rung.market
        )
        for rung in rungs
        for machine in (_known_type(cloud, each, queue) for each in queue.machines)
    ]


def _known_type(cloud: str, machine: Machine, queue: Queue) -> MachineType:
    """As the table has it; a type that is newer than the table as the queue has it."""
    exact = machines.find(cloud, machine.type, gpus=machine.gpus)
    return exact or MachineType(machine.type, machine.cpus, machine.memory_mib, machine.gpus, queue.architecture)


def _unit(need: Need, candidates: Iterable[MachineShape]) -> Literal["gpu", "vcpu", "gib"]:
    """The unit of a unit's price."""
    if need.memory_mib and not (need.cpus or need.gpus):
        return "gib"
    return "gpu" if any(shape.gpus for shape in candidates) else "vcpu"


def _best_sizes(ranked: Iterable[RankedShape]) -> list[RankedShape]:
    """The best size of each family in each place: the sizes of a family cost about the same per vCPU."""
    best: dict[tuple[str, str, str | None, str], RankedShape] = {}
    for row in ranked:
        shape = row.facts.shape
        best.setdefault((shape.machine.family, shape.region, shape.zone, shape.market), row)
    return list(best.values())
