"""Who uses a job: the other jobs that wait for it, or read what it has left."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from datetime import datetime

from tidemill import layout
from tidemill.client.journal import newest_specs
from tidemill.job import JOB_PATTERN, JobSpec
from tidemill.store import Store


def job_users(store: Store, jobs: Collection[str], since: datetime) -> dict[str, list[JobSpec]]:
    """By job of `jobs`: the others that use it, the newest first. None of them is older than the oldest job, which was
    sent at `since`."""
    users: dict[str, list[JobSpec]] = {}
    for spec in newest_specs(store):
        if spec.created_at < since:
            break
        for job in _uses(store, spec).intersection(jobs):
            users.setdefault(job, []).append(spec)
    return users


def _uses(store: Store, spec: JobSpec) -> set[str]:
    """The jobs that a job names: it runs after them (as it does after those of `job://`), begins with their state,
    shares outcomes of theirs, or has a folder of theirs as an input."""
    used = {predecessor.job for predecessor in spec.after}
    if spec.state and spec.state.from_job:
        used.add(spec.state.from_job)
    used.update(_owners(store, spec.inputs.values()))
    used.update(spec.shared.jobs if spec.shared else ())
    return used - {spec.job}


def _owners(store: Store, uris: Collection[str]) -> Iterator[str]:
    """The jobs whose outputs or state some URIs lead to."""
    for uri in uris:
        for folder in (layout.OUT, layout.STATE):
            job = uri.removeprefix(f"{store.uri}/{folder}/").partition("/")[0]
            if uri.startswith(f"{store.uri}/{folder}/") and re.fullmatch(JOB_PATTERN, job):
                yield job
