"""Explains why a job does not progress: collects facts from the store, the queue and the machines for the rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from typing import Any

from tidemill import layout
from tidemill.capacity import fitting, usable_memory_mib
from tidemill.client.health.machine_faults import fleet_errors
from tidemill.client.health.reconciler import read_report
from tidemill.client.plan.limit import spent_of
from tidemill.client.rounds.deliveries import queue_of
from tidemill.client.rounds.memory import larger_memory
from tidemill.client.site import Site
from tidemill.client.watch.observation import Observation, cancelled_words, telling
from tidemill.client.watch.status import SPEED_SECONDS
from tidemill.completion import owners
from tidemill.errors import CallerError, CloudError, one_line
from tidemill.explain.answer import Unseen
from tidemill.explain.facts import Facts, FleetFacts, JobFacts, Straggler
from tidemill.failures import telling_line
from tidemill.job import JobSpec
from tidemill.ledger.attempts import newest_markers
from tidemill.ledger.gate import begun_at
from tidemill.ledger.records import Record

NEWEST = 200
"""Outcomes whose failures are counted."""
RECORDS = 4
"""Records that are read, of failed and of other chunks each."""
LAST_SHARE = 100
"""The end of a job: at most one of so many chunks is left."""
TROUBLE = ("A2", "A3", "G3", "G10")
"""Causes that a submit prints; it reports quotas, shortages and errors of machines anyway."""
STRAGGLERS = 3
STORM_SECONDS = 1800.0
STEADY = 3
"""Earlier spans of ten minutes that tell what is usual."""


def known_trouble(site: Site, queue: str) -> list[str]:
    """Known problems of a queue before a job is sent to it, a line each."""
    try:
        cloud, _ = site.backend(queue).queue_facts(site.descriptor.queues[queue])
        if cloud is None:
            return []
        report = read_report(site.store) if site.service(queue).reconciled else None
    except CloudError:
        return []
    fleet = FleetFacts(report.at, groups=report.groups(queue)) if report else None
    from tidemill.explain.judge import explain

    # As for a job that has waited for long: what is wrong now does not pass while this one waits.
    facts = Facts(site.account.now(), JobFacts("", queue, waiting=1), cloud, fleet)
    return [f"queue {queue!r}: {cause.text}" for cause in explain(facts).causes if cause.code in TROUBLE]


def read_facts(seen: Observation) -> Facts:
    """Everything that can be seen of a job, in a bounded number of requests."""
    site, spec, unseen = seen.site, seen.spec, list[Unseen]()
    cloud = None
    if seen.state not in ("finished", "cancelled"):
        try:
            cloud, unseen = site.backend(spec.queue).facts(queue_of(site, spec), spec.job, seen.known)
        except (CallerError, CloudError) as error:
            unseen.append(Unseen("the queue", one_line(error.problem)))
    now = site.account.now()
    try:
        job = _job_facts(seen, now)
    except CloudError as error:
        unseen.append(Unseen("the job's records", one_line(error.problem)))
        job = _plain_facts(seen)
    return Facts(now, job, cloud, _fleet(seen, job.began, unseen) if cloud else None, unseen)


def _fleet(seen: Observation, began: float, unseen: list[Unseen]) -> FleetFacts | None:
    """Records of the reconciler and the machines, where there is a reconciler."""
    site = seen.site
    if not site.service(seen.spec.queue).reconciled:
        return None
    try:
        report = read_report(site.store)
        errors, count = fleet_errors(site.store, since=began)
    except CloudError as error:
        unseen.append(Unseen("the fleet's records", one_line(error.problem)))
        return None
    texts = [error.text() for error in errors]
    if report is None:
        return FleetFacts(errors=texts, broken=count)
    late = "".join(report.late(site.account.now()))
    return FleetFacts(report.at, late, report.groups(seen.spec.queue), texts, count)


def _sent(seen: Observation) -> tuple[int, int] | None:
    """Arrays that the queue was given, where it was given fewer than there are: of a queue that forgets nothing."""
    arrays = [array.name for round_ in seen.listing.rounds for array in round_.arrays]
    names = {state.name for state in seen.known}
    if seen.site.backend(seen.spec.queue).service.sees_children or seen.deliveries.on_its_way or seen.deliveries.held:
        return None
    there = sum(name in names for name in arrays)
    return (there, len(arrays)) if there < len(arrays) else None


def _plain_facts(seen: Observation) -> JobFacts:
    """Facts from the observation itself; reads nothing."""
    spec, counts, sent = seen.spec, seen.listing.counts, seen.deliveries
    status = sent.states
    fits, cpus = _fits(seen.site, spec)
    tombstone = seen.listing.cancellation
    return JobFacts(
        job=spec.job,
        queue=spec.queue,
        state=seen.state,
        items=counts.items,
        ended=counts.succeeded + counts.failed,
        failed=counts.failed,
        began=_began(seen),
        last=seen.newest_done[0][0] if seen.newest_done else None,
        waiting=status.get("waiting", 0),
        active=status.get("running", 0) + status.get("starting", 0),
        cancelled=cancelled_words(tombstone) if tombstone else "",
        lost=len(sent.lost),
        sent=_sent(seen) if sent.lost else None,
        lost_reason=(sent.reason or "") if sent.lost else "",
        dead=len(sent.dead),
        run_command=seen.site.run_command(spec.job) or "",
        waits_for=(sent.reason or "") if seen.waits_for else "",
        blocked=bool(seen.waits_for) and seen.state == "lost",
        start_failures=counts.start_failures,
        recent=_recent(seen),
        memory_mib=spec.resources.memory_mib,
        memory_max_mib=spec.memory_max_mib or 0,
        fits=fits,
        cpus=cpus,
    )


def _began(seen: Observation) -> float:
    """When the newest round could begin."""
    newest = seen.newest_round
    return max(newest, begun_at(seen.site.store, seen.spec) or newest).timestamp()


def _fits(site: Site, spec: JobSpec) -> tuple[bool | None, int]:
    """True if the descriptor has a machine type for a container of the job; and the container's CPUs."""
    cpus = max(1, round(spec.resources.cpus * spec.slots))
    queue = site.descriptor.queues.get(spec.queue)
    if queue is None or not queue.machines:
        return None, cpus
    service = site.service(spec.queue)
    room = ((each.cpus, usable_memory_mib(service, each), each.gpus) for each in queue.machines)
    return any(fitting(*each, spec.resources, spec.slots) for each in room), cpus


def _current(seen: Observation) -> list[tuple[float, int, int]]:
    """The records that tell of the code that runs now, the newest first: while items run again, those since then."""
    again = seen.listing.again
    return [each for each in seen.newest_done if again is None or each[1] >= again.since]


def _recent(seen: Observation) -> tuple[int, int]:
    """Outcomes of the newest chunks, and how many of them failed; from names alone."""
    listing, index, outcomes, failed = seen.listing, seen.ledger.index(), 0, 0
    for _, number, chunk in _current(seen):
        outcomes += listing.rounds[number].size(chunk, index)
        failed += listing.failed.get(chunk, 0)
        if outcomes >= NEWEST:
            break
    return outcomes, min(failed, outcomes)


# ---- what has to be read --------------------------------------------------------------------------------------------


def _job_facts(seen: Observation, now: float) -> JobFacts:
    plain = _plain_facts(seen)
    if not (plain.open or plain.state == "lost") or plain.waits_for:
        return replace(plain, limit=_limit(seen), grows=seen.grows)
    failed = _sample(seen, [each for each in _current(seen) if each[2] in seen.listing.failed])
    others = _sample(seen, [each for each in seen.newest_done if each[2] not in seen.listing.failed])
    bad = [outcome for record in failed for outcome in record.outcomes if outcome.status == "failed"]
    usual = [_took(record) for record in (*failed, *others)]
    starts = seen.ledger.start_failures(len(seen.listing.rounds) - 1) if plain.start_failures else []
    worst = Counter(telling_line(each) for each in bad).most_common(1)
    drained, done = _reclaims(seen, now)
    deaths, stopped, straggler = _oldest(seen, now, max(usual, default=0.0))
    return replace(
        plain,
        limit=_limit(seen),
        # Those of earlier rounds are over: their code was corrected, or their round sent again.
        start_failures=len(starts),
        start_error=telling(starts[-1]) if starts else "",
        reasons=Counter(each.reason or "exit" for each in bad),
        worst=worst[0][0] if worst else "",
        grows=any(larger_memory(seen.spec, each) for each in bad),
        deaths=deaths,
        stopped=stopped,
        straggler=straggler,
        drained=drained,
        done=done,
        speed=_speed(seen, now),
    )


def _limit(seen: Observation) -> str:
    if seen.state != "cancelled":
        return ""
    spent = spent_of(seen.ledger, seen.spec, seen.listing.rounds)
    return spent.words() if spent and spent.reached else ""


def _sample(seen: Observation, chunks: Sequence[tuple[float, int, int]]) -> list[Record]:
    """The records of a few of these chunks."""
    chosen = chunks[:RECORDS]
    with ThreadPoolExecutor(max(1, len(chosen))) as pool:
        read = pool.map(lambda at: seen.ledger.chunk(at[1], at[2]).committed(), chosen)
        return [record for record in read if record]


def _took(record: Record) -> float:
    """Seconds from the lease of a chunk to its record."""
    began = datetime.fromisoformat((record.header.digest or {})["started_at"])
    return (datetime.fromisoformat(record.header.committed_at) - began).total_seconds()


def _reclaims(seen: Observation, now: float) -> tuple[int, int]:
    """Attempts that reclaims ended within half an hour, and chunks that were committed in it."""
    if not seen.listing.counts.reclaims:
        return 0, 0
    folder = layout.of_round(seen.spec.job, len(seen.listing.rounds) - 1, "drained")
    drained = sum(entry.modified >= now - STORM_SECONDS for entry in seen.site.store.entries(folder))
    return drained, sum(at >= now - STORM_SECONDS for at, _, _ in seen.newest_done)


def _oldest(seen: Observation, now: float, usual: float) -> tuple[int, list[str], Straggler | None]:
    """Attempts on the first open chunks: the number of workers that died, attempts that gave up, and the oldest that
    runs at the end of a job. Reads nothing of a job that progresses and has much left."""
    listing = seen.listing
    open_ = sorted(listing.waiting.difference(seen.deliveries.lost))
    last = len(open_) <= max(1, listing.counts.chunks_total // LAST_SHARE) and listing.counts.chunks_done
    records = seen.newest_done
    if not open_ or (not last and records and now - records[0][0] < SPEED_SECONDS):
        return 0, [], None
    rounds, late = owners(listing.rounds), list[Straggler]()
    deaths, stopped = 0, list[str]()
    for chunk in open_[:STRAGGLERS]:
        if chunk not in rounds:
            continue
        key = layout.ChunkKey(seen.spec.job, rounds[chunk], chunk)
        markers = newest_markers(seen.site.store, key)
        markers.sort(key=lambda one: str(one.get("started_at", "")))
        ends = [str(one["ended"]) for one in markers if one.get("ended") not in (None, "drained", "broke")]
        # One that a later attempt has followed may have been chance; two are not.
        stopped += ends if len(ends) > 1 or (markers and markers[-1].get("ended")) else []
        deaths = max(deaths, sum(_died(seen, key, one) for one in markers[:-1]))
        if last and markers and markers[-1].get("ended") is None and markers[-1].get("started_at"):
            began = datetime.fromisoformat(markers[-1]["started_at"]).timestamp()
            machine = str(markers[-1].get("backend", {}).get("machine", ""))
            items = tuple(markers[-1].get("in_flight", ()))
            late.append(Straggler(chunk, items, began, machine, usual))
    oldest = min(late, key=lambda one: one.began, default=None)
    return deaths, stopped, oldest if usual else None


def _died(seen: Observation, key: layout.ChunkKey, marker: Mapping[str, Any]) -> bool:
    """True if an attempt that another one followed ended without a word."""
    if marker.get("ended") is not None or not marker.get("in_flight"):
        return False
    return not seen.site.store.exists(layout.drained(key, str(marker.get("attempt", ""))))


def _speed(seen: Observation, now: float) -> tuple[float, float] | None:
    """Items per second of the last ten minutes, and the median of earlier ten minutes; None for a young job."""
    from statistics import median

    index, spans = seen.ledger.index(), Counter[int]()
    for at, number, chunk in seen.newest_done:
        spans[int((now - at) // SPEED_SECONDS)] += seen.listing.rounds[number].size(chunk, index)
    oldest = max(spans, default=0)
    # The first span of a job is not a whole one.
    earlier = [spans[span] for span in range(1, oldest)]
    if len(earlier) < STEADY:
        return None
    return spans[0] / SPEED_SECONDS, median(earlier) / SPEED_SECONDS
