"""Outcomes of items: programs of any kind, their data, limits and logs. Processes are real; the machine, its
container limits and its cloud are not part of this."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.worker.containers import alive, sh, until
from tidemill.descriptor import WorkerExit


@pytest.fixture
def files(tmp_path):
    folder = tmp_path / "in put"
    folder.mkdir()
    paths = []
    for n in range(7):
        path = folder / f"f {n}.txt"
        path.write_text(f"text {n}")
        paths.append(path)
    return paths


class TestData:
    def test_a_file_in_and_a_file_out(self, team, files):
        items = [str(files[0]), f"file://{str(files[1]).replace(' ', '%20')}", *map(str, files[2:])]
        job = team.job(items, sh('tr a-z A-Z < "{input}" > "{output}/up.txt"'), slots=3)
        assert job.run().code == WorkerExit.DONE
        outcomes = job.outcomes()
        assert [o.index for o in outcomes] == list(range(7))
        assert all(o.status == "succeeded" and o.exit_code == 0 and o.attempts == 1 for o in outcomes)
        assert [job.outputs(o) for o in outcomes] == [{"up.txt": f"TEXT {n}".encode()} for n in range(7)]
        assert all(
            o.output and o.output.startswith(f"{team.store.uri}/out/{job.spec.job}/{o.index}/") for o in outcomes
        )

    @pytest.mark.parametrize("program", ['rm "{input}"', 'mv "{input}" x', 'echo n > x; mv x "{input}"', "true"])
    def test_what_a_program_does_with_the_name_of_its_input_leaves_the_file_alone(self, team, files, program):
        beside = 'test "$(cat "{input}")" = "text 0" && echo y > "{input}.xmp"'
        job = team.job([str(files[0])], sh(f"{beside} && {program}; exit 1"), attempts=2)
        job.run()
        assert files[0].read_text() == "text 0"
        assert not files[0].with_name("f 0.txt.xmp").exists()
        assert job.outcomes()[0].attempts == 2

    def test_folders_and_many_files_come_out(self, team):
        job = team.job(["x"], sh("mkdir -p {output}/a/b; for i in 1 2 3; do echo $i > {output}/a/b/$i; done"))
        job.run()
        assert sorted(job.outputs(job.outcomes()[0])) == ["a/b/1", "a/b/2", "a/b/3"]

    def test_without_files_there_is_no_output(self, team):
        job = team.job(["x"], ["true"])
        job.run()
        assert job.outcomes()[0].output is None

    def test_an_output_of_ones_own(self, team, tmp_path):
        job = team.job(["x"], sh("echo hi > {output}/hi"), output=f"file://{tmp_path}/elsewhere")
        job.run()
        assert (job.outcomes()[0].output or "").startswith(f"file://{tmp_path}/elsewhere/0/")
        assert job.outputs(job.outcomes()[0]) == {"hi": b"hi\n"}

    def test_a_failing_attempt_uploads_nothing(self, team):
        job = team.job(["x"], sh("echo half > {output}/half; exit 3"))
        job.run()
        assert not (team.root / "store/out").exists()
        assert job.outcomes()[0].output is None

    def test_a_program_that_writes_by_itself_is_told_where(self, team):
        job = team.job(["x"], sh('echo "{output_uri}" >&2; exit 1'))
        job.run()
        assert (job.outcomes()[0].error or "").startswith(f"{team.store.uri}/out/{job.spec.job}/0/a1-")


class TestEnvironment:
    def test_a_program_sees_its_container_and_its_item(self, team):
        job = team.job(["s3://b/k"], sh("env -0 > {output}/env; pwd > {output}/pwd"), env={"MINE": "{index}"})
        job.run(TIDEMILL_CACHE=str(team.root))
        found = job.outputs(job.outcomes()[0])
        env = dict(pair.split("=", 1) for pair in found["env"].decode().rstrip("\0").split("\0"))
        ours = {name for name in env if name.startswith("TIDEMILL_")}
        assert ours == {
            "TIDEMILL_URI",
            "TIDEMILL_OUTPUT",
            "TIDEMILL_OUTPUT_URI",
            "TIDEMILL_INDEX",
            "TIDEMILL_PORT_BASE",
            "TIDEMILL_CACHE",
        }
        assert (env["TIDEMILL_URI"], env["TIDEMILL_INDEX"], env["MINE"]) == ("s3://b/k", "0", "{index}")
        assert env["FROM_THE_IMAGE"] == "yes"
        assert env["AWS_BATCH_JOB_ATTEMPT"] == "1"
        assert found["pwd"].decode().startswith(str(team.scratch))

    def test_slots_have_ports_of_their_own(self, team):
        job = team.job(["a", "b", "c", "d"], sh("echo $TIDEMILL_PORT_BASE > {output}/p; sleep 0.2"), slots=2)
        job.run()
        assert {job.outputs(o)["p"] for o in job.outcomes()} == {b"20000\n", b"20016\n"}

    def test_there_is_no_stdin_and_no_shell(self, team):
        job = team.job(["; touch /tmp/never"], ["sh", "-c", 'cat; test "$1" = "; touch /tmp/never"', "sh", "{uri}"])
        job.run()
        assert job.outcomes()[0].status == "succeeded"


class TestFailures:
    def test_an_item_fails_alone(self, team):
        job = team.job([str(n) for n in range(6)], sh("test {index} -ne 2 || { echo no >&2; exit 7; }"), attempts=2)
        assert job.run().code == WorkerExit.DONE
        outcomes = job.outcomes()
        assert [o.status for o in outcomes].count("failed") == 1
        failed = outcomes[2]
        assert (failed.reason, failed.exit_code, failed.attempts, failed.error) == ("exit", 7, 2, "no")
        assert job.ledger.counts().failed == 1

    def test_an_attempt_that_succeeds_later_is_a_success(self, team):
        mark = team.root / "mark"
        job = team.job(["x"], sh(f"test -e {mark} || {{ touch {mark}; exit 1; }}"), attempts=3)
        job.run()
        outcome = job.outcomes()[0]
        assert (outcome.status, outcome.attempts, outcome.reason, outcome.error) == ("succeeded", 2, None, None)

    def test_a_signal_is_named(self, team):
        job = team.job(["x"], sh("kill -SEGV $$"))
        job.run()
        outcome = job.outcomes()[0]
        assert (outcome.reason, outcome.exit_code, outcome.error) == ("signal", -signal.SIGSEGV, "killed by SIGSEGV")

    def test_an_item_that_no_argument_can_hold(self, team):
        job = team.job(["x" * 200_000, "ok"], ["true", "{uri}"])
        job.run()
        assert [(o.status, o.reason) for o in job.outcomes()] == [("failed", "input"), ("succeeded", None)]

    def test_code_that_cannot_start_stops_the_job(self, team):
        job = team.job([str(n) for n in range(50)], ["/no/such/program"], attempts=3)
        ran = job.run()
        assert ran.code == WorkerExit.STOPPED
        assert "/no/such/program did not start" in job.ledger.cancellation()["reason"]
        assert len(ran.messages(event="item", status="failed")) == 5
        assert job.run(delivery=2).code == WorkerExit.STOPPED

    def test_a_few_items_that_cannot_start_are_just_failed(self, team):
        job = team.job(["a", "b"], ["/no/such/program"], attempts=3)
        assert job.run().code == WorkerExit.DONE
        assert [(o.reason, o.attempts) for o in job.outcomes()] == [("start", 1), ("start", 1)]


class TestLimits:
    def test_an_item_past_its_time_limit_is_killed(self, team):
        pids = team.root / "pids"
        script = f"trap '' TERM; sleep 60 & echo $! > {pids}; wait; sleep 60"
        job = team.job(["x"], sh(script), timeout_seconds=3)
        # The program ignores SIGTERM: SIGKILL follows.
        job.run()
        outcome = job.outcomes()[0]
        assert outcome.reason == "timeout"
        assert 3 <= outcome.wall_seconds < 60
        assert "3 s" in (outcome.error or "")
        assert not alive(int(pids.read_text()))

    def test_an_item_past_its_memory_limit_is_killed(self, team):
        program = "import time; x = bytearray(300 << 20); time.sleep(300)"
        job = team.job(["x"], ["python3", "-c", program], resources={"memory_mib": 192})
        job.run()
        outcome = job.outcomes()[0]
        assert (outcome.reason, outcome.exit_code) == ("memory", -signal.SIGKILL)
        assert outcome.peak_memory_mib > 96
        assert "limit is 96 MiB" in (outcome.error or "")

    @pytest.mark.parametrize(
        "what",
        [
            {"command": ["python3", "-c", "import sys; eval(sys.argv[1])", "{uri}"]},
            {"function": "builtins:eval"},
        ],
    )
    def test_one_that_needs_more_memory_takes_more_slots(self, team, what):
        more = {"memory_max_mib": 768, "slots": 4, "spec_version": 8, "resources": {"memory_mib": 192}}
        job = team.job(
            ["(lambda held: __import__('time').sleep(1))('x' * (200 << 20))"],
            what.get("command"),
            function=what.get("function"),
            **more,
        )
        assert job.run().code == WorkerExit.DONE
        (outcome,) = job.outcomes()
        assert (outcome.status, outcome.memory_mib, outcome.attempts) == ("succeeded", 384, 2)
        assert 200 <= outcome.peak_memory_mib < 384

    def test_memory_is_that_of_the_whole_group(self, team):
        one = 'python3 -c "import time; x = bytearray(80 << 20); time.sleep(300)"'
        job = team.job(["x"], sh(f"{one} & {one} & {one} & wait"), resources={"memory_mib": 256})
        job.run()
        assert job.outcomes()[0].reason == "memory"

    def test_consumption_is_recorded(self, team):
        program = (
            "import time; x = bytearray(150 << 20)\nend = time.process_time() + 0.5\n"
            "while time.process_time() < end: pass\ntime.sleep(0.3)"
        )
        job = team.job(["x"], ["python3", "-c", program])
        job.run()
        outcome = job.outcomes()[0]
        assert 0.5 <= outcome.cpu_seconds < 3
        assert outcome.wall_seconds >= 0.8
        assert 150 <= outcome.peak_memory_mib < 400


class TestLogs:
    def test_lines_are_labelled(self, team):
        job = team.job(["x", "y"], sh("echo out {index}; echo err {index} >&2; exit {index}"), attempts=2)
        ran = job.run()
        assert ran.messages(item=0, stream="stdout", attempt=1, job=job.spec.job) == ["out 0"]
        assert ran.messages(item=1, stream="stderr", attempt=2) == ["err 1"]
        assert len(ran.messages(event="item", status="failed", item=1)) == 1


def test_items_run_side_by_side(team):
    gate, up = team.root / "gate", team.root / "up"
    up.mkdir()
    script = f"touch {up}/{{index}}; until test -e {gate}; do sleep 0.05; done"
    job = team.job([str(n) for n in range(6)], sh(script), slots=4)
    worker = job.start()
    until(lambda: len(list(up.iterdir())) == 4, "four items side by side")
    gate.touch()
    assert worker.wait(timeout=90) == WorkerExit.DONE
    assert len(job.outcomes()) == 6


def test_the_next_inputs_come_while_others_run(team, files):
    gate = team.root / "gate"
    script = f'cat "{{input}}" > {{output}}/o; until test -e {gate}; do sleep 0.05; done'
    job = team.job([str(f) for f in files], sh(script), slots=1)
    worker = job.start()

    def staged() -> set[str]:
        return {path.name for path in (team.scratch / "workers").glob("*/inputs/*/*")}

    until(lambda: {"f 0.txt", "f 1.txt"} <= staged(), "the next input")
    assert "f 2.txt" not in staged()
    gate.touch()
    assert worker.wait(timeout=90) == WorkerExit.DONE
    assert [job.outputs(o)["o"] for o in job.outcomes()] == [f"text {n}".encode() for n in range(7)]


def test_the_record_says_who_did_it(team):
    job = team.job(["x"], ["true"])
    job.run(delivery=3)
    record = team.root / f"store/jobs/{job.spec.job}/r0/done/0/0.jsonl"
    header = json.loads(record.read_text().splitlines()[0])
    assert header["backend"] == {"job_id": "11111111-aaaa:0", "attempt": 3}
    assert header["attempt"].startswith("a3-")
    assert os.uname().nodename in header["worker"]
    assert Path(record).read_text().count("\n") == 2


def test_a_worker_of_a_whole_machine_runs_as_many_items_as_fit(team):
    marks = team.root / "marks"
    meets = (
        f"echo x >> {marks}; for n in $(seq 600); do test $(wc -l < {marks}) -ge 4 && exit 0; sleep 0.1; done; exit 1"
    )
    cpus = 2 * len(os.sched_getaffinity(0)) / 8
    job = team.job(["a", "b", "c", "d"], ["sh", "-c", meets], resources={"cpus": cpus / 2, "memory_mib": 64})
    assert job.run(TIDEMILL_SLOTS="machine").code == WorkerExit.DONE
    assert [outcome.status for outcome in job.outcomes()] == ["succeeded"] * 4
