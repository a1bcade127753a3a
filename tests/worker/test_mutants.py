"""With a safeguard of the worker or the ledger removed, the figure that it guards changes. That a cloud kills and takes
away in this way is not shown here."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.mutants import no_read_back
from tests.unit.ledger.two_workers import TwoWorkers
from tests.worker.containers import kill, ran, until
from tidemill.descriptor import WorkerExit
from tidemill.ledger import ChunkLedger, MarkerWriter
from tidemill.store import Store

SOUND = "tidemill.worker"
ROOT = Path(__file__).parents[2]


def deaths_of(team, module: str, at_most: int) -> int:
    """How many workers an item kills until its chunk is done, at most `at_most`."""
    pid_file = team.root / "pid"
    job = team.job(["a", "b"], ["sh", "-c", f"test {{index}} = 0 || {{ echo $$ > {pid_file}; exec sleep 60; }}"])
    for death in range(at_most):
        worker = job.start(delivery=death + 1, module=module)
        until(lambda worker=worker: pid_file.exists() or worker.poll() is not None, "the item or the end")
        if not pid_file.exists():
            assert ran(worker).code == WorkerExit.DONE
            return death
        pid = int(until(pid_file.read_text, "the program"))
        kill(worker, pid)
        pid_file.unlink()
    return at_most


def test_without_poison_counting_it_kills_every_worker(team):
    assert deaths_of(team, "tests.mutants.poison_off", 8) == 8


def reclaimed(team, module: str, times: int) -> tuple[int, str]:
    """Reclaim a chunk several times, then let it run. Returns the counted reclaims and the outcome of its item."""
    running, gate = team.root / "running", team.root / "gate"
    job = team.job(["a"], ["sh", "-c", f"touch {running}; test -e {gate} || exec sleep 60"])
    for delivery in range(1, times + 1):
        worker = job.start(delivery=delivery, module=module)
        until(lambda worker=worker: running.exists() or worker.poll() is not None, "the item or the end")
        worker.send_signal(signal.SIGTERM)
        ran(worker)
        running.unlink(missing_ok=True)
    gate.touch()
    assert ran(job.start(delivery=times + 1, module=module)).code == WorkerExit.DONE
    outcome = job.outcomes()[0]
    return job.ledger.counts().reclaims, outcome.reason or outcome.status


def test_reclaims_are_counted_and_fail_no_item(team):
    assert reclaimed(team, SOUND, 4) == (4, "succeeded")


def test_without_the_drain_marker_a_reclaimed_item_passes_for_poison(team):
    assert reclaimed(team, "tests.mutants.no_drain_marker", 4) == (0, "poison")


def runs_after_a_kill(team, module: str) -> list[str]:
    """Which items run, and how often, when a worker is killed after three of five."""
    running, log, gate = team.root / "running", team.root / "log", team.root / "gate"
    block = f"test {{index}} -ne 3 || test -e {gate} || {{ echo $$ > {running}; exec sleep 60; }}"
    job = team.job([str(n) for n in range(5)], ["sh", "-c", f"echo {{index}} >> {log}; {block}"])
    worker = job.start(delivery=1, module=module)
    until(lambda: sorted(job.ledger.chunk(0, 0).progress()) == [0, 1, 2], "progress")
    pid = int(until(lambda: running.exists() and running.read_text(), "the fourth item"))
    kill(worker, pid)
    gate.touch()
    assert ran(job.start(delivery=2, module=module)).code == WorkerExit.DONE
    return log.read_text().split()


def test_what_is_finished_runs_once(team):
    assert runs_after_a_kill(team, SOUND) == ["0", "1", "2", "3", "3", "4"]


def test_without_progress_it_runs_again(team):
    assert runs_after_a_kill(team, "tests.mutants.progress_ignored") == ["0", "1", "2", "3", "0", "1", "2", "3", "4"]


# ---- the property test can fail ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("owner", "name", "broken"),
    [
        (Store, "_read_back", no_read_back.believe),
        (ChunkLedger, "derive_marker", lambda self, record: None),
        (MarkerWriter, "drained", lambda self, *_: None),
    ],
    ids=["read-back", "failed markers", "drain markers"],
)
def test_the_ledgers_property_test_finds_what_is_broken(monkeypatch, owner, name, broken):
    monkeypatch.setattr(owner, name, broken)
    few = settings(TwoWorkers.TestCase.settings, phases=[Phase.generate], print_blob=False)
    with pytest.raises((AssertionError, KeyError)):
        run_state_machine_as_test(TwoWorkers, settings=few)
