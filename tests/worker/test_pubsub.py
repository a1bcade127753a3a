"""Workers on Compute Engine that serve a subscription, as processes. Metadata and Pub/Sub are loopback servers of the
tests' (`gce.py`): what Google's answer beyond the fields that they have is not proved here."""

from __future__ import annotations

import hashlib
import json
import signal
import time

import pytest

from tests.worker.containers import alive, kill, ran, sh, until
from tidemill import layout
from tidemill.descriptor import WorkerExit

SMALL = {"cpus": 0.5, "memory_mib": 64}
"""At least two of such items run side by side on any machine that runs tests."""


def waits(team) -> list[str]:
    """A program that leaves its process id and ends when there is a gate."""
    return sh(f"echo $$ > {team.root}/pid; until test -e {team.root}/gate; do sleep 0.05; done")


def pid_of(team) -> int:
    """The process id of such a program, when it runs."""
    return int(until(lambda: (file := team.root / "pid").exists() and file.read_text().strip(), "the program"))


def attempts(job) -> int:
    folder = layout.attempts(layout.ChunkKey(job.spec.job, 0, 0))
    return len({layout.attempt_of(name) for name in job.ledger.store.list(folder)})


class TestWork:
    def test_chunks_are_acknowledged_after_their_records_and_the_idle_worker_leaves(self, team, gce):
        job = team.job(["a", "b", "c", "d", "e"], sh("test {index} -ne 3"), chunk_size=2, resources=SMALL)
        messages = [gce.publish(job, chunk) for chunk in range(3)]
        ended = gce.run()
        assert ended.code == WorkerExit.DONE
        assert [(m.acked, m.done_at_ack, m.deliveries, m.nacks) for m in messages] == [(True, True, 1, 0)] * 3
        assert [o.status for o in job.outcomes()] == ["succeeded"] * 3 + ["failed", "succeeded"]
        # One empty pull does not mean idleness.
        assert gce.empty_pulls >= 3
        assert ended.messages(level="error") == []

    def test_a_worker_says_that_it_is_alive_until_it_is_frozen(self, team, gce):
        gce.publish(team.job(["a"], waits(team)))
        file = team.root / "store/fleet/alive/cpu-spot-x1"
        process = gce.start(TIDEMILL_ALIVE_SECONDS="0.2")
        try:
            first = until(lambda: file.exists() and file.stat().st_mtime_ns, "a sign of life")
            pid_of(team)
            until(lambda: file.stat().st_mtime_ns > first, "one beside work")
            process.send_signal(signal.SIGSTOP)
            silent = until(lambda: time.time_ns() - (at := file.stat().st_mtime_ns) > 10**9 and at, "silence")
            process.send_signal(signal.SIGCONT)
            until(lambda: file.stat().st_mtime_ns > silent, "the next one")
        finally:
            process.kill()
            process.wait(60)

    def test_a_chunk_that_is_acknowledged_first_is_noticed(self, team, gce):
        job = team.job(["a"], ["true"])
        message = gce.publish(job)
        gce.run("tests.mutants.ack_first")
        assert (message.acked, message.done_at_ack) == (True, False)

    def test_what_can_never_be_run_is_acknowledged_loudly(self, team, gce):
        bad, good = team.job(["a"], ["touch", str(team.root / "ran")]), team.job(["a"], ["true"])
        wrong = [
            gce.publish(bad, job_sha256="0" * 64),
            gce.publish(bad, round_sha256="0" * 64),
            gce.publish(bad, round="x"),
            gce.publish(bad, chunk="7"),
            gce.publish(bad, job=""),
            gce.publish(bad, job="nobody-00000000"),
            gce.publish(bad, job="../../x"),
        ]
        right = gce.publish(good)
        ended = gce.run()
        assert ended.code == WorkerExit.DONE
        assert all(message.acked for message in [*wrong, right])
        assert [message.deliveries for message in wrong] == [1] * len(wrong)
        assert len(ended.messages(level="error")) == len(wrong)
        assert [o.status for o in good.outcomes()] == ["succeeded"]
        assert not (team.root / "ran").exists()

    def test_what_a_newer_worker_may_read_is_given_back(self, team, gce):
        job = team.job(["a"], ["true"])
        path = team.root / f"store/jobs/{job.spec.job}/job.json"
        path.write_text(path.read_text().replace('"spec_version":1', '"spec_version":9'))
        message = gce.publish(job, job_sha256=hashlib.sha256(path.read_bytes()).hexdigest())
        worker = gce.start(TIDEMILL_IDLE_SECONDS="60")
        until(lambda: message.nacks >= 2, "two returns")
        worker.send_signal(signal.SIGTERM)
        ended = ran(worker)
        assert not message.acked
        assert "newer Tidemill" in ended.messages(level="error")[0]


class TestLeases:
    def test_a_lease_lost_after_an_hour(self, team, gce):
        """python-pubsub 593: its client lets go of a message after an hour."""
        job = team.job(["a"], waits(team))
        message = gce.publish(job)
        worker = gce.start()
        pid_of(team)
        while gce.now < 3 * 3600:
            seen = message.extended
            until(lambda seen=seen: message.extended > seen, "an extension")
            gce.pass_time(500)
        (team.root / "gate").touch()
        assert ran(worker).code == WorkerExit.DONE
        assert (message.deliveries, message.acked) == (1, True)
        assert attempts(job) == 1

    def test_without_extensions_the_chunk_goes_to_another(self, team, gce):
        job = team.job(["a"], waits(team), resources={"cpus": 64})
        message = gce.publish(job)
        gce.start("tests.mutants.lease_not_extended")
        pid_of(team)
        gce.pass_time(600)
        gce.start("tests.mutants.lease_not_extended")
        until(lambda: attempts(job) == 2, "the second attempt")
        assert message.deliveries == 2

    def test_a_chunk_that_is_delivered_twice_has_one_record(self, team, gce):
        job = team.job(["a"], waits(team), resources={"cpus": 64})
        message = gce.publish(job)
        first = gce.start()
        pid_of(team)
        gce.deliver_twice(message)
        second = gce.start()
        until(lambda: attempts(job) == 2, "the second attempt")
        (team.root / "gate").touch()
        ended = [ran(first), ran(second)]
        assert [worker.code for worker in ended] == [WorkerExit.DONE] * 2
        assert sum(len(worker.messages(message="chunk committed")) for worker in ended) == 1
        assert message.acked
        assert [o.attempts for o in job.outcomes()] == [1]
        # The first was alive all the time, so its item is not taken for poison.
        assert not job.ledger.chunk(0, 0).history().deaths

    def test_a_chunk_that_is_delivered_twice_to_one_worker_is_run_once(self, team, gce):
        job = team.job(["a"], waits(team), resources=SMALL)
        message = gce.publish(job)
        worker = gce.start()
        pid_of(team)
        gce.deliver_twice(message)
        until(lambda: message.extended and message.deliveries == 2, "the second delivery")
        (team.root / "gate").touch()
        ended = ran(worker)
        assert (ended.code, message.acked, attempts(job)) == (WorkerExit.DONE, True, 1)
        assert len(ended.messages(message="chunk committed")) == 1


class TestEnds:
    @pytest.mark.parametrize("how", ["notice", "signal"])
    def test_a_drain_gives_the_chunk_back_at_once(self, team, gce, how):
        job = team.job(["a"], waits(team))
        message = gce.publish(job)
        worker = gce.start(TIDEMILL_IDLE_SECONDS="60")
        pid = pid_of(team)
        if how == "notice":
            gce.change(preempted=True)
        else:
            worker.send_signal(signal.SIGTERM)
        assert ran(worker).code == WorkerExit.RECLAIMED
        assert (message.nacks, message.acked) == (1, False)
        assert not alive(pid)
        gce.change(preempted=False)
        (team.root / "gate").touch()
        assert gce.run().code == WorkerExit.DONE
        assert (message.deliveries, message.done_at_ack) == (2, True)
        assert [(o.attempts, o.reclaims) for o in job.outcomes()] == [(1, 1)]

    def test_without_the_return_a_drained_chunk_waits_for_its_lease_to_run_out(self, team, gce):
        message = gce.publish(team.job(["a"], waits(team)))
        worker = gce.start("tests.mutants.nothing_returned", TIDEMILL_IDLE_SECONDS="60")
        pid_of(team)
        until(lambda: message.extended, "an extension")
        worker.send_signal(signal.SIGTERM)
        assert ran(worker).code == WorkerExit.RECLAIMED
        assert (message.nacks, message.acked) == (0, False)
        assert message.until > gce.now

    def test_a_machine_that_is_being_taken_back_leases_nothing(self, team, gce):
        gce.change(preempted=True)
        message = gce.publish(team.job(["a"], ["true"]))
        assert gce.run().code == WorkerExit.RECLAIMED
        assert (message.deliveries, gce.pulls) == (0, 0)

    def test_a_killed_workers_chunk_comes_again_when_its_lease_has_run_out(self, team, gce):
        job = team.job(["a"], waits(team))
        message = gce.publish(job)
        worker = gce.start()
        pid = pid_of(team)
        kill(worker, pid)
        (team.root / "gate").touch()
        gce.pass_time(601)
        assert gce.run().code == WorkerExit.DONE
        assert (message.deliveries, message.done_at_ack) == (2, True)
        assert [o.status for o in job.outcomes()] == ["succeeded"]

    def test_a_cancelled_job_ends_alone(self, team, gce):
        cancelled = team.job(
            ["a", "b"],
            sh(f"echo $$ > {team.root}/cancelled; until test -e {team.root}/gate; do sleep 0.05; done"),
            1,
            resources=SMALL,
        )
        other = team.job(["a"], waits(team), resources=SMALL)
        messages = [gce.publish(cancelled), gce.publish(other)]
        worker = gce.start()
        pid_of(team)
        victim = int(until(lambda: (f := team.root / "cancelled").exists() and f.read_text().strip(), "the other"))
        cancelled.ledger.cancel()
        until(lambda: messages[0].acked, "the acknowledgement")
        assert not alive(victim)
        assert worker.poll() is None
        # What of it is still queued is acknowledged too, and not run.
        late = gce.publish(cancelled, 1)
        until(lambda: late.acked, "the second acknowledgement")
        (team.root / "gate").touch()
        assert ran(worker).code == WorkerExit.DONE
        assert (messages[1].deliveries, messages[1].done_at_ack) == (1, True)
        assert [o.status for o in other.outcomes()] == ["succeeded"]
        assert cancelled.outcomes() == []
        assert not cancelled.ledger.chunk(0, 0).history().careful

    @pytest.mark.parametrize(
        ("answer", "named"),
        [((403, "User not authorized to perform this action."), "not authorized"), ((404, "not found"), "404")],
    )
    def test_a_subscription_that_cannot_be_used_is_an_error(self, team, gce, answer, named):
        gce.change(refuses=answer)
        ended = gce.run(TIDEMILL_IDLE_SECONDS="60")
        assert ended.code == WorkerExit.STOPPED
        said = ended.messages(level="error")
        assert len(said) == 1
        assert named in said[0]
        assert "projects/p-1/subscriptions/cpu" in said[0]


class TestLog:
    def test_lines_become_entries(self, team, gce):
        gce.failures["write"] = 1
        job = team.job(["a", "b"], sh("echo out {index}; echo err {index} >&2; exit {index}"), resources=SMALL)
        gce.publish(job)
        ended = gce.run(TIDEMILL_LOG="projects/p-1/logs/tidemill", TIDEMILL_QUEUE="cpu")
        assert ended.code == WorkerExit.DONE
        # What was written twice is one entry; and what stdout has, the log has.
        assert [entry["jsonPayload"] for entry in gce.entries] == ended.lines
        labels = {"project_id": "p-1", "location": "us-central1-b", "namespace": "cpu", "node_id": "cpu-spot-x1"}
        assert {json.dumps(entry["resource"]) for entry in gce.entries} == {
            json.dumps({"type": "generic_node", "labels": labels})
        }
        said = [e["jsonPayload"] for e in gce.entries if e["jsonPayload"].get("item") == 1]
        assert {"out 1", "err 1"} <= {line["message"] for line in said}
        assert {entry["log"] for entry in gce.entries} == {"projects/p-1/logs/tidemill"}
        failed = next(e for e in gce.entries if e["jsonPayload"].get("event") == "item")
        assert failed["severity"] == "WARNING"
