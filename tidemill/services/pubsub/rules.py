"""Causes reported by GCP: by Pub/Sub, Monitoring, and the reconciler about the machines.

Submitters may see nothing of Compute; the report is all that they know of it. Status details:
https://cloud.google.com/compute/docs/reference/rest/v1/regionAutoscalers
"""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.explain.cause_finding import CauseFinding, said
from tidemill.explain.causes import GONE
from tidemill.explain.facts import Facts, FleetFacts
from tidemill.figures import counted
from tidemill.fleet import GroupReport
from tidemill.services.pubsub.model import GcpFacts, PubSubQueue

EXPIRED = "Pub/Sub has dropped it: it was not done within the subscription's retention"
NO_TOPIC = "the descriptor names no Pub/Sub topic"
METRIC_SECONDS = 480.0
"""The autoscaler sees a backlog within 1 to 4 minutes; twice that is too long."""
SHORT_SECONDS = 3600.0
"""A shortage of this long is no longer a matter of patience."""
NEVER_SECONDS = 600.0
"""A new pipeline's reconciler has reported by then."""
_NO_METRIC = ("MISSING_CUSTOM_METRIC_DATA_POINTS", "CUSTOM_METRIC_INVALID", "CUSTOM_METRIC_DATA_POINTS_TOO_SPARSE")
_PLAIN = ("MODE_OFF", "MODE_ONLY_SCALE_OUT", "MODE_ONLY_UP", "MIN_EQUALS_MAX", "CAPPED_AT_MAX_NUM_REPLICAS")
_STOCKOUT = ("ZONE_RESOURCE_STOCKOUT", "REGION_RESOURCE_STOCKOUT")
_KNOWN = (*_NO_METRIC, *_PLAIN, *_STOCKOUT, "NOT_ENOUGH_QUOTA_AVAILABLE", "ALL_INSTANCES_UNHEALTHY")


def rules(facts: Facts, seen: GcpFacts) -> Iterator[CauseFinding]:
    """The causes that hold, in any order."""
    if seen.queue is not None and (problem := topic_problem(seen.queue)):
        yield problem
    if facts.fleet is not None:
        yield from _fleet(facts, facts.fleet)
        yield from _broken(facts, facts.fleet)
    if facts.job.waiting:
        yield from _others(facts, seen)


def lost(facts: Facts, seen: GcpFacts) -> list[CauseFinding] | None:
    """The cause of deliveries that will not come again; None where nothing tells it."""
    found = _lost(facts)
    return [found] if found else None


def _lost(facts: Facts) -> CauseFinding | None:
    job = facts.job
    again = f"tidemill resume {job.job}"
    if job.sent:
        return CauseFinding(
            "G2", f"{job.sent[0]} of {counted(job.sent[1], 'array')} were sent: the submit was cut off", do=again
        )
    if job.dead:
        text = f"{counted(job.dead, 'chunk')} reached the delivery limit without a record: {job.lost_reason}"
        return CauseFinding("G14", text, do=f"tidemill failures {job.job}, then tidemill retry {job.job} --dead")
    if job.lost_reason == EXPIRED:
        return CauseFinding("G15", f"{counted(job.lost, 'chunk')} expired: {EXPIRED}", do=again)
    if job.lost_reason == GONE:
        text = f"{counted(job.lost, 'chunk')} were delivered and dropped: a worker refused them"
        return CauseFinding("G16", text, do=f"tidemill logs {job.job} --worker")
    return None


# ---- the queue ------------------------------------------------------------------------------------------------------


def topic_problem(queue: PubSubQueue) -> CauseFinding | None:
    """Problem of a topic and its subscription; `tidemill doctor` shows the same."""
    if not queue.topic:
        return CauseFinding("G1", NO_TOPIC, do="pulumi up")
    if not queue.topic_there:
        return CauseFinding("G1", f"{queue.topic} is not there", do="pulumi up")
    if queue.reads != queue.topic:
        problem = "is not there" if queue.reads is None else "does not read the queue's topic"
        return CauseFinding("G1", f"{queue.subscription} {problem}: messages would be lost", do="pulumi up")
    return None


def _others(facts: Facts, seen: GcpFacts) -> Iterator[CauseFinding]:
    """Pub/Sub delivers roughly in the order of publishing."""
    others = (seen.backlog or 0) - facts.job.waiting - facts.job.active
    before = seen.oldest is not None and seen.oldest > seen.backlog_at - facts.job.began
    if others > 0 and before and seen.backlog_at > facts.job.began:
        yield CauseFinding("G13", f"{counted(others, 'chunk')} of other jobs wait too, and some came before")


# ---- machines -------------------------------------------------------------------------------------------------------


def _fleet(facts: Facts, fleet: FleetFacts) -> Iterator[CauseFinding]:
    if fleet.late or (fleet.report_at is None and facts.now - facts.job.began > NEVER_SECONDS):
        yield CauseFinding("G11", fleet.late or "the reconciler has never reported", fleet.report_at, sure=True)
    if not facts.job.waiting:
        return
    for number, (market, group) in enumerate(fleet.groups):
        # The next rungs are closed until the reconciler opens them.
        if number == 0 or group.open:
            yield from _group(facts, market, group)
    dry = any(group.stockout for _, group in fleet.groups)
    closed = [market for market, group in fleet.groups[1:] if group.open is False]
    if dry and closed:
        text = f"{closed[0]} machines: the reconciler opens this rung while the one before is short of machines"
        yield CauseFinding("G12", text)


def _group(facts: Facts, market: str, group: GroupReport) -> Iterator[CauseFinding]:
    notes = {each.type: each.message for each in group.notes}
    there = f"{market} machines, {group.running} of {group.target} run"
    age = facts.now - facts.job.idle_since
    if "MODE_OFF" in notes:
        yield CauseFinding(
            "G3", f"{there}: somebody has switched the autoscaler off{said('Google', notes['MODE_OFF'])}", sure=True
        )
    if metric := next((each for each in _NO_METRIC if each in notes), None):
        text = f"{there}: the autoscaler has no figure of the backlog{said('Google', notes[metric])}"
        yield CauseFinding("G4", text, kind="turn" if age < METRIC_SECONDS else None)
    if "ALL_INSTANCES_UNHEALTHY" in notes:
        yield CauseFinding("G10", f"{there}: no machine is healthy{said('Google', notes['ALL_INSTANCES_UNHEALTHY'])}")
    if "CAPPED_AT_MAX_NUM_REPLICAS" in notes:
        yield CauseFinding("G5", f"{there}: the queue is full")
    yield from _short(facts, there, group, notes)
    for kind, message in notes.items():
        if kind not in _KNOWN:
            yield CauseFinding("G17", f"{there}: the autoscaler says {kind}{said('Google', message)}")


def _short(facts: Facts, there: str, group: GroupReport, notes: dict[str, str]) -> Iterator[CauseFinding]:
    """Why machines cannot be created: quotas, stockouts, anything else."""
    since = facts.job.idle_since
    codes: dict[str, list[str]] = {}
    for failure in group.failures:
        place = f" in {failure.zone}" if failure.zone else ""
        codes.setdefault(_what(failure.code), []).append(f"{failure.code}{place}: {failure.message}")
    for kind in _STOCKOUT:
        if kind in notes:
            codes.setdefault("G6", []).append(notes[kind])
    if "NOT_ENOUGH_QUOTA_AVAILABLE" in notes:
        codes.setdefault("G7", []).append(notes["NOT_ENOUGH_QUOTA_AVAILABLE"])
    if group.stockout:
        codes.setdefault("G6", [])
    for code, lines in codes.items():
        long = code != "G6" or facts.now - since >= SHORT_SECONDS
        text = f"{there}: {_WHAT[code]}{said('Google', lines[0] if lines else '')}"
        yield CauseFinding(code, text, since, tuple(lines[1:3]), kind=None if long else "turn")


_WHAT = {
    "G6": "the cloud is short of them",
    "G7": "the project's quota is too small",
    "G8": "they cannot be created",
}


def _what(code: str) -> str:
    upper = code.upper()
    if "QUOTA" in upper:
        return "G7"
    return "G6" if "RESOURCE_POOL_EXHAUSTED" in upper or "STOCKOUT" in upper else "G8"


def _broken(facts: Facts, fleet: FleetFacts) -> Iterator[CauseFinding]:
    """Machines that came and could not run their worker since the round began."""
    if not fleet.broken:
        return
    unheard = sum(group.unheard for _, group in fleet.groups)
    evidence = (f"{counted(unheard, 'machine')} whose worker was never heard of",) if unheard else ()
    text = f"{counted(fleet.broken, 'machine')} could not run the worker: {fleet.errors[0] if fleet.errors else ''}"
    # In a job of days some machines may break while others do the work.
    working = facts.job.last is not None and facts.job.last >= facts.job.began
    yield CauseFinding("G9", text, evidence=evidence, sure=fleet.broken > 1 and not working)
