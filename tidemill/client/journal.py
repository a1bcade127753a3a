"""The journal: an empty object per job whose name says when it was submitted, so that a listing finds the newest jobs.

It lies under ``jobs/``, where whoever submits may write, and expires with the jobs. A job without an entry is found all
the same, by its folder: one of version 0.1, or one whose submit died in between.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC

from tidemill import layout
from tidemill.errors import StoreMissingError
from tidemill.job import JOB_PATTERN, JobSpec
from tidemill.ledger import Ledger
from tidemill.store import Store

_PARALLEL = 8


def enter(store: Store, spec: JobSpec) -> None:
    """Write a job down. The same job has the same entry, however often."""
    store.put(f"{layout.JOURNAL}/{spec.created_at.astimezone(UTC):%Y%m%dT%H%M%S.%fZ}~{spec.job}", b"")


def newest_specs(store: Store, name: str | None = None) -> Iterator[JobSpec]:
    """Specs of the jobs of a store, the newest first. Only those that are asked for are read.

    Args:
        store: The job store.
        name: Only jobs of this name.
    """
    with ThreadPoolExecutor(_PARALLEL) as pool:
        folders = pool.submit(store.folders, layout.JOBS)
        entries = [entry.rpartition("/")[2].partition("~") for entry in store.list(layout.JOURNAL)]
        there = [folder.rpartition("/")[2] for folder in folders.result()]
        ids = {job for job in there if re.fullmatch(JOB_PATTERN, job) and name in (None, job.rpartition("-")[0])}
        known = {job: at for at, _, job in entries if job in ids}
        unknown = filter(None, pool.map(lambda job: _spec(store, job), ids - known.keys()))
        # What had to be read anyway is sorted in by its own time.
        read = {spec.job: spec for spec in unknown}
        times = known | {job: f"{spec.created_at.astimezone(UTC):%Y%m%dT%H%M%S.%fZ}" for job, spec in read.items()}
    for job in sorted(times, key=lambda job: (times[job], job), reverse=True):
        if spec := read.get(job) or _spec(store, job):
            yield spec


def _spec(store: Store, job: str) -> JobSpec | None:
    try:
        return Ledger(store, job).spec()
    except StoreMissingError:
        return None
