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
from tidemill.templates.pauses import paused
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

    @property
    def time_words(self) -> str:
        """The time for people. Each trigger has a zone of its own, and `--at` takes a time so."""
        return f"{self.time[:16]}{self.time[19:]}".replace("+00:00", "Z")


@dataclass(frozen=True)
class TemplateRow:
    """A template, for people; also one that the stack sends and that is not saved.

    Attributes:
        version: 0 where it is not saved.
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
    sent = (*site.descriptor.schedules.values(), *site.descriptor.arrivals.values())
    names = {*template_names(site.store), *(one.template_name for one in sent)}
    return [row for name in sorted(names) if (row := _template_row(site, name))]


def _template_row(site: Site, name: str) -> TemplateRow | None:
    template, by = newest_template(site.store, name), senders_of(site, name)
    if template is None and not by:
        return None
    pause = paused(site.store, name)
    return TemplateRow(
        name=name,
        version=template.version if template else 0,
        queue=template.settings.get("queue") if template else None,
        saved_by=template.saved_by if template else "",
        saved_at=template.saved_at.isoformat(timespec="seconds") if template else "",
        paused=pause.words() if pause else "",
        sent_by=by,
        last=next(iter(_sends(site, name, 1)), None),
    )


def senders_of(site: Site, template: str) -> list[str]:
    """The schedules and arrivals of a stack that send a template."""
    kinds = {"schedule": site.descriptor.schedules, "arrivals": site.descriptor.arrivals}
    return [
        f"{kind} {name}"
        for kind, each in kinds.items()
        for name, one in sorted(each.items())
        if one.template_name == template
    ]


def send_rows(site: Site, name: str, limit: int) -> list[SendRow]:
    """See `Templates.history`."""
    # What a removed template has sent stays, and what failed because it was never saved.
    known = isinstance(name, str) and re.match(NAME_PATTERN, name)
    known = known and (versions(site.store, name) or senders_of(site, name))
    return _sends(site, name if known else find_template(site.store, name).name, limit)


def send_remarks(site: Site, name: str) -> list[str]:
    """See `Templates.remarks`."""
    if not re.match(NAME_PATTERN, name):
        return []
    by, saved = senders_of(site, name), newest_template(site.store, name) is not None
    if not saved and not by:
        return []
    said, pause = list[str](), paused(site.store, name)
    if not saved:
        said.append(f"Template {name} is not saved. `tidemill template save {name}` makes what {', '.join(by)} sends.")
    if pause:
        said.append(f"Template {name} is {pause.words()}. `tidemill template resume {name}` sends it again.")
    rows = _sends(site, name, 1)
    if saved and not rows:
        said.append(f"Template {name} has never been sent. It is sent by {', '.join(by) or 'hand'}.")
    for row in rows:
        if row.outcome not in ("sent", "begun"):
            said.append(
                f"The send of template {name} by {row.trigger} for {row.time_words} was {row.outcome}: {row.reason}"
            )
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
