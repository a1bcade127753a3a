"""Templates and their sends as rows for people."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from tidemill import layout
from tidemill.client.site import Site
from tidemill.job import NAME_PATTERN
from tidemill.templates.notes import SendNote, TriggerNotes
from tidemill.templates.pauses import newest_pause
from tidemill.templates.template import find_template, newest_template, template_names, versions


@dataclass(frozen=True)
class SendRow:
    """A send of a template, for people.

    Attributes:
        trigger: `schedule NAME`, `arrivals NAME` or `hand`.
        time: The time that it was for, ISO 8601.
        outcome: `sent`, `skipped`, `failed`, `denied`, `missed`, or `begun` while it is on its way.
        job: The job that was sent.
        reason: Why none was.
        by: Who sent it, or did not.
        version: Of the template.
    """

    trigger: str
    time: str
    outcome: str
    job: str | None
    reason: str
    by: str
    version: int


@dataclass(frozen=True)
class TemplateRow:
    """A template, for people.

    Attributes:
        paused: Who has paused it, and why; empty while it is sent.
        sent_by: What sends it: schedules and arrivals of the stack.
        last: Its newest send.
    """

    name: str
    version: int
    queue: str | None
    saved_by: str
    saved_at: str
    paused: str
    sent_by: list[str]
    last: SendRow | None


def template_rows(site: Site) -> list[TemplateRow]:
    """See `Templates.list`."""
    return [row for name in template_names(site.store) if (row := _template_row(site, name))]


def _template_row(site: Site, name: str) -> TemplateRow | None:
    template = newest_template(site.store, name)
    if template is None:
        return None
    pause = newest_pause(site.store, name)
    return TemplateRow(
        name=name,
        version=template.version,
        queue=template.settings.get("queue"),
        saved_by=template.saved_by,
        saved_at=template.saved_at.isoformat(timespec="seconds"),
        paused=pause.words() if pause and pause.paused else "",
        sent_by=senders_of(site, name),
        last=next(iter(_sends(site, name, 1)), None),
    )


def senders_of(site: Site, template: str) -> list[str]:
    """The schedules and arrivals of a stack that send a template."""
    kinds = {"schedule": site.descriptor.schedules, "arrivals": site.descriptor.arrivals}
    return [
        f"{kind} {name}"
        for kind, each in kinds.items()
        for name, one in sorted(each.items())
        if one.template.partition("@")[0] == template
    ]


def send_rows(site: Site, name: str, limit: int) -> list[SendRow]:
    """See `Templates.history`."""
    # What a removed template has sent stays.
    gone = isinstance(name, str) and re.match(NAME_PATTERN, name) and versions(site.store, name)
    return _sends(site, name if gone else find_template(site.store, name).name, limit)


def send_remarks(site: Site, name: str) -> list[str]:
    """See `Templates.remarks`."""
    if not re.match(NAME_PATTERN, name) or newest_template(site.store, name) is None:
        return []
    said, pause = list[str](), newest_pause(site.store, name)
    if pause and pause.paused:
        said.append(f"Template {name} is {pause.words()}. `tidemill template resume {name}` sends it again.")
    rows = _sends(site, name, 1)
    if not rows:
        by = ", ".join(senders_of(site, name)) or "hand"
        said.append(f"Template {name} has never been sent. It is sent by {by}.")
    for row in rows:
        if row.outcome not in ("sent", "begun"):
            when = row.time[:16].replace("T", " ")
            said.append(f"The send of template {name} by {row.trigger} for {when} was {row.outcome}: {row.reason}")
    return said


def _sends(site: Site, template: str, limit: int) -> list[SendRow]:
    """The sends of a template by all triggers, the newest first."""
    folders = (folder.rpartition("/")[2] for folder in site.store.folders(f"{layout.SENDS}/{template}"))
    triggers = [folder.replace("-", " ", 1) for folder in folders if re.match(r"hand$|schedule-|arrivals-", folder)]
    notes = [note for trigger in triggers for note in _of_trigger(site, template, trigger, limit)]
    return [_row(note) for note in sorted(notes, key=lambda note: (note.time, note.at), reverse=True)[:limit]]


def _of_trigger(site: Site, template: str, trigger: str, limit: int) -> Iterator[SendNote]:
    notes = TriggerNotes(site.store, template, trigger)
    return (notes.read(noted.key, noted.outcome) for noted in notes.newest()[:limit])


def _row(note: SendNote) -> SendRow:
    return SendRow(
        trigger=note.trigger,
        time=_iso(note.time),
        outcome=note.outcome,
        job=note.job,
        reason=note.reason,
        by=note.by,
        version=note.version,
    )


def _iso(time: datetime) -> str:
    return time.isoformat(timespec="seconds")
