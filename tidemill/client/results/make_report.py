"""Makes the report of a job: reads what there is of it and puts the figures together."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from itertools import accumulate

from tidemill.client.report.advice import Experience, advise
from tidemill.client.report.costing import cost_of
from tidemill.client.report.model import JobReport, Place, ReportedExpectation, SlotUse, Timeline
from tidemill.client.report.page import page_of, redacted
from tidemill.client.report.reclaims import drained_of, read_reclaims
from tidemill.client.report.records import read_digests, read_failures, read_unfinished, unfinished_chunks
from tidemill.client.report.save import check_place, save
from tidemill.client.report.shown import ShownReport
from tidemill.client.report.totals import STEPS, Steps, Totals
from tidemill.client.results.metric_curves import metric_curves
from tidemill.client.watch.explain import read_facts
from tidemill.client.watch.observation import observe
from tidemill.client.watch.status import Status
from tidemill.client.watch.watched import WatchedJob
from tidemill.clouds.emulated import emulated
from tidemill.explain.judge import explain
from tidemill.ledger.first_item import first_item_seconds
from tidemill.store import Entry

KINDS_SHOWN = 6
"""Kinds of machines that a timeline tells apart; the rest is `other`."""
PLACES_SHOWN = 100


def write_report(job: WatchedJob, place: str, *, redact: bool, everything: bool) -> str:
    """See `Job.write_report`."""
    check_place(place)
    report = make_report(job, everything)
    return save(job.site, place, page_of(redacted(report) if redact else report))


def make_report(watched: WatchedJob, everything: bool = False) -> JobReport:
    """The report of a job as it is now.

    Args:
        watched: The job.
        everything: Read every record with failed items, not only a sample of many.
    """
    site, ledger, spec = watched.site, watched.ledger, watched.spec
    seen = observe(site, ledger, spec, consumption=False)
    status, listing = seen.status(), seen.listing
    now, created = site.account.at(), spec.created_at
    open_chunks = unfinished_chunks(ledger, listing)
    written = [at for done in listing.done.values() for at in done.values()]
    written += [each.at for each in open_chunks.values()]
    last = max(written, default=created.timestamp())
    end = last if status.ended else now.timestamp()
    totals = Totals(Steps(created.timestamp(), max(end, created.timestamp() + 1)))
    read_digests(ledger.store, ledger.job, listing, totals, spec.chunk_size)
    unfinished = read_unfinished(ledger, open_chunks, totals)
    early = unfinished.succeeded + len(unfinished.failures)
    descriptor = site.descriptor
    drained = drained_of(ledger.store, ledger.job, listing)
    reclaimed = read_reclaims(ledger.store, drained)
    cost = cost_of(descriptor, spec, totals.places, reclaimed, emulated())
    report = ShownReport(
        job=spec.job,
        name=spec.name,
        queue=spec.queue,
        user=spec.user,
        state=status.state,
        cloud=descriptor.cloud,
        region=descriptor.region,
        emulated=emulated() and descriptor.cloud != "local",
        as_of=now.isoformat(timespec="seconds"),
        created_at=created.isoformat(timespec="seconds"),
        ended_at=_iso(last) if status.ended and written else None,
        wall_seconds=round(end - created.timestamp(), 1) if written or not status.ended else 0.0,
        items=status.items,
        succeeded=status.succeeded + unfinished.succeeded,
        failed=status.failed + len(unfinished.failures),
        remaining=status.remaining - early,
        chunks=status.chunks.total,
        chunks_done=status.chunks.done,
        chunk_size=spec.chunk_size,
        slots=spec.slots,
        rounds=status.rounds,
        reclaims=status.reclaims,
        executions=totals.executions,
        records=totals.records,
        command=spec.command or [str(spec.function)],
        versions=[version for version, _ in totals.versions.most_common(5)],
        asked_cpus=spec.resources.cpus,
        asked_memory_mib=spec.resources.memory_mib,
        asked_gpus=spec.resources.gpus,
        note=status.note,
        headline=None if status.ended else explain(read_facts(seen)).headline.line,
        timeline=_timeline(drained, totals) if totals.executions else None,
        wall=totals.measures["wall"].distribution(),
        chunk_seconds=totals.chunks.distribution(),
        cores=totals.measures["cores"].distribution(spec.resources.cpus),
        memory_mib=totals.measures["memory"].distribution(spec.resources.memory_mib),
        gpu_memory_mib=totals.measures["gpu"].distribution(),
        gpu_percent=totals.measures["gpu_busy"].distribution(),
        tries=totals.tries,
        reasons=dict(totals.reasons.most_common()),
        places=_places(totals),
        slowest=[item for _, _, item in sorted(totals.slowest, reverse=True)],
        failing=read_failures(ledger, listing, unfinished, everything),
        slot_use=_slot_use(totals),
        reclaimed=reclaimed,
        cost=cost,
        first_item_seconds=None if site.local else first_item_seconds(ledger.store, ledger.job),
        metrics=metric_curves(ledger, spec),
        origins=status.origins,
        estimated=ReportedExpectation(**spec.expected.model_dump()) if spec.expected else None,
    )
    if not site.local:
        report.advice.extend(advise(_experience(watched, status, totals, report)))
    return report


def _iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")


def _timeline(drained: list[Entry], totals: Totals) -> Timeline:
    steps, reclaims = totals.steps, [0] * STEPS
    for entry in drained:
        reclaims[steps.at(entry.modified)] += 1
    busy = {kind: [round(value, 2) for value in list(accumulate(each))[:STEPS]] for kind, each in totals.busy.items()}
    ranked = sorted(busy.items(), key=lambda pair: -sum(pair[1]))
    slots = dict(ranked[:KINDS_SHOWN])
    if rest := ranked[KINDS_SHOWN:]:
        slots["other"] = [round(sum(column), 2) for column in zip(*(each for _, each in rest), strict=True)]
    return Timeline(
        start=_iso(steps.start),
        step_seconds=round(steps.step, 3),
        succeeded=totals.succeeded,
        failed=totals.failed,
        reclaims=reclaims,
        slots=slots,
        machines=_machines(totals),
    )


def _machines(totals: Totals) -> list[int] | None:
    if not totals.machines or totals.many_machines:
        return None
    changes = [0] * (STEPS + 1)
    for first, last, _ in totals.machines.values():
        changes[totals.steps.at(first)] += 1
        changes[totals.steps.at(last) + 1] -= 1
    return list(accumulate(changes))[:STEPS]


def _places(totals: Totals) -> list[Place]:
    whole = not totals.many_machines
    machines: dict[object, int] = {}
    for _, _, key in totals.machines.values():
        machines[key] = machines.get(key, 0) + 1
    places = [
        Place(*key, machines.get(key) if whole else None, one.chunks, one.items, one.failed, round(one.held / 3600, 4))
        for key, one in totals.places.items()
    ]
    return sorted(places, key=lambda place: -place.items)[:PLACES_SHOWN]


def _slot_use(totals: Totals) -> SlotUse | None:
    if totals.held <= 0:
        return None
    other = max(0.0, totals.held - totals.measured_work - totals.fetch - totals.upload)
    parts = (totals.held, totals.measured_work, totals.fetch, totals.upload, other)
    return SlotUse(*(round(seconds / 3600, 5) for seconds in parts))


def _experience(watched: WatchedJob, status: Status, totals: Totals, report: JobReport) -> Experience:
    site, spec = watched.site, watched.spec
    queue = site.descriptor.queues.get(spec.queue)
    hours: defaultdict[str | None, float] = defaultdict(float)
    for place in report.places:
        hours[place.type] += place.slot_hours
    machines = [(each, hours[each.type]) for each in queue.machines if hours[each.type]] if queue else []
    return Experience(
        cloud=site.descriptor.cloud,
        machines=machines,
        asked=spec.resources,
        container=spec.slots,
        whole_cpus=site.service(spec.queue).whole_cpus and spec.slots == 1,
        timeout_seconds=spec.timeout_seconds,
        chunk_size=spec.chunk_size,
        executions=totals.executions,
        reasons=totals.reasons,
        reclaims=status.reclaims,
        wall=report.wall,
        cores=report.cores,
        # Of items that get more as they need it, the largest says nothing about the others.
        memory_mib=None if spec.memory_max_mib else report.memory_mib,
        chunk_seconds=report.chunk_seconds,
        chunk_hours=totals.chunks.sum / 3600,
        slot_use=report.slot_use,
        usd=report.cost.high if report.cost else None,
        queue=None if site.local else queue,
        region=site.descriptor.region,
    )
