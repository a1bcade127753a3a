"""Chooses the snapshot with which an attempt begins, and judges if the item makes progress. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import pairwise

from tidemill.state.snapshots import Snapshot

NO_PROGRESS = 5
"""Attempts in a row without a new snapshot after which the item fails."""
FAST_FAILURES = 2
"""Failures soon after a restore from a snapshot after which the one before is used."""


def choose(newest_first: Iterable[Snapshot]) -> list[Snapshot]:
    """Snapshots to try, in this order: one for each set of files.

    The newest comes first, unless programs of this round have failed twice within a minute of a restore from it: then
    it comes after the one before. Before another round people correct what was wrong, which may not have been the
    snapshot.
    """
    failures: Counter[int] = Counter()
    distinct: dict[int, Snapshot] = {}
    now: tuple[int, str] | None = None
    for snapshot in newest_first:
        round_ = snapshot.round, snapshot.run
        now = now or round_
        failures[snapshot.origin] += snapshot.kind == "failure" and round_ == now
        if snapshot.origin:
            distinct.setdefault(snapshot.origin, snapshot)
    return sorted(distinct.values(), key=lambda one: (failures[one.origin] < FAST_FAILURES, one.origin), reverse=True)


def without_progress(newest_first: Iterable[Snapshot], round_: int, run: str) -> Sequence[Snapshot]:
    """Claims of this round since the last new snapshot, oldest first: attempts that brought nothing.

    A program that failed by itself ends the row, because that attempt did not end with its machine.
    """
    claims: list[Snapshot] = []
    for snapshot in newest_first:
        if snapshot.kind != "claim" or (snapshot.round, snapshot.run) != (round_, run):
            break
        claims.append(snapshot)
    return claims[::-1]


def no_progress_words(claims: Sequence[Snapshot], now: datetime) -> str:
    """Error text of an item that the guard ends."""
    starts = [*(datetime.fromisoformat(claim.at) for claim in claims), now]
    # Clocks of two machines may differ.
    apart = ", ".join(_minutes(max(0.0, (b - a).total_seconds())) for a, b in pairwise(starts))
    return (
        f"{len(claims)} attempts in a row ended with their machine before anything new of the state was saved. From "
        f"each start to the next it took {apart}. Let the program write a checkpoint into its state folder more often "
        "than that and close it, or create .commit there when it is complete. snapshot_seconds says how "
        "often it is saved."
    )


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
