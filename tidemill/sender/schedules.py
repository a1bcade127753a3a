"""Schedules: which times are due when a scheduler wakes the sender up, and what becomes of each.

The scheduler's own time only says when to look: the times that are due are computed from the schedule. The newest one
that no call was made for is caught up once; older ones are noted as missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import Any

from tidemill.client.site import Site
from tidemill.client.templates.by_hand import cron_of
from tidemill.client.templates.sends import Send, written_job
from tidemill.descriptor import Schedule
from tidemill.sender.trying import row, tried
from tidemill.templates.notes import NotedSend, SendNote, end_of
from tidemill.templates.pauses import paused
from tidemill.templates.times import due_before

EARLY = timedelta(minutes=1)
"""A scheduler's clock may be ahead of the store's by less than the shortest interval of schedules."""
MOST_MISSED = 50
"""Missed times that are noted one by one. Of earlier ones nothing is noted."""


def send_due(site: Site, name: str, schedule: Schedule, woken_at: datetime) -> list[dict[str, Any]]:
    """Send a schedule's template for the times that are due.

    Args:
        site: The pipeline.
        name: The schedule's name.
        schedule: The schedule.
        woken_at: The time that the scheduler was to wake the sender up at.

    Raises:
        CloudError: The store or the queue did not answer. The same call may be made again.
    """
    due = due_before(schedule.cron, schedule.timezone, min(woken_at, site.account.at() + EARLY))
    fired = next(due)
    wanted = _wanted(name, schedule, fired)
    noted = wanted.notes(site).newest()
    missed = list(islice(_missed(site, wanted, noted, due), MOST_MISSED))
    sends = [_wanted(name, schedule, time) for time in missed]
    notes = [_note_missed(site, each, name) for each in reversed(sends[1:])]
    overlap = schedule.overlap
    if sends:
        caught_up = _sent(site, sends[0], noted, schedule)
        notes.append(caught_up)
        if caught_up.outcome == "sent" and overlap == "skip":
            # It is late; the one that is on time follows it.
            schedule = schedule.model_copy(update={"overlap": "wait"})
    return [row(note) for note in [*notes, _sent(site, wanted, noted, schedule)]]


def _wanted(name: str, schedule: Schedule, time: datetime) -> Send:
    return Send(schedule.template, f"schedule {name}", time, cron=cron_of(schedule), queues=schedule.queues)


def _missed(site: Site, fired: Send, noted: Sequence[NotedSend], due: Any) -> Any:
    """The times between the newest one that has a note and the one that is due now, the newest first."""
    newest = noted[0] if noted else None
    if newest is None or newest.time >= fired.time:
        return iter(())
    if fired.notes(site).read(newest.key, newest.outcome).cron != fired.cron:
        # The schedule has changed since: it was not due as it is now.
        return iter(())
    begun = newest.outcome == "begun"
    # Times of different zones are never equal in a doubled hour.
    return takewhile(lambda time: time > newest.time or (begun and time >= newest.time), due)


def _note_missed(site: Site, wanted: Send, name: str) -> SendNote:
    time = wanted.time.isoformat(timespec="minutes")
    command = f"tidemill template send {wanted.template} --schedule {name} --at {time}"
    return wanted.note(site, "missed", 0, f"No sender ran at that time. `{command}` sends it.")


def _sent(site: Site, wanted: Send, noted: Sequence[NotedSend], schedule: Schedule) -> SendNote:
    kinds = next((each.kinds for each in noted if each.key == wanted.key), frozenset[str]())
    if outcome := end_of(kinds):
        return wanted.notes(site).read(wanted.key, outcome)
    if (pause := paused(site.store, wanted.template)) and written_job(site, wanted, kinds) is None:
        return wanted.note(site, "skipped", 0, f"The template is {pause.words()}")
    return tried(site, wanted, kinds, schedule.overlap)
