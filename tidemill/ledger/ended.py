"""Which chunks of a job have outcomes: those with a record, and those of which workers have written progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tidemill import layout
from tidemill.ledger.rounds import Round, newest_rounds
from tidemill.store import Store


@dataclass
class EndedItems:
    """Where the outcomes of a chunk are.

    Attributes:
        rounds: Those with a record of it, oldest first.
        unfinished: The newest round that enqueued it, where that has no record of it; what its attempts have finished
            is their progress.
        at: When progress of it was last written, in seconds since the epoch.
    """

    rounds: list[int] = field(default_factory=list)
    unfinished: int | None = None
    at: float = 0.0


def ended_chunks(
    store: Store, job: str, rounds: Sequence[Round], done_chunks: Callable[[int], set[int]]
) -> dict[int, EndedItems]:
    """Every chunk with an outcome, by its number. Names of progress are listed only while a chunk has no record."""
    found: dict[int, EndedItems] = {}
    waiting = newest_rounds(rounds)
    for round_ in rounds:
        for chunk in done_chunks(round_.round):
            found.setdefault(chunk, EndedItems()).rounds.append(round_.round)
            if waiting.get(chunk) == round_.round:
                del waiting[chunk]
    for round_ in rounds if waiting else ():
        for entry in store.entries(layout.of_round(job, round_.round, "progress")):
            if (chunk := int(entry.name.split("/")[-2])) in waiting:
                ended = found.setdefault(chunk, EndedItems())
                ended.unfinished, ended.at = waiting[chunk], max(ended.at, entry.modified)
    return dict(sorted(found.items()))
