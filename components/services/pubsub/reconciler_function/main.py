"""The reconciler: a function that a scheduler calls every few minutes.

It reads each queue's groups and backlog, decides (`decide.py`), acts, and writes a report into the job store. It does
not change what it cannot read; it then answers 500, so that the scheduler and its log show the failure.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tidemill import layout
from tidemill.fleet import FleetGroup, FleetQueue, FleetReport, FleetSettings, GroupReport, QueueReport

from . import cloud as google
from .answers import Notes, iso
from .chains import release
from .cloud import CallError, Cloud, Reading
from .decide import FRESH_READ_SECONDS, Decision, QueueState, Sample, backlog, decide, warm
from .ended_jobs import drop
from .trouble import due, full, troubles

OPEN = "ONLY_SCALE_OUT"


def reconcile(_request: Any) -> tuple[str, int, dict[str, str]]:
    """Entry point of the function; it ignores the request."""
    settings = FleetSettings.parse(os.environ["RECONCILER_SETTINGS"])
    cloud = Cloud(settings.project, settings.region, settings.bucket, google.session())
    failures = run(settings, cloud)
    body = json.dumps({"failures": failures})
    return body, 500 if failures else 200, {"Content-Type": "application/json"}


def run(settings: FleetSettings, cloud: Cloud) -> list[str]:
    """One pass over all queues; returns the failures."""
    failures: list[str] = []
    notes = Notes()
    try:
        notes = cloud.notes()
    except Exception as error:
        # Without notes no machine's place is held, and none counts as silent.
        failures.append(_failed("what machines wrote", error))
    wanted = _in_turn(settings.queues, cloud.now() / settings.period_seconds)
    # The slowest reads come first, so that machines are removed soon after they were listed.
    errors = {queue.name: _errors(queue, cloud) for queue in wanted}
    queues: dict[str, QueueReport] = {}
    for queue in wanted:
        queues[queue.name], failed = _queue(queue, cloud, errors[queue.name], notes, settings.period_seconds)
        failures += failed
    # Last: a job that has waited for hours may wait for another run, a machine that is off may not.
    topics = {queue.topic for queue in settings.queues}
    released, failed = release(cloud, topics, cloud.now() / settings.period_seconds)
    failures += [_failed("a job that waits", error) for error in failed]
    for text in released:
        _say("NOTICE", "release", text)
    report = FleetReport(iso(cloud.now()), settings.period_seconds, queues)
    try:
        cloud.write(layout.FLEET_REPORT, json.dumps(asdict(report)), "application/json")
    except CallError as error:
        failures.append(_failed("report", error))
    return failures


def _in_turn(queues: Sequence[FleetQueue], number: float) -> list[FleetQueue]:
    """The queues, starting with a different one each run, so that a run out of time skips different queues."""
    first = int(number) % len(queues) if queues else 0
    return [*queues[first:], *queues[:first]]


def _errors(wanted: FleetQueue, cloud: Cloud) -> list[list[dict[str, Any]]] | Exception:
    """The errors of each group of a queue, or why they are unreadable."""
    try:
        return [cloud.errors(group.manager) for group in wanted.groups]
    except Exception as error:
        return error


def _queue(
    wanted: FleetQueue, cloud: Cloud, errors: list[list[dict[str, Any]]] | Exception, notes: Notes, period: float
) -> tuple[QueueReport, list[str]]:
    """A queue's part of the report, and the failures."""
    name = wanted.name
    try:
        if isinstance(errors, Exception):
            raise errors
        read = [cloud.read(group, each, notes) for group, each in zip(wanted.groups, errors, strict=True)]
    except Exception as error:
        text = _failed(name, error)
        return QueueReport(decisions=[f"nothing: {text}"]), [text]
    failures: list[str] = []
    samples: list[Sample] | None = None
    try:
        # After the machines: so it is no older than the backlog for which they were started.
        samples = cloud.backlog(wanted.subscription)
    except Exception as error:
        failures.append(_failed(f"{name}: backlog", error))
    queue = QueueState(name, [each.group for each in read], samples)
    now = cloud.now()
    done = []
    for decision in decide(queue, now):
        number = [group.market for group in wanted.groups].index(decision.market)
        text, failed = _carry_out(decision, name, wanted.groups[number], read[number], cloud)
        done.append(text)
        failures += failed
    failures += _name_warm(queue, cloud)
    text, failed = _drop(queue, wanted.subscription, cloud)
    done += text
    failures += failed
    groups = {each.group.market: _shown(each, now, number) for number, each in enumerate(read)}
    shown = QueueReport(_whole(backlog(queue, now)), groups, done)
    # A metric of the stack counts the lines with `full`.
    _say("INFO", "queue", f"{name}: {len(done)} decisions", queue=name, full=full(shown), **asdict(shown))
    if due(now, period):
        for trouble in troubles(queue, shown, now):
            _say("ERROR", "trouble", f"{name}: {trouble.text}", queue=name, cause=trouble.cause)
    return shown, failures


def _carry_out(
    decision: Decision, queue: str, wanted: FleetGroup, read: Reading, cloud: Cloud
) -> tuple[str, list[str]]:
    """The actions taken, as text, and the failures."""
    market, machines = decision.market, _still_safe(decision, read, cloud.now())
    what = f"{decision.kind} {market}" if decision.kind != "remove" else f"remove {len(machines)} {market} machines"
    text = f"{what}: {decision.why}"
    try:
        if decision.kind == "remove":
            cloud.remove(wanted.manager, machines)
        else:
            cloud.set_mode(wanted.autoscaler, OPEN if decision.kind == "open" else "OFF")
    except CallError as error:
        failure = _failed(f"{queue}: {text}", error)
        return f"failed: {failure}", [failure]
    fields = {"queue": queue, "market": market, "kind": decision.kind, "why": decision.why, "machines": machines}
    _say("NOTICE", "decision", f"{queue}: {text}", **fields)
    return text, []


def _still_safe(decision: Decision, read: Reading, now: float) -> list[str]:
    """The machines to remove that cannot have booted and got work since they were listed.

    github-aws-runners 5085: work that arrives between the read and the removal must not die with a machine.
    """
    if now - read.at <= FRESH_READ_SECONDS:
        return list(decision.machines)
    gone = {each.name for each in read.group.machines or () if each.state == "off" or each.silent(now)}
    return [name for name in decision.machines if name in gone]


def _drop(queue: QueueState, subscription: str, cloud: Cloud) -> tuple[list[str], list[str]]:
    """Drop messages that only a worker would drop; the actions taken and the failures."""
    try:
        count = drop(cloud, queue, subscription)
    except Exception as error:
        return [], [_failed(f"{queue.name}: messages of ended jobs", error)]
    if not count:
        return [], []
    text = f"drop {count} messages: their jobs have ended and no worker runs"
    _say("NOTICE", "drop", f"{queue.name}: {text}", queue=queue.name, messages=count)
    return [text], []


def _name_warm(queue: QueueState, cloud: Cloud) -> list[str]:
    """Tell machines which of them stay without work."""
    if not queue.groups[0].minimum:
        return []
    names = "".join(f"{key.rpartition('/')[2]}\n" for key in warm(queue))
    try:
        cloud.write(f"{layout.FLEET_WARM}/{queue.name}", names, "text/plain")
    except CallError as error:
        return [_failed(f"{queue.name}: warm machines", error)]
    return []


def _shown(read: Reading, now: float, number: int) -> GroupReport:
    group = read.group
    return GroupReport(
        target=group.target,
        running=len(group.of("up")),
        creating=len(group.of("absent")),
        stopped=len(group.of("off")),
        # Report a dry market only while machines are needed from it.
        stockout=group.dry(now) and bool(group.of("absent")),
        errors=list(read.errors),
        quotas=[text for text, code in read.errors.items() if "QUOTA" in code],
        open=group.open if number else None,
        autoscaler=read.scaler,
        notes=read.notes,
        failures=read.failures,
        unheard=sum(each.alive_at is None for each in (*group.of("up"), *group.of("off"))),
    )


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _failed(what: str, error: Exception | str) -> str:
    message = error if isinstance(error, (CallError, str)) else f"{type(error).__name__} {error}"
    text = f"{what}: {message}"
    _say("ERROR", "failure", text)
    return text


def _say(severity: str, event: str, message: str, **fields: Any) -> None:
    print(json.dumps({"severity": severity, "event": event, "message": message, **fields}), flush=True)
