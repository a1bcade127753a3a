"""Causes reported by AWS Batch. The problems of a queue and of a quota are those that `tidemill doctor` shows.

Status reasons: https://docs.aws.amazon.com/batch/latest/userguide/job_stuck_in_runnable.html. While Batch scales from
zero it shows some of them for healthy jobs, so they count only when they last.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tidemill.descriptor import WorkerExit
from tidemill.explain.cause_finding import CauseFinding, said
from tidemill.explain.causes import FORGOTTEN
from tidemill.explain.facts import Facts
from tidemill.explain.job import deliveries
from tidemill.figures import counted, duration
from tidemill.services.batch.model import AwsFacts, BatchQueue, Environment, Quota, Try

CAPACITY = "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY"
MAX_RESOURCE = "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE"
NO_TYPE = "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT"
TIME_LIMIT = "JobStateTimeLimit"
SHORT_SECONDS = 3600.0
"""A shortage of this long is no longer a matter of patience, where the queue states no limit of its own."""
_INVALID = re.compile(r"^ACTION_REQUIRED\b|CE\(s\).*\binvalid\b", re.IGNORECASE)
_RECLAIM = "Host EC2"


def rules(facts: Facts, seen: AwsFacts) -> Iterator[CauseFinding]:
    """The causes that hold, in any order."""
    if seen.queue is not None:
        yield from queue_problems(seen.queue)
    if facts.job.waiting and facts.job.open:
        yield from _machines(facts, seen)
    yield from _containers(facts, seen.tries)


def lost(facts: Facts, seen: AwsFacts) -> list[CauseFinding] | None:
    """Causes of deliveries that will not come again: none where the ends of containers tell more; None where Batch does
    not tell."""
    job = facts.job
    what, again = deliveries(job), f"tidemill resume {job.job}"
    if TIME_LIMIT in job.lost_reason:
        text = f"Batch has given up {what}, because nothing came for too long{said('Batch', job.lost_reason)}"
        return [CauseFinding("A15", text, do=again)]
    if job.lost_reason == FORGOTTEN:
        text = f"Batch does not know {what} any more: it forgets what ended days ago"
        return [CauseFinding("A17", text, do=again)]
    # Sending them again would end alike.
    return [] if telling(facts, seen.tries) else None


# ---- the queue ------------------------------------------------------------------------------------------------------


def queue_problems(queue: BatchQueue) -> Iterator[CauseFinding]:
    """Problems of the queue itself."""
    if not queue.there:
        yield CauseFinding("A1", "the queue is not there: the stack was changed or destroyed", do="pulumi up")
        return
    region = queue.arn.split(":")[3] if queue.arn.count(":") > 3 else ""
    if queue.state != "ENABLED":
        command = f"aws batch update-job-queue --job-queue {queue.arn} --state ENABLED --region {region}"
        yield CauseFinding("A1", "the queue is disabled: it takes no jobs", do=command)
    environments = queue.environments
    if environments is None:
        return
    broken = [problem for each in environments if (problem := environment_problem(each, region))]
    if environments and len(broken) == len(environments):
        texts = tuple(each.text for each in broken)
        yield CauseFinding("A3", f"no machine can start: {texts[0]}", evidence=texts[1:], do=broken[0].do)
    else:
        changing = [f"{each.name} is being updated" for each in environments if each.status == "UPDATING"]
        if aside := [*(each.text for each in broken), *changing]:
            yield CauseFinding("A16", aside[0], evidence=tuple(aside[1:]), do=broken[0].do if broken else "wait")
    if queue.status == "INVALID" or not environments:
        reason = queue.reason or "no compute environment"
        yield CauseFinding("A2", f"the queue cannot start machines: {reason}", do="pulumi up")


def environment_problem(machines: Environment, region: str) -> CauseFinding | None:
    """Why a compute environment starts no machine; None when it may."""
    name = machines.name
    if machines.state != "ENABLED":
        command = f"aws batch update-compute-environment --compute-environment {name} --state ENABLED"
        return CauseFinding("A16", f"{name} is disabled: no machine starts", do=f"{command} --region {region}")
    if machines.status == "INVALID":
        return CauseFinding("A16", f"{name} is invalid: {machines.reason or 'no reason given'}", do="pulumi up")
    return None


def quota_problem(quota: Quota) -> tuple[CauseFinding, bool] | None:
    """Problem of a quota, and True if no machine starts at all; None when it is large enough or not shown."""
    if quota.limit is None or quota.limit >= quota.wanted:
        return None
    words = f"{quota.limit:.0f} vCPUs in {quota.region}, the queues may start {quota.wanted}"
    command = (
        "aws service-quotas request-service-quota-increase --service-code ec2 "
        f"--quota-code {quota.code} --desired-value {quota.wanted} --region {quota.region}"
    )
    if quota.limit < quota.least:
        text = f"{words}; the smallest machine has {quota.least}: none starts"
        return CauseFinding("A10", text, do=command), True
    return CauseFinding("A10", f"{words}: jobs wait at the quota", do=command), False


# ---- machines -------------------------------------------------------------------------------------------------------


def _machines(facts: Facts, seen: AwsFacts) -> Iterator[CauseFinding]:
    sure = list(_too_large(facts, seen))
    yield from sure
    # The configuration tells these without Batch.
    codes = {each.code for each in sure}
    findings = [_reason(reason, facts, seen) for reason in dict.fromkeys(seen.reasons)]
    said_so = [each for each in findings if each.code not in codes]
    yield from said_so
    usable = [each for each in (seen.queue and seen.queue.environments) or () if not environment_problem(each, "")]
    wanted, most = sum(each.wanted for each in usable), sum(each.most for each in usable)
    yield from _quotas(seen, usable)
    used = seen.turn.used if seen.turn else None
    if wanted and used == 0 and not said_so and not facts.job.active:
        since = facts.job.idle_since
        text = f"Batch wants {wanted} vCPUs, and no machine has taken work for {duration(facts.now - since)}"
        yield CauseFinding("A11", text, since)
    elif usable and most and wanted >= most and used:
        mine = f", {seen.turn.shares.get(seen.user, 0):g} of them ours" if seen.turn and seen.turn.shares else ""
        yield CauseFinding("A8", f"{wanted} of {most} vCPUs are in use or on their way{mine}")
    yield from _turn(seen)


def _too_large(facts: Facts, seen: AwsFacts) -> Iterator[CauseFinding]:
    """Causes that follow from the configuration alone: they hold at once."""
    environments = seen.queue.environments if seen.queue else None
    most = max((each.most for each in environments or ()), default=0)
    if most and facts.job.cpus > most:
        text = f"a container asks for {facts.job.cpus} vCPUs; no compute environment may start more than {most}"
        yield CauseFinding("A4", text + _words(seen.reasons, MAX_RESOURCE), sure=True)
    elif facts.job.fits is False:
        text = f"no machine type of the queue holds a container of {facts.job.cpus} vCPUs and what else it asks for"
        yield CauseFinding("A5", text + _words(seen.reasons, NO_TYPE), sure=True)


def _words(reasons: Sequence[str], code: str) -> str:
    return said("Batch", next((each for each in reasons if each.startswith(code)), ""))


def _reason(reason: str, facts: Facts, seen: AwsFacts) -> CauseFinding:
    """The cause behind a status reason of a waiting job; every reason that Batch gives has one."""
    words, since = said("Batch", reason), seen.waiting_since
    if reason.startswith(MAX_RESOURCE):
        return CauseFinding("A4", f"a container asks for more than the queue may start{words}", since)
    if reason.startswith(NO_TYPE):
        return CauseFinding("A5", f"no machine type of the queue fits a container{words}", since)
    if reason.startswith("CAPACITY"):
        return _shortage(words, facts, seen)
    if _INVALID.search(reason):
        return CauseFinding("A7", f"Batch cannot use a compute environment{words}", since)
    return CauseFinding("A18", f"Batch gives a reason{words}", since)


def _shortage(words: str, facts: Facts, seen: AwsFacts) -> CauseFinding:
    limit = next(
        (s for code, s in (seen.queue.limits if seen.queue else {}).items() if code.startswith("CAPACITY")), None
    )
    long = facts.now - facts.job.idle_since >= min(limit or SHORT_SECONDS, SHORT_SECONDS)
    ends = (f"Batch gives up what waits so for {duration(limit)}",) if limit else ()
    text = f"the cloud is short of the queue's machines{words}"
    return CauseFinding("A6", text, facts.job.idle_since, ends, kind=None if long else "turn")


def _quotas(seen: AwsFacts, usable: Sequence[Environment]) -> Iterator[CauseFinding]:
    """Quotas that keep machines away. One that lets none start matters at once only when no other one lets any."""
    problems = [(quota, problem) for quota in seen.quotas if (problem := quota_problem(quota))]
    none = len(problems) == len(seen.quotas) and all(stops for _, (_, stops) in problems)
    for quota, (finding, _) in problems:
        wanted = sum(each.wanted for each in usable if each.market in ("", quota.market))
        if none or wanted > (quota.limit or 0):
            yield replace(finding, sure=none)


def _turn(seen: AwsFacts) -> Iterator[CauseFinding]:
    turn = seen.turn
    if turn is None or not turn.used or not turn.ahead:
        return
    others = {share: cpus for share, cpus in turn.shares.items() if share != seen.user}
    most = max(others, key=lambda share: others[share], default=None)
    share = f"; {most} uses {others[most]:g} of {turn.used:g} vCPUs" if most else ""
    behind = f"behind {counted(turn.ahead, 'other')}" if turn.ours else f"behind at least {counted(turn.seen, 'other')}"
    yield CauseFinding("A9", f"{behind}{share}")


# ---- containers -----------------------------------------------------------------------------------------------------


def telling(facts: Facts, tries: Sequence[Try]) -> list[Try]:
    """The attempts whose end says what is wrong: reclaims say nothing, and what was overcome neither."""
    # The newest round overcame the ends before it; so did the newest record, unless chunks are lost.
    since = facts.job.began if facts.job.lost else facts.job.idle_since
    return [
        each
        for each in tries
        if not each.status.startswith(_RECLAIM)
        and each.exit_code not in (WorkerExit.DONE, WorkerExit.RECLAIMED)
        and (not each.stopped or each.stopped > since)
    ]


def _containers(facts: Facts, tries: Sequence[Try]) -> Iterator[CauseFinding]:
    """How containers ended that wrote nothing. One may be chance; two of two are not."""
    ours = telling(facts, tries)
    kinds: dict[str, list[Try]] = {}
    for attempt in ours:
        kinds.setdefault(_kind(attempt), []).append(attempt)
    for code, some in kinds.items():
        yield _ended(code, some, len(ours), facts)


def _kind(one: Try) -> str:
    if one.reason.startswith("CannotPull"):
        return "A12"
    if one.exit_code == WorkerExit.STORE_UNAVAILABLE:
        return "L7"
    return "A14" if one.exit_code in (WorkerExit.STOPPED, WorkerExit.BROKEN) else "A13"


_WHAT = {
    "A12": "the image cannot be pulled",
    "A13": "containers end before their worker starts",
    "A14": "workers give up",
    "L7": "the job store does not answer",
}


def _ended(code: str, some: Sequence[Try], all_: int, facts: Facts) -> CauseFinding:
    newest = max(some, key=lambda each: each.stopped)
    exited = f"exit code {newest.exit_code}" if newest.exit_code is not None else ""
    how = ", ".join(part for part in (exited, newest.reason or ("" if exited else newest.status)) if part)
    text = f"{_WHAT[code]}: {how} ({len(some)} of {counted(all_, 'attempt')})"
    do = {
        "A13": "ask for more --memory" if "OutOfMemory" in newest.reason else "",
        "A14": f"tidemill logs {facts.job.job} --worker",
    }.get(code, "")
    evidence = (f"container {newest.child}",) if newest.child else ()
    often = len(some) > 1 or facts.job.lost > 0 or facts.job.state == "lost"
    return CauseFinding(code, text, newest.stopped or None, evidence, do, kind=None if often else "turn", sure=True)
