"""The mark of a job that is being removed. It takes the place of the spec, so that no half of a job looks whole."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime

from tidemill import layout
from tidemill.errors import StoreMissingError
from tidemill.store import Store


class RemovedError(StoreMissingError):
    """A job is being removed: what is left of it is no job."""

    def __init__(self, job: str) -> None:
        super().__init__(f"{job} is being removed.", f"`tidemill rm {job}` finishes that.", what="job", value=job)


def mark_removed(store: Store, job: str, by: str) -> None:
    """Write the mark. From now on there is no such job, and everything below its folders may be deleted."""
    at = datetime.now(UTC).isoformat(timespec="seconds")
    store.put(layout.spec(job), json.dumps({"removed": {"by": by, "at": at}}).encode())


def is_removed(store: Store, job: str) -> bool:
    """True if the mark is there."""
    return is_mark(store.find(layout.spec(job)) or b"")


def is_mark(data: bytes) -> bool:
    """True for the content of a mark."""
    with suppress(ValueError, RecursionError):
        content = json.loads(data)
        return isinstance(content, dict) and content.keys() == {"removed"}
    return False
