"""Jobs that have not started in time: the reconciler ends them, and drops their messages (`ended_jobs.py`)."""

from __future__ import annotations

from tidemill import layout
from tidemill.completion import StartLimit

from .answers import iso
from .cloud import Cloud
from .objects import Objects, end_job, is_cancelled, rounds_of


def end_late(cloud: Cloud, objects: Objects, name: str) -> str | None:
    """Look at a job's limit for its start. Returns a line when nothing is left to do, and None while it may start."""
    limit = StartLimit.parse(objects.get(name))
    if layout.start_limit(limit.job) != name:
        raise ValueError(f"it names the job {limit.job!r}")
    if cloud.now() < limit.until:
        return None
    rounds = rounds_of(objects, limit.job)
    if not rounds or is_cancelled(objects, limit.job, rounds[-1]):
        return f"{limit.job}: its limit for the start is not wanted any more"
    attempts = (objects.names(layout.of_round(limit.job, number, "attempts")) for number in rounds)
    if any(next(names, None) for names in attempts):
        return f"{limit.job}: started in time"
    end_job(objects, limit.job, rounds[-1], limit.reason, iso(cloud.now()))
    return f"{limit.job} ends: {limit.reason}"
