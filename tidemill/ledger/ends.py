"""Notes of jobs whose items have all ended, so that one listing tells the states of thousands of jobs.

Such a job changes only by a new round, which is noted before it is written. The notes are names alone. Of a job without
one nothing is known.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal, cast

from tidemill import layout
from tidemill.errors import ObjectNameError
from tidemill.store import Store

Finished = Literal["succeeded", "failed"]
_OPEN = "open"


def note_finished(store: Store, job: str, rounds: int, state: Finished) -> None:
    """Note the state of a job all of whose items have ended, after so many rounds."""
    store.put(layout.end(job, rounds, state), b"")


def note_round(store: Store, job: str, number: int) -> None:
    """Note that a job goes on with a round."""
    store.put(layout.end(job, number + 1, _OPEN), b"")


def finished(store: Store) -> dict[str, tuple[Finished, datetime]]:
    """By job: the state of those that are noted and have not gone on since, with the time of the note. A note that is
    older than the job is of an earlier one that had its id."""
    newest: dict[str, tuple[int, str, float]] = {}
    try:
        for entry in store.entries(layout.ENDS):
            job, rounds, state = layout.parse_end(entry.name)
            newest[job] = max(newest.get(job, (0, "", 0.0)), (rounds, state, entry.modified))
    except (ObjectNameError, ValueError):
        # Any job of the team may write a name that says nothing.
        return {}
    ended = {job: note for job, note in newest.items() if note[1] in ("succeeded", "failed")}
    return {job: (cast(Finished, state), datetime.fromtimestamp(at, UTC)) for job, (_, state, at) in ended.items()}
