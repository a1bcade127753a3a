"""Notes of what a template has sent, by trigger: an object per send and outcome, which is never changed.

A send is `begun` before anything is sent, with the version of the template that it uses; a sender that finds no other
outcome goes on with it. The names sort the newest send first, so that one request lists what counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict

from tidemill import layout
from tidemill.ledger.documents import parse_document, read_document
from tidemill.store import Store

NoteKind = Literal["begun", "sent", "skipped", "failed", "denied", "missed"]
FAILURES: tuple[NoteKind, ...] = ("failed", "denied")
ENDS: tuple[NoteKind, ...] = ("sent", "skipped", *FAILURES)
"""Outcomes of a send that a sender has tried."""
HELD: tuple[NoteKind, ...] = (*ENDS, "missed", "begun")
"""The outcome of a send with several notes is the first of these: what was sent by hand after a failure is sent."""


_NOTE = re.compile(rf"(\d{{10}}(?:-\d{{8}}T\d{{6}}Z)?)~((?:{'|'.join(HELD)})(?:-\d{{1,6}})?)\.json")


class SendNote(BaseModel):
    """A note about a send."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    template: str
    version: int
    """Of the template; 0 where there was none."""
    trigger: str
    time: datetime
    """The time that the send is for."""
    outcome: NoteKind
    by: str
    """Who noted it: the sender's name in the cloud, or a person's."""
    at: datetime
    reason: str = ""
    job: str | None = None
    number: int | None = None
    """Of arrivals."""
    cron: str = ""
    """When the schedule was due, as it was then, with its zone."""
    mark: str = ""
    """Of a send that has begun: a part of its job's id."""


@dataclass(frozen=True)
class NotedSend:
    """The notes of one send, as a listing tells them.

    Attributes:
        key: Its name in the trigger's folder.
        kinds: The kinds of its notes.
        failures: The ends of the names of those about failures, the newest first.
    """

    key: str
    kinds: frozenset[str]
    failures: Sequence[str] = ()

    @property
    def outcome(self) -> NoteKind:
        return next(kind for kind in HELD if kind in self.kinds)

    @property
    def time(self) -> datetime:
        """The time that it is for, of a send that has one."""
        return datetime.fromtimestamp(layout.NEWEST_FIRST - int(self.key.partition("-")[0]), UTC)


class TriggerNotes:
    """The notes of one template and trigger.

    Args:
        store: The job store.
        template: The template's name.
        trigger: `schedule NAME`, `arrivals NAME` or `hand`.
    """

    def __init__(self, store: Store, template: str, trigger: str) -> None:
        self.store, self.template, self.trigger = store, template, trigger
        self.folder = layout.sends(template, trigger)

    def newest(self) -> list[NotedSend]:
        """The newest sends, the newest first: as many as one request lists."""
        return noted_sends([entry.name for entry in self.store.page(self.folder)])

    def find(self, key: str) -> NotedSend:
        """The notes of one send."""
        names = [entry.name for entry in self.store.page(self.folder, f"{self.folder}/{key}")]
        return next((noted for noted in noted_sends(names) if noted.key == key), NotedSend(key, frozenset()))

    def read(self, key: str, outcome: str) -> SendNote:
        return read_document(self.store, self._name(key, outcome), SendNote)

    def note(self, key: str, note: SendNote, again: int = 0) -> SendNote:
        """Write a note down; returns the one of this kind that stands, which another sender may have written. A try
        `again` has a note of its own."""
        name = self._name(key, f"{note.outcome}{f'-{again + 1}' if again else ''}")
        content = self.store.create(name, note.model_dump_json(exclude_defaults=True).encode()).content
        return parse_document(content, self.store.uri_of(name), SendNote)

    def _name(self, key: str, outcome: str) -> str:
        return f"{self.folder}/{key}~{outcome}.json"


def end_of(kinds: frozenset[str]) -> NoteKind | None:
    """The end of a send that a sender has tried; None where none has, or the last one died."""
    return next((kind for kind in ENDS if {kind} & kinds), None)


def key_of(time: datetime) -> str:
    """The name of a send that is for a time: it sorts before those of earlier ones."""
    utc = time.astimezone(UTC)
    return f"{layout.newest_first(int(utc.timestamp()))}-{utc:%Y%m%dT%H%M%SZ}"


def noted_sends(names: Sequence[str]) -> list[NotedSend]:
    """Sends from the names of their notes, in the order of their keys."""
    ends: dict[str, list[str]] = {}
    for name in names:
        # Whoever may write notes may write other names, too.
        if found := _NOTE.fullmatch(name.rpartition("/")[2]):
            ends.setdefault(found[1], []).append(found[2])
    return [_noted(key, ends[key]) for key in sorted(ends)]


def _noted(key: str, ends: Sequence[str]) -> NotedSend:
    failures = [end for end in ends if end.partition("-")[0] in FAILURES]
    failures.sort(key=lambda end: int(end.partition("-")[2] or 1), reverse=True)
    return NotedSend(key, frozenset(end.partition("-")[0] for end in ends), failures)
