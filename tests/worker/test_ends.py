"""How workers end: reclaims, kills, cancels, duplicates, broken stores. The two minutes of a real notice are a moment
here, and nothing reads the exit code."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.stored import failed_chunks
from tests.worker.containers import alive, end_process, kill, ran, sh, until
from tidemill import layout
from tidemill.descriptor import WorkerExit


def drained(job) -> list[str]:
    return list(job.ledger.store.list(layout.of_round(job.spec.job, 0, "drained")))


class TestReclaim:
    def test_a_notice_drains_and_the_next_worker_goes_on(self, team, machine):
        gate, log = team.root / "gate", team.root / "log"
        job = team.job(
            ["a", "b", "c"],
            sh(f"echo {{index}} >> {log}; test {{index}} = 0 || until test -e {gate}; do sleep 0.05; done"),
        )
        worker = job.start(**machine.environment)
        until(lambda: log.exists() and "1" in log.read_text(), "the second item")
        machine.give_notice()
        ended = ran(worker)
        assert ended.code == WorkerExit.RECLAIMED
        assert job.ledger.done_chunks(0) == set()
        [marker] = drained(job)
        told = json.loads(job.ledger.store.get(marker))
        assert told["machine"].keys() == {"id", "type", "zone", "market"}
        assert 0 < told["lost"] <= told["held"]
        assert sorted(job.ledger.chunk(0, 0).progress()) == [0]

        gate.touch()
        assert job.run(delivery=2).code == WorkerExit.DONE
        outcomes = job.outcomes()
        assert [o.status for o in outcomes] == ["succeeded"] * 3
        assert [o.reclaims for o in outcomes] == [0, 1, 0]
        assert [o.attempts for o in outcomes] == [1, 1, 1]
        assert log.read_text().split() == ["0", "1", "1", "2"]
        assert job.ledger.counts().reclaims == 1

    def test_programs_are_told_and_then_ended(self, team, machine):
        log = team.root / "log"
        job = team.job(
            ["a"], sh(f"trap 'echo told >> {log}; exit 0' TERM; echo up >> {log}; while :; do sleep 0.05; done")
        )
        worker = job.start(**machine.environment)
        until(log.exists, "the program")
        machine.give_notice()
        assert ran(worker).code == WorkerExit.RECLAIMED
        assert log.read_text().split() == ["up", "told"]
        # It exited with 0 after SIGTERM; this is not a success.
        assert job.ledger.chunk(0, 0).progress() == {}

    def test_the_worker_stays_until_the_host_is_not_placeable(self, team, machine):
        job = team.job(["a"], ["sleep", "60"])
        worker = job.start(**{**machine.environment, "TIDEMILL_DRAIN_SECONDS": "120"})
        until(lambda: list(team.scratch.glob("workers/*/slot-*/work")), "the item")
        machine.give_notice()
        until(lambda: drained(job), "the drain")
        with pytest.raises(Exception, match="timed out"):
            worker.wait(timeout=1.5)
        worker.send_signal(signal.SIGTERM)
        assert ran(worker).code == WorkerExit.RECLAIMED

    def test_on_a_doomed_machine_nothing_is_leased(self, team, machine):
        machine.give_notice()
        job = team.job(["a"], ["true"])
        worker = job.start(**machine.environment)
        with pytest.raises(Exception, match="timed out"):
            worker.wait(timeout=2)
        worker.send_signal(signal.SIGTERM)
        assert ran(worker).code == WorkerExit.RECLAIMED
        assert list(job.ledger.store.list(layout.of_round(job.spec.job, 0, "attempts"))) == []

    def test_what_is_done_is_written_before_the_programs_have_ended(self, team, machine):
        running = team.root / "running"
        stubborn = f"trap '' TERM; echo $$ > {running}; while :; do sleep 0.1; done"
        job = team.job(["a", "b"], sh(f"test {{index}} = 0 || {{ {stubborn}; }}"))
        worker = job.start(**machine.environment)
        pid = int(until(lambda: running.exists() and running.read_text().strip(), "the second item"))
        try:
            machine.give_notice()
            until(lambda: drained(job) and job.ledger.chunk(0, 0).progress(), "marker and progress", seconds=9)
            assert worker.poll() is None
            assert alive(pid)
        finally:
            worker.kill()
            end_process(pid)


class TestDeath:
    def kill(self, job, worker, running: Path) -> None:
        pid = int(until(lambda: running.exists() and running.read_text().strip(), "the program"))
        kill(worker, pid)
        running.unlink()

    def item_or_end(self, worker, running: Path) -> bool:
        """Wait for the item to run or the worker to end. Returns whether it runs."""
        until(lambda: running.exists() or worker.poll() is not None, "the item or the end")
        return worker.poll() is None

    def test_a_killed_workers_chunk_is_run_again(self, team):
        running, gate = team.root / "running", team.root / "gate"
        job = team.job(
            ["a", "b"],
            sh(f"test -e {gate} || {{ echo $$ > {running}; exec sleep 60; }}; echo {{index}} > {{output}}/i"),
        )
        self.kill(job, job.start(), running)
        assert list((team.scratch / "workers").iterdir())
        gate.touch()
        assert job.run(delivery=2).code == WorkerExit.DONE
        assert [(o.status, o.attempts) for o in job.outcomes()] == [("succeeded", 1)] * 2
        assert [job.outputs(o) for o in job.outcomes()] == [{"i": b"0\n"}, {"i": b"1\n"}]
        # The dead worker's folder is gone too.
        assert list((team.scratch / "workers").iterdir()) == []

    def test_an_item_that_kills_its_workers_is_poison_and_its_chunk_goes_on(self, team):
        running = team.root / "running"
        job = team.job(["a", "b", "c", "d"], sh(f"test {{index}} -ne 2 || {{ echo $$ > {running}; exec sleep 60; }}"))
        deaths, worker = 0, job.start()
        while self.item_or_end(worker, running):
            self.kill(job, worker, running)
            deaths += 1
            worker = job.start(delivery=deaths + 1)
        assert ran(worker).code == WorkerExit.DONE
        assert deaths in (3, 4)
        outcomes = job.outcomes()
        assert [o.status for o in outcomes] == ["succeeded", "succeeded", "failed", "succeeded"]
        assert outcomes[2].reason == "poison"
        assert failed_chunks(job.ledger, 0) == {0: 1}

    def test_the_neighbour_of_an_item_that_kills_its_workers_is_not_blamed_with_it(self, team):
        running = team.root / "running"
        killer = f"2) echo $$ > {running}; exec sleep 60"
        neighbour = f"3) sleep 0.3; while [ -e {running} ]; do sleep 0.05; done"
        job = team.job(["a", "b", "c", "d", "e"], sh(f"case {{index}} in {killer} ;; {neighbour} ;; esac"), slots=2)
        deaths, worker = 0, job.start()
        while self.item_or_end(worker, running):
            # The neighbour is in flight by now, if it may be.
            until(lambda deaths=deaths: job.ledger.chunk(0, 0).history().attempts == deaths + 1, "the marker")
            self.kill(job, worker, running)
            deaths += 1
            worker = job.start(delivery=deaths + 1)
        assert ran(worker).code == WorkerExit.DONE
        assert [o.reason for o in job.outcomes()] == [None, None, "poison", None, None]


class TestTwice:
    def test_a_chunk_that_is_done_is_acknowledged(self, team):
        log = team.root / "log"
        job = team.job(["a"], sh(f"echo ran >> {log}"))
        assert job.run().code == WorkerExit.DONE
        assert job.run(delivery=2).code == WorkerExit.DONE
        assert log.read_text().split() == ["ran"]

    def test_two_workers_on_one_chunk_make_one_record(self, team):
        gate, up = team.root / "gate", team.root / "up"
        waits = f"echo $$ >> {up}; until test -e {gate}; do sleep 0.05; done"
        job = team.job(["a", "b"], sh(f"{waits}; echo $$ > {{output}}/pid; test {{index}} -eq 0"))
        workers = [job.start(), job.start(delivery=2)]
        until(lambda: up.exists() and len(up.read_text().split()) == 2, "the first item of both")
        gate.touch()
        ended = [ran(worker) for worker in workers]
        assert [worker.code for worker in ended] == [WorkerExit.DONE] * 2
        won = [len(worker.messages(message="chunk committed")) for worker in ended]
        assert sorted(won) == [0, 1]
        assert [len(worker.messages(event="start")) for worker in ended] == [1, 1]
        outcomes = job.outcomes()
        assert [o.index for o in outcomes] == [0, 1]
        assert (outcomes[0].output or "").split("/")[-2].startswith(f"a{won.index(1) + 1}-")
        assert failed_chunks(job.ledger, 0) == {0: 1}


class TestStopped:
    def test_a_cancelled_job_is_not_run(self, team):
        log = team.root / "log"
        job = team.job(["a"], sh(f"echo ran >> {log}"))
        job.ledger.cancel()
        assert job.run().code == WorkerExit.STOPPED
        assert not log.exists()

    def test_the_signal_that_follows_a_cancel_is_no_reclaim(self, team):
        job = team.job(["a"], ["sleep", "60"])
        worker = job.start()
        until(lambda: list(team.scratch.glob("workers/*/slot-*/work")), "the item")
        job.ledger.cancel()
        worker.send_signal(signal.SIGTERM)
        assert ran(worker).code == WorkerExit.STOPPED
        assert drained(job) == []
        assert not job.ledger.chunk(0, 0).history().careful

    @pytest.mark.parametrize(
        "change",
        [
            {"TIDEMILL_JOB_SHA256": "0" * 64},
            {"TIDEMILL_ROUND_SHA256": "0" * 64},
            {"TIDEMILL_ARRAY": "7"},
            {"TIDEMILL_STORE": "ftp://x"},
        ],
        ids=lambda change: next(iter(change)),
    )
    def test_what_was_not_enqueued_so_is_not_run(self, team, change):
        job = team.job(["a"], ["touch", str(team.root / "ran")])
        ended = job.run(**change)
        assert ended.code == WorkerExit.STOPPED
        assert len(ended.messages(level="error")) == 1
        assert not (team.root / "ran").exists()

    def test_a_spec_of_a_newer_tidemill_is_not_run(self, team):
        job = team.job(["a"], ["true"])
        path = team.root / f"store/jobs/{job.spec.job}/job.json"
        path.write_text(path.read_text().replace('"spec_version":1', '"spec_version":9'))
        ended = job.run(TIDEMILL_JOB_SHA256="")
        assert ended.code == WorkerExit.STOPPED
        assert "newer Tidemill" in ended.messages(level="error")[0]


def test_a_store_that_takes_no_record_is_never_acknowledged(team):
    job = team.job(["a"], ["true"])
    done = team.root / f"store/jobs/{job.spec.job}/r0/done"
    done.parent.mkdir(parents=True, exist_ok=True)
    done.write_text("a file where a folder has to be")
    ended = job.run()
    assert ended.code == WorkerExit.STORE_UNAVAILABLE
    assert ended.messages(level="error")
