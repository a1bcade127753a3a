"""Pauses of a template: numbered notes, of which the newest counts. Nothing is deleted, which is a right of its own."""

from __future__ import annotations

import re
from datetime import datetime

from pydantic import BaseModel, ConfigDict

from tidemill import layout
from tidemill.ledger.documents import read_document
from tidemill.store import Store


class Pause(BaseModel):
    """A note that a template is paused, or sent again."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    paused: bool
    by: str
    at: datetime
    reason: str = ""

    def words(self) -> str:
        """`paused by ada: the camera is broken`."""
        return f"{'paused' if self.paused else 'resumed'} by {self.by}{f': {self.reason}' if self.reason else ''}"


def newest_pause(store: Store, template: str) -> Pause | None:
    """The newest note; None for a template that was never paused."""
    number = _newest(store, template)
    return read_document(store, _name(template, number), Pause) if number else None


def paused(store: Store, template: str) -> Pause | None:
    """The pause of a template; None while it is sent."""
    pause = newest_pause(store, template)
    return pause if pause is not None and pause.paused else None


def add_pause(store: Store, template: str, pause: Pause) -> bool:
    """Pause or resume a template. False where it is so already, by another's note."""
    while True:
        newest = newest_pause(store, template)
        if (newest is not None and newest.paused) == pause.paused:
            return False
        name = _name(template, _newest(store, template) + 1)
        if store.create(name, pause.model_dump_json().encode()).ours:
            return True


def _newest(store: Store, template: str) -> int:
    """The number of the newest note; 0 where there is none."""
    found = (re.search(r"/(\d{10})\.json$", entry.name) for entry in store.page(layout.pauses(template)))
    return max((layout.NEWEST_FIRST - int(name[1]) for name in found if name), default=0)


def _name(template: str, number: int) -> str:
    return f"{layout.pauses(template)}/{layout.newest_first(number)}.json"
