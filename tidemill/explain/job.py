"""Causes from the job's own records, on every cloud."""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.explain.cause_finding import CauseFinding
from tidemill.explain.causes import Kind
from tidemill.explain.facts import Facts, JobFacts
from tidemill.figures import counted, duration

MOVING_SECONDS = 300.0
"""A job that has committed a chunk within this time progresses."""
YOUNG_SECONDS = 300.0
ENOUGH = 20
"""Outcomes from which on their share of failures means something."""
MOST = 0.5
SOME = 0.05
"""Share of outcomes that must fail for a reason to count that ends some items alone."""
STORM = 0.3
"""Share of attempts that reclaims may end before the work is mostly lost."""
STORM_LEAST = 5
FAR = 4.0
"""How many times longer than usual a chunk must run to hold up the end."""
LONG_SECONDS = 300.0
"""A shorter time than this does not count as a delay."""
SLOWER = 0.5


def rules(facts: Facts) -> Iterator[CauseFinding]:
    """The causes that hold, in any order."""
    job = facts.job
    yield from _end(facts, job)
    if not job.open or job.waits_for:
        return
    yield from _starts(job)
    yield from _items(job)
    yield from _speed(facts, job)
    yield from _well(facts, job)


def nothing(facts: Facts) -> Iterator[CauseFinding]:
    """The answer when no cause holds."""
    job = facts.job
    if job.active:
        text = f"{counted(job.active, 'chunk')} run, and none was committed for {_for(facts)}"
        evidence = "A chunk is committed as a whole: long items, or many of them, take long."
        yield CauseFinding("L13", text, job.idle_since, (evidence,))
    else:
        yield CauseFinding("L13", f"nothing was committed for {_for(facts)}, and no fact tells why", job.idle_since)


def _for(facts: Facts) -> str:
    return duration(max(0.0, facts.now - facts.job.idle_since))


# ---- ended, or not begun --------------------------------------------------------------------------------------------


def _end(facts: Facts, job: JobFacts) -> Iterator[CauseFinding]:
    if job.state == "finished":
        failed = f", {job.failed} of them failed" if job.failed else ""
        do = f"tidemill failures {job.job}" if job.failed else "nothing"
        if job.grows:
            yield _growth(job, "act")
        yield CauseFinding("L11", f"all {counted(job.items, 'item')} have an outcome{failed}", job.last, do=do)
    elif job.limit:
        text = f"its limit is reached: {job.limit} are spent"
        yield CauseFinding("L9", text, do=f"tidemill resume {job.job} --max-usd USD")
    elif job.cancelled:
        yield CauseFinding("L9", job.cancelled, do=f"tidemill resume {job.job}")
    elif job.waits_for:
        yield CauseFinding("L12", job.waits_for, kind="act" if job.blocked else None)
    elif job.run_command and job.state == "lost":
        yield CauseFinding("L9", "no run works on it", do=job.run_command)
    elif job.lost:
        yield from _lost(facts, job)


def _lost(facts: Facts, job: JobFacts) -> Iterator[CauseFinding]:
    findings = facts.cloud.service.part("rules").lost(facts, facts.cloud) if facts.cloud else None
    if findings is None:
        text = f"{deliveries(job)} will not come again: {job.lost_reason or 'no reason is known'}"
        findings = [CauseFinding("L9", text, do=f"tidemill resume {job.job}")]
    yield from findings


def deliveries(job: JobFacts) -> str:
    """The lost deliveries of a job in words."""
    return f"{job.lost} deliveries" if job.lost > 1 else "a delivery"


# ---- starting -------------------------------------------------------------------------------------------------------


def _starts(job: JobFacts) -> Iterator[CauseFinding]:
    if job.start_failures and job.ended == job.failed:
        times = "once" if job.start_failures == 1 else f"{job.start_failures} times"
        yield CauseFinding("L2", f"the program did not start {times}: {job.start_error}", do=f"tidemill logs {job.job}")


# ---- items ----------------------------------------------------------------------------------------------------------


def _items(job: JobFacts) -> Iterator[CauseFinding]:
    outcomes, failed = job.recent
    sampled = sum(job.reasons.values())
    stores = job.reasons.get("input", 0) + job.reasons.get("output", 0)
    if "store" in job.stopped:
        yield CauseFinding("L7", "a worker gave its chunk up because the job store did not answer")
    elif sampled and stores > MOST * sampled and outcomes >= ENOUGH and failed >= MOST * outcomes:
        text = f"most items cannot be read or written: {job.worst}"
        yield CauseFinding("L7", text, do=f"tidemill failures {job.job}")
    memory = job.reasons.get("memory", 0)
    if job.grows and memory >= MOST * sampled:
        yield _growth(job, "turn")
        return
    if outcomes >= ENOUGH and failed >= MOST * outcomes:
        text = f"{failed} of the newest {outcomes} outcomes are failures"
        evidence = (f"the most common: {job.worst}",) if job.worst else ()
        yield CauseFinding("L3", text, evidence=evidence, do=f"tidemill failures {job.job}")
    dying = memory + job.reasons.get("poison", 0)
    if dying and dying >= MOST * sampled and (outcomes < ENOUGH or failed >= SOME * outcomes):
        text = f"{dying} of {sampled} failures that were looked at ran out of memory or killed their worker"
        asked = f"the job asks for {job.memory_mib} MiB per item"
        yield CauseFinding("L4", text, evidence=(asked,), do=f"submit with {_more_memory(job)}")
    elif job.deaths > 1:
        text = f"{job.deaths} workers died with the same chunk"
        yield CauseFinding("L4", text, do=f"tidemill logs {job.job} --worker")


def _growth(job: JobFacts, kind: Kind) -> CauseFinding:
    """Memory that items get from whoever waits."""
    text = f"items ran out of memory; each may have up to {job.memory_max_mib} MiB once all have ended and you wait"
    return CauseFinding("L4", text, do=f"tidemill wait {job.job}", kind=kind)


def _more_memory(job: JobFacts) -> str:
    if job.memory_max_mib:
        return f"`memory_max_mib={2 * job.memory_max_mib}`"
    if job.memory_mib:
        return f"`memory_mib={2 * job.memory_mib}`, or for single items `memory_max_mib={8 * job.memory_mib}`"
    return "a larger `memory_mib`, or with `memory_max_mib`"


# ---- speed ----------------------------------------------------------------------------------------------------------


def _speed(facts: Facts, job: JobFacts) -> Iterator[CauseFinding]:
    late = job.straggler
    took = facts.now - late.began if late else 0.0
    if late and took > max(LONG_SECONDS, FAR * late.usual):
        text = f"chunk {late.chunk} has run for {duration(took)}; others took {duration(late.usual)} at most"
        first = f"items in flight: {', '.join(map(str, late.items[:5]))}" if late.items else ""
        where = f"on {late.machine}" if late.machine else ""
        item = f" --item {late.items[0]}" if late.items else ""
        evidence = tuple(each for each in (first, where) if each)
        yield CauseFinding("L5", text, late.began, evidence, do=f"tidemill logs {job.job}{item}")
    attempts = job.drained + job.done
    if job.drained >= STORM_LEAST and job.drained > STORM * attempts:
        yield CauseFinding("L6", f"reclaims ended {job.drained} of {attempts} attempts within half an hour")
    if job.speed and job.speed[0] < SLOWER * job.speed[1]:
        yield CauseFinding("L8", f"{job.speed[0]:.3g} items/s over ten minutes; it was {job.speed[1]:.3g}")


def _well(facts: Facts, job: JobFacts) -> Iterator[CauseFinding]:
    if job.last is not None and facts.now - job.last < MOVING_SECONDS and job.last >= job.began:
        yield CauseFinding(
            "L10", f"{job.ended} of {counted(job.items, 'item')} ended, the last {_ago(facts, job.last)}", job.last
        )
    elif facts.now - job.began < YOUNG_SECONDS:
        wait = "; machines take 2 to 5 minutes from zero" if facts.cloud else ""
        yield CauseFinding("L1", f"it was sent {_ago(facts, job.began)}{wait}", job.began)


def _ago(facts: Facts, at: float) -> str:
    return f"{duration(max(0.0, facts.now - at))} ago"
