"""Finds the chunks of a job that have outcomes: in a record, or in the progress that workers have written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tidemill import layout
from tidemill.completion import owners
from tidemill.ledger.rounds import Round
from tidemill.store import Store


@dataclass
class OutcomeSources:
    """The objects that hold a chunk's outcomes.

    Attributes:
        rounds: Those with a record of it, oldest first.
        unfinished: The newest round that enqueued it, where that has no record of it; what its attempts have finished
            is their progress.
        at: When its outcomes were last written, in seconds since the epoch, by the store's clock.
    """

    rounds: list[int] = field(default_factory=list)
    unfinished: int | None = None
    at: float = 0.0


def ended_chunks(
    store: Store, job: str, rounds: Sequence[Round], done_at: Callable[[int], Mapping[int, float]]
) -> dict[int, OutcomeSources]:
    """Every chunk with an outcome, by its number. Names of progress are listed only while a chunk has no record."""
    sources: dict[int, OutcomeSources] = {}
    waiting = owners(rounds)
    for round_ in rounds:
        for chunk, at in done_at(round_.round).items():
            ended = sources.setdefault(chunk, OutcomeSources())
            ended.rounds.append(round_.round)
            ended.at = max(ended.at, at)
            if waiting.get(chunk) == round_.round:
                del waiting[chunk]
    for round_ in rounds if waiting else ():
        for entry in store.entries(layout.of_round(job, round_.round, "progress")):
            if (chunk := int(entry.name.split("/")[-2])) in waiting:
                ended = sources.setdefault(chunk, OutcomeSources())
                ended.unfinished, ended.at = waiting[chunk], max(ended.at, entry.modified)
    return dict(sorted(sources.items()))
