"""Pauses of a template: numbered notes, of which the newest counts. Nothing is deleted, which is a right of its own."""

from __future__ import annotations

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
    names = sorted(entry.name for entry in store.page(layout.pauses(template)))
    return read_document(store, names[0], Pause) if names else None


def add_pause(store: Store, template: str, pause: Pause) -> bool:
    """Pause or resume a template. False where it is so already, by another's note."""
    while True:
        names = sorted(entry.name for entry in store.page(layout.pauses(template)))
        newest = read_document(store, names[0], Pause) if names else None
        if (newest is not None and newest.paused) == pause.paused:
            return False
        number = layout.NEWEST_FIRST - int(names[0].rpartition("/")[2].removesuffix(".json")) + 1 if names else 1
        name = f"{layout.pauses(template)}/{layout.newest_first(number)}.json"
        if store.create(name, pause.model_dump_json().encode()).ours:
            return True
