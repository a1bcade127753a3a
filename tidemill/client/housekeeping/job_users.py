"""Who uses a job: the other jobs that wait for it, or read what it has left."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor

from tidemill import layout
from tidemill.client.journal import Journal, known_spec
from tidemill.errors import DamagedError
from tidemill.job import JOB_PATTERN, JobSpec
from tidemill.store import Store
from tidemill.store.ahead import in_order

_PARALLEL = 16


class JobUsers:
    """The jobs that use other jobs of a store. Each spec is read once, as it never changes; none is left out for its
    time, which its submitter writes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read: set[str] = set()
        self._users: dict[str, list[str]] = {}

    def look(self) -> None:
        """Read the specs that have come since the last look."""
        with ThreadPoolExecutor(_PARALLEL) as pool:
            for spec in filter(None, in_order(pool, self._spec, Journal(self._store).ids() - self._read)):
                self._read.add(spec.job)
                for job in _uses(self._store, spec):
                    self._users.setdefault(job, []).append(spec.job)

    def forget(self, job: str) -> None:
        """Leave out a job that is gone: one of that id may come again."""
        self._read.discard(job)
        for users in self._users.values():
            if job in users:
                users.remove(job)

    def of(self, job: str) -> list[str]:
        """The others that use a job."""
        return sorted(self._users.get(job, ()))

    def _spec(self, job: str) -> JobSpec | None:
        """A job's spec; None where there is none, or one that is damaged: such a job cannot run, and shows nothing."""
        try:
            return known_spec(self._store, job)
        except DamagedError:
            return None


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
