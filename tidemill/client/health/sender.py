"""Checks of what a stack sends by itself: the events of its buckets, and what the sender has noted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

from tidemill import clouds
from tidemill.client.site import Site
from tidemill.clouds.findings import Finding
from tidemill.descriptor import Arrival, Schedule
from tidemill.errors import CloudError
from tidemill.layout import DESCRIPTOR
from tidemill.templates.arrival_log import ArrivalLog
from tidemill.templates.notes import FAILURES, NotedSend, TriggerNotes
from tidemill.templates.pauses import paused
from tidemill.templates.times import due_before

LATE = timedelta(minutes=20)
"""A send has a note by then: Lambda ends a call after 15 minutes."""
_LONGEST_WAIT = timedelta(hours=2)
"""Files wait no longer, however many come: an hour until they are taken, and another for the most jobs in an hour."""


def sender_findings(site: Site) -> Iterator[Finding]:
    """Look at each schedule and at each of the arrivals of a stack."""
    for name, schedule in sorted(site.descriptor.schedules.items()):
        check = f"schedule {name}"
        yield _guarded(check, lambda check=check, schedule=schedule: _schedule(site, check, schedule))
    for name, arrival in sorted(site.descriptor.arrivals.items()):
        check = f"arrivals {name}"
        yield _guarded(check, lambda check=check, arrival=arrival: _bucket(site, check, arrival))
        yield _guarded(check, lambda check=check, arrival=arrival: _arrivals(site, check, arrival))


def _guarded(check: str, look: Callable[[], Finding]) -> Finding:
    try:
        return look()
    except CloudError as error:
        return Finding(check, "unknown", str(error))


def _schedule(site: Site, check: str, schedule: Schedule) -> Finding:
    template, now = schedule.template_name, site.account.at()
    notes = TriggerNotes(site.store, template, check)
    newest = next(iter(notes.newest()), None)
    if trouble := _trouble(site, check, template, notes, newest):
        return trouble
    due = next(due_before(schedule.cron, schedule.timezone, now - LATE))
    # The stack may have the schedule only since its descriptor was written.
    entry = next(site.store.entries("", DESCRIPTOR[:-1]), None)
    written = entry.modified if entry and entry.name == DESCRIPTOR else now.timestamp()
    noted = newest is not None and (newest.time, newest.outcome != "begun") >= (due, True)
    if due.timestamp() > written and not noted:
        return _silent(site, check, f"the sender has noted nothing for {due:%Y-%m-%d %H:%M} ({schedule.timezone})")
    if newest is None:
        return Finding(check, "ok", "it has not been due since the stack was changed")
    return Finding(check, "ok", f"{newest.outcome} for {newest.time:%Y-%m-%d %H:%M} UTC")


def _arrivals(site: Site, check: str, arrival: Arrival) -> Finding:
    template, now = arrival.template_name, site.account.at()
    notes, log = TriggerNotes(site.store, template, check), ArrivalLog(site.store, template, check)
    newest = next(iter(notes.newest()), None)
    if trouble := _trouble(site, check, template, notes, newest):
        return trouble
    end = log.end()
    first = log.entry(end.pages[0]).at if end.pages else now
    if now - first > _LONGEST_WAIT + timedelta(minutes=arrival.settle_minutes):
        return _silent(site, check, f"files wait since {first:%Y-%m-%d %H:%M} UTC")
    return Finding(check, "ok", f"newest send: {newest.outcome}" if newest else "nothing was sent yet")


def _bucket(site: Site, check: str, arrival: Arrival) -> Finding:
    cloud = clouds.find(site.descriptor.cloud)
    assert cloud
    return cloud.part("events").check_bucket(site.descriptor, check, arrival)


def _trouble(site: Site, check: str, template: str, notes: TriggerNotes, newest: NotedSend | None) -> Finding | None:
    """The finding of a template that is paused, or whose newest send has failed."""
    if pause := paused(site.store, template):
        return Finding(check, "warning", f"{template} is {pause.words()}", f"tidemill template resume {template}")
    if newest and newest.outcome in FAILURES:
        note = notes.read(newest.key, newest.failures[0])
        detail = f"the newest send of {template} {'was ' * (note.outcome == 'denied')}{note.outcome}: {note.reason}"
        return Finding(check, "fault", detail, f"tidemill template history {template}")
    return None


def _silent(site: Site, check: str, detail: str) -> Finding:
    descriptor = site.descriptor
    cloud = clouds.find(descriptor.cloud)
    assert cloud
    place = {"group": descriptor.log_group, "region": descriptor.region, "account": descriptor.account}
    return Finding(check, "fault", detail, cloud.sender_errors.format(**place), owner=True)
