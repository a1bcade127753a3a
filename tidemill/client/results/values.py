"""Values of a job's function: in the items' order, as chunks are committed."""

from __future__ import annotations

import io
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import Any

from tidemill.client.watch.live import showing
from tidemill.client.watch.wait import watch
from tidemill.client.watch.watched import WatchedJob
from tidemill.errors import CallerError, ItemFailedError, JobEndedError, RemoteTraceback, decoding
from tidemill.ledger import Listing, Outcome
from tidemill.ledger.records import parse_lines
from tidemill.store.ahead import in_order

_RECORDS_AHEAD = 8
_FILES_AHEAD = 4
"""Values from files that are in memory at once; each has at most 64 MiB."""
HERE_SECONDS = 0.2
"""Between looks at a job of this machine."""


def stream_values(job: WatchedJob, *, return_exceptions: bool, progress: bool | None) -> Iterator[Any]:
    """The value of each item, in the items' order. See `Job.values`."""
    taken, status = 0, None
    reader = _Reader(job)
    poll = HERE_SECONDS if job.site.local else None
    with showing(job.spec.job, progress) as on_status, ThreadPoolExecutor(2 * _RECORDS_AHEAD) as pool:
        for status, snapshot in watch(job, repair=True, poll_seconds=poll, log=lambda text: None):
            on_status(status)
            ready = _in_a_row(taken, snapshot)
            for outcome, value in reader.read(range(taken, ready), snapshot, pool):
                yield _settled(job, outcome, value, return_exceptions)
            taken = ready
            if taken < job.spec.chunks_total:
                for outcome, value in reader.begun(taken, snapshot, stopped=status.ended):
                    yield _settled(job, outcome, value, return_exceptions)
        if status is not None and taken < job.spec.chunks_total:
            command = status.run_command or f"tidemill resume {job.spec.job}"
            raise JobEndedError(job.spec.job, status.state, status.note or "", command)


def _in_a_row(chunk: int, snapshot: Listing) -> int:
    """The first chunk from this one on that is not done."""
    while chunk < snapshot.counts.chunks_total and chunk not in snapshot.waiting:
        chunk += 1
    return chunk


def _settled(job: WatchedJob, outcome: Outcome, value: Callable[[], Any], return_exceptions: bool) -> Any:
    if outcome.status == "succeeded":
        return value()
    if return_exceptions:
        return failure(job, outcome)
    raise failure(job, outcome)


def failure(job: WatchedJob, outcome: Outcome) -> ItemFailedError:
    """The failure of an item as an exception, with its traceback there as the cause."""
    where = f" --pipeline {job.site.descriptor.uri}" if job.site.local else ""
    command = f"tidemill logs {job.spec.job} --item {outcome.index}{where}"
    error = ItemFailedError(
        job.spec.job,
        outcome.index,
        outcome.uri,
        reason=outcome.reason or "",
        traceback=outcome.error or "",
        command=command,
    )
    error.__cause__ = RemoteTraceback(outcome.error) if outcome.error else None
    return error


class _Reader:
    """Reads outcomes and their values ahead, a few at a time: each item once, in the items' order."""

    def __init__(self, job: WatchedJob) -> None:
        self._job = job
        self._stores = job.site.stores()
        self._next = 0
        """The item whose turn it is."""
        self._seen: set[str] = set()
        self._early: dict[int, Outcome] = {}
        """By item: outcomes of the chunk whose turn it is, from progress (`_seen`), whose turn is still to come."""

    def read(
        self, chunks: Iterable[int], snapshot: Listing, pool: ThreadPoolExecutor
    ) -> Iterator[tuple[Outcome, Callable[[], Any]]]:
        """Each outcome of some chunks that is not read yet, with what gives its value."""
        ahead: deque[tuple[Outcome, Future[Any] | None]] = deque()
        files = 0
        for outcome in self._outcomes(chunks, snapshot, pool):
            if outcome.index < self._next:
                continue
            self._next = outcome.index + 1
            file = pool.submit(self._load, outcome) if outcome.value_file and outcome.status == "succeeded" else None
            files += file is not None
            ahead.append((outcome, file))
            while ahead and (ahead[0][1] is None or files > _FILES_AHEAD):
                files -= ahead[0][1] is not None
                yield _given(*ahead.popleft())
        while ahead:
            yield _given(*ahead.popleft())

    def begun(self, chunk: int, snapshot: Listing, *, stopped: bool) -> Iterator[tuple[Outcome, Callable[[], Any]]]:
        """The same of a chunk that has no record yet: its items up to the first one without an outcome. Items that a
        retry runs again have their old outcome when the job has `stopped`, and until then none."""
        rounds = sorted(number for number, done in snapshot.done.items() if chunk in done)
        if rounds and not stopped:
            return
        store, names = self._job.ledger.store, self._job.progress_of(chunk)
        if self._seen.isdisjoint(names):
            self._seen, self._early = set(), {}
        for name in sorted(set(names) - self._seen):
            self._seen.add(name)
            with decoding(store.uri_of(name)):
                outcomes = parse_lines((store.find(name) or b"").splitlines())
            self._early |= {outcome.index: outcome for outcome in outcomes if outcome.index not in self._early}
        if rounds:
            earlier = self._job.ledger.merged(chunk, rounds)
            self._early = {outcome.index: outcome for outcome in earlier} | self._early
        first = self._job.ledger.index().frame(chunk).first
        self._next = max(self._next, first)
        while outcome := self._early.pop(self._next, None):
            self._next += 1
            yield outcome, partial(self._load, outcome)

    def _outcomes(self, chunks: Iterable[int], snapshot: Listing, pool: ThreadPoolExecutor) -> Iterator[Outcome]:
        def merged(chunk: int) -> list[Outcome]:
            rounds = sorted(number for number, done in snapshot.done.items() if chunk in done)
            return self._job.ledger.merged(chunk, rounds)

        return chain.from_iterable(in_order(pool, merged, chunks, _RECORDS_AHEAD))

    def _load(self, outcome: Outcome) -> Any:
        if outcome.value_file is None:
            return outcome.value
        uri = f"{outcome.output}{outcome.value_file}"
        store, name = self._stores.locate(uri)
        return decode_value(store.get(name), uri)


def _given(outcome: Outcome, file: Future[Any] | None) -> tuple[Outcome, Callable[[], Any]]:
    return outcome, (lambda: outcome.value) if file is None else file.result


def decode_value(data: bytes, uri: str) -> Any:
    """The value that a file holds: JSON, bytes or a NumPy array, as its name ends.

    Raises:
        CallerError: It is an array, and NumPy is not installed.
        DamagedError: It is not what its name says.
    """
    if uri.endswith(".bin"):
        return data
    if uri.endswith(".json"):
        with decoding(uri):
            return json.loads(data)
    try:
        import numpy
    except ImportError:
        raise CallerError(f"{uri} is a NumPy array, and NumPy is not installed here.", "pip install numpy") from None
    with decoding(uri):
        return numpy.load(io.BytesIO(data), allow_pickle=False)
