"""Templates by hand: sent, paused, resumed, removed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from tidemill.client.items.source import NoItemsError
from tidemill.client.journal import known_spec
from tidemill.client.site import Log, Site
from tidemill.client.templates.sends import Send, send
from tidemill.descriptor import Schedule
from tidemill.errors import CallerError
from tidemill.templates.notes import SendNote
from tidemill.templates.pauses import Pause, add_pause, paused
from tidemill.templates.template import Template, add_version, find_template
from tidemill.templates.times import due_before, on_day

_AT = "a day or time such as 2026-11-23 or 2026-11-23T02:00"
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_AHEAD = timedelta(days=1)
"""What is day here may not be day in the zone of a send."""


def send_by_hand(site: Site, reference: str, at: str | datetime | None, schedule: str | None, log: Log) -> SendNote:
    """See `Templates.send`."""
    template = find_template(site.store, reference)
    if "items" not in template.settings:
        problem = f"Template {template.name} has no items: it sends files as they arrive."
        raise CallerError(problem, "Save it with items, to send it by hand.", what="template")
    wanted = _wanted(site, reference, template.name, at, schedule)
    if pause := paused(site.store, template.name):
        log(f"{template.name} is {pause.words()}; it is sent because you say so.")
    try:
        note = send(site, wanted, wanted.notes(site).find(wanted.key).kinds, log=log)
    except CallerError as error:
        # What a person tries for a schedule's time, its next call tries again.
        if wanted.trigger == "hand":
            outcome = "skipped" if isinstance(error, NoItemsError) else "failed"
            wanted.note(site, outcome, template.version, str(error))
        raise
    if note.job and known_spec(site.store, note.job) is None:
        problem = f"{template.name} was sent for {wanted.time:%Y-%m-%d %H:%M %Z}, and its job {note.job} is gone."
        raise CallerError(problem, "Each time has one job, also when it was removed: give another time.", what="at")
    if wanted.trigger != "hand":
        log(f"{note.job} is the job of {wanted.trigger} for {wanted.time:%Y-%m-%d %H:%M %Z}.")
    return note


def _wanted(site: Site, reference: str, name: str, at: str | datetime | None, schedule: str | None) -> Send:
    """The send that is meant: that of a schedule, where it is due at that time."""
    schedules = {
        key: one
        for key, one in site.descriptor.schedules.items()
        if one.template_name == name and schedule in (None, key)
    }
    if schedule is not None and schedule not in schedules:
        known = [key for key, one in site.descriptor.schedules.items() if one.template_name == name]
        if not known:
            raise CallerError(
                "schedule is given, and no schedule sends this template.", "Leave it out.", what="schedule"
            )
        raise CallerError.unknown("schedule", schedule, f"this stack for template {name}", known)
    zones = {one.timezone for one in schedules.values()}
    zone = ZoneInfo(zones.pop()) if len(zones) == 1 else UTC
    if at is None:
        return Send(reference, "hand", site.account.at().replace(microsecond=0).astimezone(zone))
    time, whole_day = _time(at)
    found = _due(schedules, time, whole_day=whole_day)
    if len(found) > 1:
        times = ", ".join(f"{due:%Y-%m-%dT%H:%M} ({key})" for key, due in found)
        raise CallerError.about(
            "at", str(at), f"one of these times: {times}", "Give the time, or the schedule as well."
        )
    if found:
        (key, due), now = found[0], site.account.at()
        if due > now:
            raise CallerError.about("at", str(at), f"before now, {now:%Y-%m-%dT%H:%M %Z}", "Wait for the schedule.")
        return Send(schedules[key].template, f"schedule {key}", due, cron=cron_of(schedules[key]))
    zoned, now = time if time.tzinfo else time.replace(tzinfo=zone), site.account.at()
    if zoned > now + _AHEAD:
        raise CallerError.about(
            "at", str(at), f"at most a day after now, {now:%Y-%m-%dT%H:%M %Z}", "Give an earlier one."
        )
    return Send(reference, "hand", zoned)


def cron_of(schedule: Schedule) -> str:
    """When a schedule is due, as its notes have it."""
    return f"{schedule.cron} {schedule.timezone}"


def _time(at: str | datetime) -> tuple[datetime, bool]:
    """A time, and whether only its day was given."""
    if isinstance(at, datetime):
        return at, False
    try:
        return datetime.fromisoformat(at), bool(_DAY.fullmatch(at))
    except (TypeError, ValueError):
        raise CallerError.about("at", at, _AT, "Write it so.") from None


def _due(schedules: Mapping[str, Schedule], time: datetime, *, whole_day: bool) -> list[tuple[str, datetime]]:
    """The times of schedules that are meant by a time."""
    found = list[tuple[str, datetime]]()
    for key, one in schedules.items():
        if whole_day:
            found += [(key, due) for due in on_day(one.cron, one.timezone, time)]
            continue
        zoned = time if time.tzinfo else time.replace(tzinfo=ZoneInfo(one.timezone))
        due = next(due_before(one.cron, one.timezone, zoned), None)
        # Times of different zones are never equal in a doubled hour.
        if due is not None and due.astimezone(UTC) == zoned.astimezone(UTC):
            found.append((key, due))
    return found


def set_paused(site: Site, name: str, reason: str, *, paused: bool) -> bool:
    """See `Templates.pause` and `Templates.resume`."""
    template = _whole(site, name)
    pause = Pause(paused=paused, by=site.account.user(), at=site.account.at(), reason=reason)
    return add_pause(site.store, template.name, pause)


def remove_template(site: Site, name: str) -> None:
    """See `Templates.remove`."""
    newest = _whole(site, name)
    gone = Template(name=newest.name, version=1, saved_by=site.account.user(), saved_at=site.account.at(), removed=True)
    add_version(site.store, gone)


def _whole(site: Site, name: str) -> Template:
    """The newest version of a template. What is done to a template is done to all of its versions."""
    template = find_template(site.store, name)
    if name != template.name:
        raise CallerError.about(
            "template", name, "the name of a template, without a version", f"Write {template.name}."
        )
    return template
