"""One lease of a chunk at a time, as a queue hands it out, and two workers on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Literal
from unittest.mock import patch

import obstore
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from obstore.exceptions import AlreadyExistsError

from tests.stored import write_manifest, write_round, write_spec
from tidemill.client.plan.spec import build_spec
from tidemill.ledger import Ledger, Outcome, Round, RoundArray
from tidemill.ledger.attempts import POISON_ATTEMPTS
from tidemill.ledger.records import Record
from tidemill.store import Store
from tidemill.store import store as store_module
from tidemill.worker.chunks.chunk import ChunkRun
from tidemill.worker.chunks.jobs import LeasedJob

ITEMS = 3

WORKERS = st.sampled_from(["a", "b"])

REPLIES = st.sampled_from(["fine", "lost", "409"])


class OneLease:
    """A lease of the job's only chunk."""

    round: int = 0
    job_sha256: str | None = None
    round_sha256: str | None = None

    def __init__(self, job: str, delivery: int) -> None:
        self.job, self.delivery, self.id = job, delivery, f"a{delivery}-{delivery:012x}"
        self.backend: dict[str, Any] = {}

    def chunk(self, round_: Round) -> int:
        return 0

    def extend(self) -> None: ...

    def progressed(self) -> None: ...

    def ack(self) -> None: ...

    def release(self) -> None: ...

    def abandon(self) -> None: ...


def submit_at_once(pool: ThreadPoolExecutor, do: Callable[..., Any], *args: Any) -> Future[Any]:
    """`ThreadPoolExecutor.submit` without a thread: to start one takes longer than a request to memory."""
    future: Future[Any] = Future()
    try:
        future.set_result(do(*args))
    except Exception as error:
        future.set_exception(error)
    return future


class Died(BaseException):
    """The worker dies between its marker and the record."""


class TwoWorkers(RuleBasedStateMachine):
    """The chunk, what its workers did, and what must hold after every step."""

    def __init__(self) -> None:
        super().__init__()
        self.reply = "fine"
        self.put = obstore.put
        self.patches = [
            patch.object(store_module, "_PAUSES", (0.0,) * 3),
            patch.object(obstore, "put", self.answer),
            patch.object(ThreadPoolExecutor, "submit", submit_at_once),
        ]
        for one in self.patches:
            one.start()
        self.at_work: dict[str, ChunkRun] = {}
        self.leases = self.deaths = self.drains = 0
        self.first: bytes | None = None
        self.saved: set[tuple[int, str | None]] = set()
        """Items and outputs of all progress that was ever there."""
        self.disputed = self.written = False
        self.cut_off: Counter[int] = Counter()
        """By item: attempts that ended while it was in flight."""

    def teardown(self) -> None:
        for one in self.patches:
            one.stop()

    def answer(self, store: Any, name: str, data: Any, **more: Any) -> Any:
        """A write of a record: its reply may be lost, or a 409 come instead."""
        self.written = True
        reply, self.reply = (self.reply, "fine") if "/done/" in name else ("fine", self.reply)
        if reply == "409":
            raise AlreadyExistsError("409 ConditionalRequestConflict")
        result = self.put(store, name, data, **more)
        if reply == "lost":
            raise AlreadyExistsError("a repeated request met its own object")
        return result

    @initialize()
    def submit(self) -> None:
        self.store = Store.open("memory://")
        spec = build_spec(name="t", queue="q", command=["p"], chunk_size=ITEMS, items_total=ITEMS, chunks_total=1)
        write_manifest(self.store, spec.job, [f"u{n}" for n in range(ITEMS)], ITEMS)
        self.ledger = Ledger(self.store, spec.job)
        write_spec(self.ledger, spec)
        write_round(self.ledger, Round(round=0, arrays=[RoundArray(name="x", count=1)]))

    # ---- what workers do ----------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.at_work) < 2)
    @rule(worker=WORKERS, slots=st.integers(1, 2))
    def lease(self, worker: str, slots: int) -> None:
        if worker in self.at_work:
            return
        self.leases += 1
        lease = OneLease(self.ledger.job, self.leases)
        chunk = ChunkRun(LeasedJob(self.store, lease), lease)
        chunk.open(slots)
        assert chunk.settled == (self.first is not None), "what is done is acknowledged, what is not is run"
        if chunk.settled:
            self.disputed = False
        else:
            self.at_work[worker] = chunk

    @precondition(lambda self: self.at_work)
    @rule(worker=WORKERS)
    def start(self, worker: str) -> None:
        chunk = self.at_work.get(worker)
        if chunk and chunk.pending:
            chunk.take()

    @precondition(lambda self: self.at_work)
    @rule(worker=WORKERS, status=st.sampled_from(["succeeded", "succeeded", "failed"]), last=st.booleans())
    def finish(self, worker: str, status: Literal["succeeded", "failed"], last: bool) -> None:
        chunk = self.at_work.get(worker)
        if chunk and chunk.in_flight:
            item, attempt = sorted(chunk.in_flight)[-1 if last else 0], chunk.lease.id
            output = f"memory:///out/{item}/{attempt}.1/"
            chunk.finished(Outcome(index=item, uri=f"u{item}", status=status, attempts=1, output=output))

    @precondition(lambda self: self.at_work)
    @rule(worker=WORKERS, status=st.sampled_from(["succeeded", "failed"]))
    def finish_the_rest(self, worker: str, status: Literal["succeeded", "failed"]) -> None:
        while (chunk := self.at_work.get(worker)) and not chunk.complete:
            self.start(worker)
            self.finish(worker, status, False)

    @precondition(lambda self: self.at_work)
    @rule(worker=WORKERS)
    def save(self, worker: str) -> None:
        if worker in self.at_work:
            for observer in self.at_work[worker].observers:
                observer.due_at = 0.0
            self.at_work[worker].tick()

    @precondition(lambda self: self.at_work)
    @rule(worker=WORKERS, drains=st.booleans())
    def end(self, worker: str, drains: bool) -> None:
        chunk = self.at_work.pop(worker, None)
        if chunk and drains:
            self.cut_off.update(chunk.in_flight)
            chunk.end("drained")
            self.drains += 1
            self.written = True
        elif chunk:
            self.deaths += 1

    @precondition(lambda self: any(chunk.complete for chunk in self.at_work.values()))
    @rule(reply=REPLIES, end=st.sampled_from(["well", "well", "dies"]))
    def commit(self, reply: str, end: str) -> None:
        worker = next(name for name, chunk in self.at_work.items() if chunk.complete)
        chunk = self.at_work.pop(worker)
        self.reply = reply
        if end == "dies":
            with patch.object(Store, "create", side_effect=Died), pytest.raises(Died):
                chunk.commit()
            self.deaths += 1
            self.disputed = True
            return
        won = chunk.commit().won
        assert won == (self.first is None), "the first wins, and everybody knows who it was"
        # The first attempt, when nothing failed in it, knows of no other marker and writes none. Who comes later does.
        alone = not chunk.history.attempts and not any(o.status == "failed" for o in chunk._outcomes.values())
        self.disputed = self.disputed and won and alone

    # ---- what holds ---------------------------------------------------------------------------------------------

    @invariant()
    def a_record_never_changes(self) -> None:
        if self.leases:
            data = self.store.find(f"jobs/{self.ledger.job}/r0/done/0/0.jsonl")
            assert self.first is None or data == self.first
            self.first = data

    @invariant()
    def every_item_has_one_outcome_of_the_winner_or_of_progress_that_it_took_over(self) -> None:
        if self.leases and self.written:
            # A worker that was overtaken may save its own outcome of the same item later.
            progress = self.ledger.chunk(0, 0).progress().values()
            self.saved |= {(outcome.index, outcome.output) for outcome in progress}
        if self.first is None:
            return
        record = Record.decode(self.first)
        assert [outcome.index for outcome in record.outcomes] == list(range(ITEMS))
        for outcome in record.outcomes:
            if outcome.output and f"/{record.header.attempt}." not in outcome.output:
                assert (outcome.index, outcome.output) in self.saved

    @invariant()
    def nobody_is_blamed_for_what_did_not_happen(self) -> None:
        if self.first is None:
            return
        for outcome in Record.decode(self.first).outcomes:
            if outcome.reason == "poison":
                assert self.deaths >= POISON_ATTEMPTS, "drains are no deaths"
            assert outcome.reclaims <= self.cut_off[outcome.index]

    @invariant()
    def status_adds_up(self) -> None:
        if not (self.leases and self.written):
            return
        self.written = False
        counts = self.ledger.counts()
        assert counts.reclaims == self.drains
        assert counts.succeeded + counts.failed + counts.remaining == ITEMS
        assert counts.finished == (self.first is not None)
        if self.first is not None and not self.disputed:
            outcomes = Record.decode(self.first).outcomes
            assert counts.failed == sum(outcome.status == "failed" for outcome in outcomes)
