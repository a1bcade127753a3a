"""Tries of the sender: what goes wrong is noted, and a template that fails again and again is paused."""

from __future__ import annotations

from contextlib import suppress
from itertools import takewhile
from typing import Any

from tidemill.client.items.source import NoItemsError
from tidemill.client.site import Site
from tidemill.client.templates.sends import Overlap, Send, send
from tidemill.errors import CallerError, CloudError, DamagedError
from tidemill.ledger.documents import TamperedError, UnreadableError
from tidemill.templates.notes import FAILURES, NoteKind, SendNote
from tidemill.templates.pauses import Pause, add_pause, newest_pause
from tidemill.templates.template import newest_template

MOST_FAILURES = 3
"""Sends in a row that fail before the template is paused."""


def tried(site: Site, wanted: Send, kinds: frozenset[str], overlap: Overlap = "allow") -> SendNote:
    """Send a template, and note what became of it.

    Raises:
        CloudError: The store or the queue did not answer, which is no fault of the template. Nothing more is noted.
    """
    try:
        return send(site, wanted, kinds, overlap)
    except NoItemsError as error:
        return _noted(site, wanted, "skipped", error)
    except (CallerError, DamagedError, TamperedError, UnreadableError) as error:
        note = _noted(site, wanted, "failed", error)
    except CloudError as error:
        if not error.denied:
            raise
        note = _noted(site, wanted, "denied", error)
    _pause_after_failures(site, wanted, note)
    return note


def row(note: SendNote) -> dict[str, Any]:
    """A note as the sender's log has it."""
    return note.model_dump(mode="json", include={"template", "version", "time", "outcome", "reason", "job", "number"})


def _noted(site: Site, wanted: Send, outcome: NoteKind, error: CallerError | CloudError) -> SendNote:
    version = 0
    with suppress(CloudError):
        template = newest_template(site.store, wanted.template)
        version = template.version if template else 0
    return wanted.note(site, outcome, version, str(error))


def _pause_after_failures(site: Site, wanted: Send, note: SendNote) -> None:
    """Pause a template whose newest sends have all failed since it was resumed, and tell its channel."""
    notes, since = wanted.notes(site), newest_pause(site.store, wanted.template)
    failed = takewhile(lambda noted: noted.outcome in (*FAILURES, "begun"), notes.newest())
    failures = [(noted.key, end) for noted in failed for end in noted.failures][:MOST_FAILURES]
    if len(failures) < MOST_FAILURES or (since and (since.paused or notes.read(*failures[-1]).at <= since.at)):
        return
    reason = f"{MOST_FAILURES} sends in a row have failed, the last one with: {note.reason}"
    if add_pause(site.store, wanted.template, Pause(paused=True, by=note.by, at=note.at, reason=reason)):
        _tell(site, wanted.template, reason)


def _tell(site: Site, name: str, reason: str) -> None:
    """Tell a template's channel that it is paused. A channel that cannot be told does not stop the sender."""
    template = newest_template(site.store, name)
    topic = site.descriptor.channels.get(template.settings.get("notify", "")) if template else None
    if topic:
        text = f"Template {name} is paused: {reason} `tidemill template resume {name}` sends it again."
        fields = {"id": f"{name}/paused", "template": name, "state": "paused"}
        with suppress(CloudError):
            site.account.publish(topic, f"{name} is paused", text, fields)
