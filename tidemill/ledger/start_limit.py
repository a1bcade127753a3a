"""The limit of the time until a job starts.

A job starts when the first worker begins with a chunk of it, in any of its rounds. Whoever finds first that it has not
started in time ends it: the reconciler on GCP, a worker that would begin with it, or a client that looks.
"""

from __future__ import annotations

from tidemill import layout
from tidemill.completion import StartLimit
from tidemill.figures import duration
from tidemill.job import JobSpec
from tidemill.ledger.ledger import Ledger
from tidemill.ledger.rounds import Round


def start_limit(spec: JobSpec, newest: Round) -> StartLimit | None:
    """The limit of a job whose newest round this is; None for a job without one. A resume begins anew."""
    within = spec.start_within_seconds
    if within is None:
        return None
    reason = f"start_within_seconds: no machine has begun with it within {duration(within)}"
    return StartLimit(spec.job, newest.created_at.timestamp() + within, reason)


def has_started(ledger: Ledger) -> bool:
    folders = (layout.of_round(ledger.job, round_.round, "attempts") for round_ in ledger.rounds())
    return any(next(ledger.store.list(folder), None) for folder in folders)
