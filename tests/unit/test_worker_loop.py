"""The loop with programs that are not there: what its threads may do in any order. No process is started."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tidemill.descriptor import WorkerExit
from tidemill.job import build_spec
from tidemill.ledger import Ledger, Outcome, Round, RoundArray, names
from tidemill.ledger.attempts import read_past
from tidemill.manifest import write_manifest
from tidemill.store import Store
from tidemill.worker.leases.array import ArrayLeases
from tidemill.worker.loop import Worker
from tidemill.worker.run_item import Task
from tidemill.worker.scratch import Scratch
from tidemill.worker.slots import Slot
from tidemill.worker.stop import Stop, Why


class Interrupted:
    """Runs nothing: the worker is stopped while the item runs, and the program is gone at once."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop

    def run(self, tasks: Sequence[Task], slot: Slot, done: Callable[[Outcome], None]) -> None:
        slot.current = tasks[0].item.index
        self._stop(Why.NOTICE)

    def close(self, slot: Slot) -> None:
        pass


class Late(Worker):
    """A loop that looks only when its slots have ended: its thread got no time."""

    def _finish(self) -> None:
        assert self._pool
        self._pool.shutdown(wait=True)
        super()._finish()


class LateHand(Late):
    """The same, and the news of the slot's end was taken in before the stop was seen."""

    def _handle(self, seconds: float) -> None:
        assert self._pool
        self._pool.shutdown(wait=True)
        super()._handle(seconds)


@pytest.mark.parametrize("loop", [Worker, Late, LateHand])
def test_a_reclaim_is_counted_however_fast_the_program_ends(loop: type[Worker], tmp_path: Path):
    store = Store.open("memory://")
    spec = build_spec(name="t", queue="q", command=["true"], chunk_size=2, items_total=2, chunks_total=1, attempts=1)
    write_manifest(store, spec.job, ["a", "b"], 2)
    ledger = Ledger(store, spec.job)
    env: dict[str, Any] = {
        "TIDEMILL_JOB": spec.job,
        "TIDEMILL_ROUND": "0",
        "TIDEMILL_ARRAY": "0",
        "TIDEMILL_JOB_SHA256": ledger.write_spec(spec),
        "TIDEMILL_ROUND_SHA256": ledger.write_round(
            Round(round=0, arrays=[RoundArray(name="a", first=0, count=1)]),
        ),
        "AWS_BATCH_JOB_ID": "11111111-aaaa",
    }
    stop = Stop()
    scratch = Scratch(tmp_path, "w", None)
    runners: Any = Interrupted(stop)
    try:
        worker = loop(store, ArrayLeases(env), runners, scratch=scratch, stop=stop, base_env={})
        assert worker.run() is WorkerExit.RECLAIMED
    finally:
        scratch.close()
    past = read_past(store, names.Place(spec.job, 0, 0))
    assert (dict(past.reclaims), dict(past.deaths)) == ({0: 1}, {})
