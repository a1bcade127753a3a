"""`tidemill run` as people type it: processes of this machine, a store on disk. Not proved here: a machine that loses
power (files are not forced to disk), and other systems than Linux."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.warm import ran
from tests.worker.containers import alive, until
from tests.worker.here import SECONDS, TIDEMILL, Here
from tidemill import Pipeline
from tidemill.clouds.local.desk import Desk
from tidemill.services.local.backend import LocalBackend, describe_machine


def is_sleep(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sleep")
    except OSError:
        return False


def worker_of_sleep(here: Here) -> int:
    """The worker whose program sleeps: its parent."""
    programs = until(lambda: [pid for pid in here.processes() if is_sleep(pid)], "the program")
    return int(Path(f"/proc/{programs[0]}/stat").read_text().rpartition(")")[2].split()[1])


class TestCommands:
    def test_every_item_runs_once_and_the_same_command_finds_nothing_to_do(self, here):
        program = f"echo $TIDEMILL_URI $TIDEMILL_INDEX >> {here.folder / 'marks'}; echo out > $TIDEMILL_OUTPUT/file"
        command = ["--workers", "2", "--items", here.items(30), "--", "sh", "-c", program]
        first = here.run(*command)
        assert first.returncode == 0, first.stderr
        second = here.run(*command)
        assert second.returncode == 0, second.stderr
        assert "already exists" in second.stderr
        assert sorted(here.marks()) == sorted([f"item-{n}", str(n)] for n in range(30))
        assert [o.status for o in here.outcomes()] == ["succeeded"] * 30
        assert Path(here.outcomes()[7].output.removeprefix("file://"), "file").read_text() == "out\n"
        assert not list((here.folder / "scratch" / "workers").iterdir())
        assert (here.store / ".gitignore").read_text() == "*\n"

    def test_a_program_that_this_machine_does_not_have_is_refused(self, here):
        told = here.run("a", "--", "wcc", "{uri}")
        assert told.returncode == 2
        assert "command[0] is 'wcc', and no program of this machine has that name." in told.stderr
        tool = here.folder / "tools" / "wcc"
        tool.parent.mkdir()
        tool.write_text("#!/bin/sh\necho $1\n")
        tool.chmod(0o755)
        found = here.run("--env", f"PATH={tool.parent}:{os.environ['PATH']}", "a", "--", "wcc", "{uri}")
        assert found.returncode == 0, found.stderr

    def test_the_other_verbs_work_on_it(self, here):
        ran = here.run("--json", "a", "b", "--", "sh", "-c", "echo said $1; test $1 = a", "sh", "{uri}")
        assert ran.returncode == 1, ran.stderr
        said = json.loads(ran.stdout)
        assert (said["succeeded"], said["failed"], said["state"]) == (1, 1, "failed")
        where = ["--pipeline", said["pipeline"]]
        status = here.ask("status", said["job"], *where, "--json")
        assert json.loads(status.stdout)["failed"] == 1
        results = [json.loads(line) for line in here.ask("results", said["job"], *where, "--json").stdout.splitlines()]
        assert [(o["uri"], o["status"], o["attempts"]) for o in results] == [("a", "succeeded", 1), ("b", "failed", 3)]
        assert here.ask("logs", said["job"], *where, "--item", "1").stdout.count("said b") == 3
        here.ask("retry", said["job"], *where, "--failed")
        assert here.run("--job", said["job"]).returncode == 1
        assert here.ask("logs", said["job"], *where, "--item", "1").stdout.count("said b") == 6

    def test_a_relative_program_and_item_are_found(self, here):
        (here.folder / "program.py").write_text("import sys; sys.exit(open(sys.argv[1]).read() != 'text')")
        (here.folder / "data.txt").write_text("text")
        ran = here.run("data.txt", "--", sys.executable, "program.py", "{input}")
        assert ran.returncode == 0, ran.stdout + ran.stderr

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["a"], "either a PROGRAM"),
            (["a", "--function", "m:f", "--", "true"], "give one of the two"),
            (["a", "--python", "python3", "--", "true"], "--python goes with --function"),
            (["a", "--store", "s3://bucket", "--", "true"], "file:///folder"),
            (["a", "--reclaim-every", "soon", "--", "true"], "is not a duration"),
            (["a", "--function", "nonsense"], "module:function"),
            (["a", "--function", "shrap:measure"], "Did you mean 'sharp'?"),
            (["a", "--python", "/nope/python", "--function", "os:getpid"], "--python is '/nope/python'"),
            (["--", "true"], "items"),
        ],
    )
    def test_mistakes_are_told_in_one_line(self, here, arguments, said):
        (here.folder / "sharp.py").write_text("def measure(uri): pass")
        ran = here.run(*arguments)
        assert ran.returncode == 2
        assert said in ran.stderr
        assert "Traceback" not in ran.stderr
        assert not list(here.store.glob("jobs/*"))


class TestKilled:
    COMMAND = "sleep 0.1; echo $TIDEMILL_INDEX $(date +%s.%N) >> {marks}"

    def command(self, here):
        text = self.COMMAND.format(marks=here.folder / "marks")
        return ["--workers", "2", "--items", here.items(80), "--", "sh", "-c", text]

    def test_kill_9_of_everything_repeats_nothing_that_was_written_down(self, here):
        """Results from a second before are saved by then, unless the machine is busy: a benchmark counts that."""
        run = here.start(*self.command(here))
        until(lambda: len(here.marks()) >= 30, "thirty items", SECONDS)
        for pid in here.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        run.wait(timeout=SECONDS)
        until(lambda: not here.processes(), "the end of every process")
        finished = {o.index for o in here.outcomes()}
        for chunk in range(here.ledger.index().chunks):
            finished |= set(here.ledger.chunk(0, chunk).progress())
        again = here.run(*self.command(here))
        assert again.returncode == 0, again.stderr
        times = Counter(int(index) for index, _ in here.marks())
        assert set(times) == set(range(80))
        assert {times[index] for index in finished} == {1}, "an item that was finished ran again"
        assert len(finished) >= 5, "nothing was kept"
        assert {(o.status, o.attempts) for o in here.outcomes()} == {("succeeded", 1)}

    def test_kill_9_of_the_client_ends_its_workers_and_their_programs(self, here):
        run = here.start("--workers", "2", "a", "b", "--", "sh", "-c", "sleep 300 & sleep 300")
        until(lambda: len(here.processes()) >= 7, "the programs")
        run.kill()
        until(lambda: not here.processes(), "the end of every process")

    def test_a_program_that_outlived_everything_is_ended_by_the_next_run(self, here):
        # A file that a command names is a part of its program.
        text = f"cd {here.folder}; test -e done || {{ touch done; exec sleep 300; }}"
        command = ["a", "--", "sh", "-c", text.replace("done", "$PWD/done")]
        run = here.start(*command)
        programs = until(lambda: [pid for pid in here.processes() if is_sleep(pid)], "the program")
        others = set(programs)
        # One may be starting another one.
        while more := set(here.processes()) - others:
            others |= more
            for pid in more:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
        for pid in others.difference(programs):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        run.wait(timeout=SECONDS)
        assert [pid for pid in programs if alive(pid)]
        assert here.run(*command).returncode == 0
        until(lambda: not here.processes(), "the end of every process")

    def test_three_kills_make_no_poison(self, here):
        marks = here.folder / "marks"
        command = ["a", "--", "sh", "-c", f"echo x >> {marks}; test $(wc -l < {marks}) -gt 3 || sleep 300"]
        for n in range(1, 4):
            run = here.start(*command)
            until(lambda n=n: len(here.marks()) >= n, "the item")
            run.kill()
            run.wait(timeout=SECONDS)
        assert here.run(*command).returncode == 0
        assert [(o.status, o.attempts) for o in here.outcomes()] == [("succeeded", 1)]

    def test_ctrl_c_drains_and_the_same_command_goes_on(self, here):
        run = here.start(*self.command(here))
        until(lambda: len(here.marks()) >= 10, "ten items", SECONDS)
        run.send_signal(signal.SIGINT)
        assert run.wait(timeout=SECONDS) == 130
        assert b"continues the job" in run.communicate(timeout=SECONDS)[1]
        assert here.run(*self.command(here)).returncode == 0
        times = Counter(int(index) for index, _ in here.marks())
        assert set(times) == set(range(80))
        assert sum(times.values()) <= 82, "a drain keeps what was finished"

    def test_two_runs_of_a_job_do_not_work_side_by_side(self, here):
        here.start("a", "--", "sleep", "300")
        until(here.processes, "the run")
        until(lambda: list(here.store.glob("jobs/*/r0/attempts/*/*")), "the lease")
        desk = Desk(here.store.as_uri(), here.ledger.job)
        assert desk.alive
        assert desk.lock(0) is None


class TestReclaims:
    def test_a_rehearsal_interrupts_and_loses_nothing(self, here):
        command = [*TestKilled().command(here)]
        ran = here.run("--reclaim-every", "1s", "--json", *command)
        assert ran.returncode == 0, ran.stderr
        assert json.loads(ran.stdout)["reclaims"] >= 2
        assert {(o.status, o.attempts) for o in here.outcomes()} == {("succeeded", 1)}

    def test_an_item_that_kills_its_worker_is_poison_and_stops_nothing(self, here):
        ran = here.run(
            "--workers", "2", "--items", here.items(6), "--", "sh", "-c", "test $TIDEMILL_INDEX != 3 || kill -9 $PPID"
        )
        assert ran.returncode == 1, ran.stderr
        outcomes = here.outcomes()
        assert [o.status for o in outcomes] == ["failed" if n == 3 else "succeeded" for n in range(6)]
        assert outcomes[3].reason == "poison"


class TestStuck:
    """Reasons that keep workers from working are reported, and the run ends."""

    def test_workers_that_cannot_start_end_the_run_with_their_last_error(self, here, monkeypatch):
        monkeypatch.setattr(Here, "environment", {**here.environment, "TIDEMILL_SCRATCH": "/proc/nowhere"})
        ran = here.run("a", "b", "--workers", "2", "--", "true")
        assert ran.returncode == 3
        assert ran.stderr.count(" ended, and another takes its place: ") == 1
        assert "the workers cannot continue: " in ran.stderr
        assert "/proc/nowhere" in ran.stderr
        monkeypatch.undo()
        assert here.run("a", "b", "--workers", "2", "--", "true").returncode == 0

    @pytest.mark.parametrize("taken", ["moved", "removed"])
    def test_a_store_that_vanishes_ends_the_run_and_is_not_made_anew(self, here, taken):
        gate = here.folder / "gate"
        wait = f"until [ -e {gate} ]; do sleep 0.05; done; echo > $TIDEMILL_OUTPUT/o"
        run = here.start("--items", here.items(8), "--workers", "2", "--", "sh", "-c", wait)
        until(lambda: len(list(here.store.glob("jobs/*/r0/attempts/*/*"))) == 2, "two leases")
        here.store.rename(here.folder / "elsewhere")
        if taken == "removed":
            shutil.rmtree(here.folder / "elsewhere")
        gate.touch()
        _, err = run.communicate(timeout=SECONDS)
        assert run.returncode == 3
        assert "does not hold sh-" in err.decode().splitlines()[-1]
        assert not here.store.exists()

    def test_a_frozen_worker_is_named_and_replaced(self, here):
        """After four seconds instead of a minute."""
        gate = here.folder / "gate"
        shorter = (
            "import tidemill.worker.local.keeper as keeper, tidemill.services.local.lease as lease; "
            "keeper.SILENT_SECONDS = 4.0; lease.BEAT_SECONDS = 0.2; "
        )
        run = subprocess.Popen(
            [
                sys.executable,
                "-c",
                shorter + TIDEMILL[-1],
                "run",
                "a",
                "--",
                "sh",
                "-c",
                f"test -e {gate} || exec sleep 300",
            ],
            cwd=here.folder,
            env=here.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        here.started.append(run)
        worker = worker_of_sleep(here)
        os.kill(worker, signal.SIGSTOP)
        gate.touch()
        said = run.communicate(timeout=SECONDS)[1].decode()
        assert run.returncode == 0, said
        assert f"(process {worker}) has said nothing for 4 s: it is ended" in said

    @pytest.mark.parametrize("first", ["kill(self.pid, 9); end(self)", "kill(self.pid, 19)"])
    def test_a_keeper_that_is_killed_is_told(self, here, first):
        """Before it is told of the run, and before it has read that."""
        killed = (
            "import os\nfrom os import kill\nfrom tidemill.worker.local import keeper_handle as local\n"
            "def end(self):\n    os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)\n"
            "def killing(self, *given, real=local.KeeperHandle.start):\n"
            f"    {first}\n    real(self, *given)\n    kill(self.pid, 9)\n"
            "local.KeeperHandle.start = killing\n"
        )
        run = subprocess.run(
            [sys.executable, "-c", killed + TIDEMILL[-1], "run", "a", "--", "true"],
            cwd=here.folder,
            env=here.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=SECONDS,
            text=True,
        )
        assert run.returncode == 3
        assert "the workers cannot continue: the process that starts them has ended" in run.stderr
        assert here.run("a", "--", "true").returncode == 0

    def test_a_store_that_cannot_be_written_is_named(self, here):
        ran = here.run("a", "--store", "/proc/store", "--", "true")
        assert ran.returncode == 2
        assert "the job store's folder is '/proc/store'" in ran.stderr


class TestGoingOn:
    """One command, which all others name, runs what they wrote or what a killed run left."""

    def test_a_killed_run_is_shown_as_lost_and_wait_repairs_nothing(self, here):
        run = here.start("a", "--", "sleep", "300")
        until(lambda: list(here.store.glob("jobs/*/r0/attempts/*/*")), "the lease")
        job, where = here.ledger.job, f"file://{here.store}/pipeline.json"
        assert json.loads(here.ask("status", job, "--pipeline", where, "--json").stdout)["state"] == "running"
        run.kill()
        run.wait(timeout=SECONDS)
        until(lambda: not here.processes(), "the end of every process")
        waited = here.type("wait", job, "--pipeline", where, "--json")
        assert waited.returncode == 1
        status = json.loads(waited.stdout)
        assert (status["state"], status["note"]) == ("paused", "not running")
        assert status["run_command"] == f"tidemill run --job {job}"
        assert [round_.round for round_ in here.ledger.rounds()] == [0]

    @pytest.mark.parametrize("resumed", [False, True])
    def test_a_retry_continues_what_was_cancelled_in_the_one_before(self, here, resumed):
        mended = here.folder / "mended"
        program = ["sh", "-c", f"test -e {mended}"]
        assert here.run("a", "b", "--chunk-size", "1", "--attempts", "1", "--", *program).returncode == 1
        job, where = here.ledger.job, f"file://{here.store}/pipeline.json"
        mended.touch()
        for command in (["retry", "--items", "0"], ["cancel"], ["retry", "--failed"], ["resume"] * resumed):
            if command:
                done = here.ask(command[0], job, *command[1:], "--pipeline", where)
                assert done.returncode == 0, done.stderr
        ran = here.run("--job", job)
        assert ran.returncode == 0, ran.stderr
        assert [outcome.status for outcome in here.outcomes()] == ["succeeded"] * 2

    def test_a_retry_says_what_runs_it_from_anywhere(self, here):
        (here.folder / "work.py").write_text(
            "from pathlib import Path\n\n"
            f"def work(uri):\n    assert uri == 'a' or Path({str(here.folder / 'mended')!r}).exists()\n"
        )
        assert here.run("--name", "j", "a", "b", "--attempts", "1", "--function", "work:work").returncode == 1
        job, where = here.ledger.job, f"file://{here.store}/pipeline.json"
        (here.folder / "mended").touch()
        said = here.ask("retry", "j", "--failed", "--pipeline", where).stdout
        assert f"1 item in 1 chunk enqueued as round 1. `tidemill run --job {job}` runs it." in said
        # The newest round is still to run: no other is written.
        assert "nothing to enqueue" in here.ask("resume", job, "--pipeline", where).stdout
        elsewhere = here.folder / "elsewhere"
        elsewhere.mkdir()
        here.folder = elsewhere
        typed = json.loads(here.ask("resume", job, "--pipeline", where, "--json").stdout)["run_command"].split()
        assert typed == ["tidemill", "run", "--job", job, "--store", str(here.store)]
        ran = here.type(*typed[1:])
        here.folder = elsewhere.parent
        assert ran.returncode == 0, ran.stderr
        assert [o.status for o in here.outcomes()] == ["succeeded", "succeeded"]
        assert len(here.ledger.rounds()) == 2

    def test_ctrl_c_pauses_a_job_and_the_same_command_continues_it(self, here):
        gate = here.folder / "gate"
        # A file that a command names is a part of its program.
        name = f"G={gate.parent}; test $TIDEMILL_INDEX -lt 5"
        wait = f"{name} || until [ -e $G/gate ]; do sleep 0.05; done; echo > $TIDEMILL_OUTPUT/o"
        command = ["--workers", "2", "--chunk-size", "10", "--items", here.items(20)]
        command += ["--attempts", "1", "--", "sh", "-c", f"{wait}; test -e $G/gate -o $TIDEMILL_INDEX != 3"]
        run = here.start(*command)
        until(lambda: list(here.store.glob("jobs/*/r0/progress/0/*")), "progress", SECONDS)
        until(lambda: len(here.ledger.chunk(0, 0).progress()) == 5, "five items", SECONDS)
        both = re.compile("chunks +0 of 2 done, 2 running, 0 waiting")
        until(lambda: both.search(here.ask("status", here.ledger.job).stdout), "work on both chunks", SECONDS)
        five = ["succeeded"] * 3 + ["failed", "succeeded"]
        assert [one.status for one in here.outcomes()] == five
        os.kill(run.pid, signal.SIGINT)
        out, err = run.communicate(timeout=SECONDS)
        assert run.returncode == 130
        assert "5 of 20 items are done and kept." in err.decode()
        assert re.search(r"^state +paused\nsucceeded +4\nfailed +1\nnot run +15$", out.decode(), re.MULTILINE)
        assert re.search(r"^attempts +5$", out.decode(), re.MULTILINE)
        assert re.search(r"^outputs +.*\(4 of 20 items\); `tidemill fetch", out.decode(), re.MULTILINE)
        assert re.search(r"^remaining +15$", here.ask("status", here.ledger.job).stdout, re.MULTILINE)
        found = [json.loads(line) for line in here.ask("results", here.ledger.job, "--json").stdout.splitlines()]
        assert [one["status"] for one in found] == five
        fetched = here.ask("fetch", here.ledger.job, "-o", "fetched")
        assert (fetched.returncode, len(list(here.folder.glob("fetched/*/o")))) == (1, 4)
        assert "exit 1      3" in here.ask("failures", here.ledger.job).stdout
        assert "reclaims" not in out.decode()
        assert re.search(rf"^continue +tidemill run --job {here.ledger.job}$", out.decode(), re.MULTILINE)
        gate.touch()
        again = here.run(*command)
        assert again.returncode == 1, again.stderr
        assert "already exists: 5 of 20 items are done." in again.stderr
        assert re.search(r"^succeeded +19$", again.stdout, re.MULTILINE)

    def test_a_resumed_chunk_goes_on_where_it_was(self, here):
        gate, marks = here.folder / "gate", here.folder / "marks"
        wait = f"test $TIDEMILL_INDEX -lt 10 || until [ -e {gate} ]; do sleep 0.05; done"
        program = ["--", "sh", "-c", f"{wait}; echo $TIDEMILL_INDEX >> {marks}"]
        run = here.start("--workers", "1", "--chunk-size", "30", "--items", here.items(30), *program)
        until(lambda: list(here.store.glob("jobs/*/r0/progress/0/*")), "progress", SECONDS)
        run.kill()
        run.communicate(timeout=SECONDS)
        finished = set(here.ledger.chunk(0, 0).progress())
        gate.touch()
        where = ["--pipeline", f"file://{here.store}/pipeline.json"]
        job = here.ledger.job

        def remaining():
            return json.loads(here.ask("status", job, *where, "--json").stdout)["remaining"]

        here.ask("cancel", job, *where)
        assert remaining() == 30 - len(finished)
        assert json.loads(here.ask("resume", job, *where, "--json").stdout)["items"] == 30
        assert remaining() == 30 - len(finished)
        assert here.run("--job", job).returncode == 0
        times = Counter(int(words[0]) for words in here.marks())
        assert set(times) == set(range(30))
        assert {times[index] for index in finished} == {1}
        assert [o.status for o in here.outcomes()] == ["succeeded"] * 30

    def test_a_submitted_and_a_cancelled_job_are_run(self, here):
        assert here.run("a", "--", "true").returncode == 0
        where = ["--pipeline", f"file://{here.store}/pipeline.json"]
        job = here.ask("submit", "--name", "sent", "a", "b", *where, "--", "true").stdout.strip()
        here.ask("cancel", job, *where)
        refused = here.run("--job", job)
        assert (refused.returncode, refused.stderr) == (
            2,
            f"tidemill: {job} is cancelled. `tidemill resume {job}` enqueues what is left of it.\n",
        )
        here.ask("resume", job, *where)
        assert json.loads(here.run("--job", "sent", "--json").stdout)["succeeded"] == 2

    def test_a_cancel_ends_what_runs(self, here):
        run = here.start("--name", "long", "--chunk-size", "1", "a", "b", "c", "--", "sleep", "300")
        until(lambda: any(map(is_sleep, here.processes())), "a program", SECONDS)
        said = here.ask("cancel", "long").stdout
        out, _ = run.communicate(timeout=SECONDS)
        assert said == f"{here.ledger.job} is cancelled. `tidemill resume {here.ledger.job}` runs what is left.\n"
        assert (run.returncode, here.outcomes(), here.processes()) == (1, [], [])
        assert re.search(r"^state +cancelled$", out.decode(), re.MULTILINE)

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["--name", "x"], "leave --name out"),
            (["--", "true"], "leave a program out"),
            (["a"], "leave uris out"),
            (["--store", "nowhere"], "is not a job store"),
        ],
    )
    def test_what_would_make_it_another_job_is_refused(self, here, arguments, said):
        ran = here.run("--job", "tiles", *arguments)
        assert ran.returncode == 2
        assert said in ran.stderr
        assert not (here.folder / "nowhere").exists()


class TestLimit:
    """Workers keep a job's limit; here each is a process."""

    def test_workers_end_the_job_at_its_limit_and_a_higher_one_goes_on(self, here):
        """A second of an item is a dollar; 40 items want eight of them. Two workers pass a limit of one by at most
        what both of them run when it is reached."""
        money = ("--max-usd", "1", "--usd-per-item-hour", "3600")
        job = ("--name", "j", "--workers", "2", "--chunk-size", "1", "--items", here.items(40))
        ended = here.run(*job, *money, "--json", "--", "sleep", "0.2")
        said = json.loads(ended.stdout)
        assert (ended.returncode, said["state"]) == (1, "cancelled")
        assert said["note"].startswith("stopped: max_usd: about ")
        assert said["spent"]["usd"] >= 1
        assert 1 <= said["succeeded"] < 12, "five of them cost the limit"
        where = ("--pipeline", (here.store / "pipeline.json").as_uri())
        refused = here.ask("resume", "j", *where)
        assert refused.returncode == 2
        assert f"`tidemill resume {said['job']} --max-usd " in refused.stderr
        sent = json.loads(here.ask("resume", "j", "--max-usd", "100", *where, "--json").stdout)
        assert sent["items"] == said["remaining"]
        ran = here.run("--job", sent["job"], "--json")
        assert (ran.returncode, json.loads(ran.stdout)["state"]) == (0, "succeeded")
        assert json.loads(ran.stdout)["spent"]["max_usd"] == 100


class TestChanged:
    """A program or a declared input that changes makes another job of a command; an item that changes is told."""

    SCRIPT = "import sys, pathlib, near\nfile = pathlib.Path(sys.argv[1])\nassert file.read_text() != 'wrong'\n"

    def test_another_program_is_another_job_and_the_old_one_goes_on_by_its_id(self, here):
        (here.folder / "w.py").write_text(self.SCRIPT)
        (here.folder / "near.py").write_text("import json\n")
        (here.folder / "in").mkdir()
        for name in "abc":
            (here.folder / "in" / name).write_text("wrong" if name == "c" else name)
        command = ["--name", "w", "--items", "in", "--attempts", "1", "--", "python3", "w.py", "{input}"]
        assert here.run(*command).returncode == 1
        job = here.ledger.job

        def newer(*arguments):
            return [line for line in here.run(*arguments).stderr.splitlines() if "newer" in line]

        assert newer(*command) == []
        (here.folder / "near.py").write_text("import json  # changed\n")
        assert newer("--job", job) == [f"near.py is newer than 3 of 3 outcomes of {job}, which stay as they are."]
        (here.folder / "w.py").write_text(self.SCRIPT.replace("!= 'wrong'", ""))
        # What runs again is newer than the program; what does not is older.
        here.ask("retry", job, "--failed")
        assert here.run("--job", job).returncode == 0
        stay = f"is newer than 2 of 3 outcomes of {job}, which stay as they are."
        assert newer("--job", job) == [f"w.py {stay}", f"near.py {stay}"]
        (here.folder / "in" / "b").write_text("other")
        (here.folder / "in" / "c").write_text("other")
        folder = here.folder / "in"
        said = newer("--job", job)[2]
        assert said.startswith(f"{folder}/b (and 1 more) is newer than its outcome in {job}, which stays as it is: ")
        assert f"`tidemill retry {job} --items 1,2`" in said
        anew = here.run(*command)
        assert (anew.returncode, len(list(here.store.glob("jobs/*/job.json")))) == (0, 2)
        assert "newer" not in anew.stderr

    def test_a_script_that_changes_while_its_job_runs_is_named(self, here):
        script = f"import os, time\nwhile not os.path.exists('{here.folder / 'gate'}'): time.sleep(0.02)\n"
        (here.folder / "m.py").write_text(script)
        run = here.start("--name", "m", "a", "--", "python3", "m.py")
        until(lambda: list(here.store.glob("jobs/*/r0/attempts/*/*")), "the lease")
        (here.folder / "m.py").write_text(script + "# changed\n")
        (here.folder / "gate").touch()
        _, err = run.communicate(timeout=SECONDS)
        assert b"m.py changed while the job ran: items that began before that ran the file as it was." in err
        assert run.returncode == 0

    def test_values_of_a_map_that_are_stale_are_told(self, here, capsys):
        (here.folder / "item").write_text("x")
        pipeline = Pipeline.local(here.folder / "store", workers=1)
        for text in ("x", "y"):
            items = [str(here.folder / "item")]
            assert list(pipeline.map("os.path:basename", items, name="m", progress=False)) == ["item"]
            (here.folder / "item").write_text(text * 2)
        assert f"{here.folder}/item is newer than its outcome" in capsys.readouterr().err


def test_a_local_input_of_one_gib_is_read_once_and_never_written(here):
    """All processes of the run count, also those that outlive it: what /proc counts passes to whoever reaps them."""
    large = here.folder / "large.bin"
    with large.open("wb") as file:
        file.truncate(2**30)
    (here.folder / "sum.py").write_text(
        "import sys, functools\n"
        "print(sum(len(b) for b in iter(functools.partial(open(sys.argv[1], 'rb', buffering=0).read, 1 << 23), b'')))\n"
    )
    count = (
        "import ctypes, os, subprocess, sys\n"
        "ctypes.CDLL(None).prctl(36, 1)\n"  # PR_SET_CHILD_SUBREAPER
        "code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode\n"
        "try:\n"
        "    while True: os.wait()\n"
        "except ChildProcessError: pass\n"
        "print(code, *(line.split()[1] for line in open('/proc/self/io') if line[:6] in ('rchar:', 'wchar:')))\n"
    )
    run = [*TIDEMILL, "run", "--items", "large.bin*", "--", "python3", "sum.py", "{input}"]
    counted = ran([sys.executable, "-c", count, *run], cwd=here.folder, env=here.environment, timeout=SECONDS)
    code, read, written = map(int, counted.stdout.split())
    assert code == 0, counted.stderr
    assert here.outcomes()[0].status == "succeeded"
    # Python's own modules are read too, by each of a few processes.
    assert 2**30 <= read < 1.25 * 2**30
    assert written < 2**26


def test_a_sweep_is_rehearsed_here(here):
    (here.folder / "code").mkdir()
    (here.folder / "code" / "train.py").write_text(
        "import json, os, pathlib, sys\n"
        "found = [sys.argv[1:], json.loads(os.environ['SM_HPS'])]\n"
        "print(f'step 1 loss: {float(sys.argv[2]) * 2}')\n"
        "pathlib.Path(os.environ['SM_MODEL_DIR'], 'model.json').write_text(json.dumps(found))\n"
    )
    typed = ["--here", "--code", "code", "--sweep", "lr=1e-3,3e-4", "--hp", "epochs=9", "--json"]
    typed += ["--metric", r"loss=step (?P<step>\d+) loss: ([0-9.]+)"]
    program = ["--", "python3", "train.py", "--lr", "{lr}", "{other}"]
    first = here.type("train", *typed, *program)
    assert first.returncode == 0, first.stderr
    assert json.loads(first.stdout)["succeeded"] == 2
    outcomes = here.outcomes()
    assert [o.uri for o in outcomes] == ["lr=1e-3", "lr=3e-4"]
    models = [
        json.loads(Path((o.output or "").removeprefix("file://"), "model/model.json").read_text()) for o in outcomes
    ]
    assert models[1] == [["--lr", "3e-4", "{other}"], {"epochs": 9, "lr": 0.0003}]
    best = here.ask("metrics", "train", "--best", "loss")
    assert best.stdout.splitlines()[1].split() == ["1", "lr=3e-4", "0.0006", "1", "0.0006"]
    again = here.type("train", *typed, *program)
    assert "2 of 2 items are done" in again.stderr
    assert json.loads(again.stdout)["job"] == json.loads(first.stdout)["job"]


def test_a_training_begins_with_the_state_of_another_job(here):
    (here.folder / "code").mkdir()
    (here.folder / "code" / "x").write_text("")
    typed = ["train", "--here", "--code", "code", "--snapshot-every", "1s"]
    first = here.type(*typed, "--name", "first", "--shell", "--", 'echo 7 > "$TIDEMILL_STATE/step"')
    assert first.returncode == 0, first.stderr
    shell = 'read n < "$TIDEMILL_STATE/step"; echo $((n + 1)) | tee "$TIDEMILL_STATE/step" > "$TIDEMILL_OUTPUT/step"'
    program = ["--sweep", "seed=0..1", "--shell", "--", shell]
    then = here.type(*typed, "--name", "then", "--from-state", "first", *program)
    assert then.returncode == 0, then.stderr
    assert [path.read_text() for path in here.store.glob("out/then-*/*/*/step")] == ["8\n", "8\n"]
    # Its own state is whole: it does not need that of the other job any more.
    for folder in here.store.glob("state/first-*"):
        shutil.rmtree(folder)
    assert here.ask("retry", "then", "--items", "0,1").returncode == 0
    again = here.run("--job", "then")
    assert again.returncode == 0, again.stderr
    newest = max(here.store.glob("out/then-*/0/*/step"), key=lambda path: path.stat().st_mtime)
    assert newest.read_text() == "9\n"
    gone = here.type(*typed, "--name", "last", "--from-state", "first", *program)
    assert (gone.returncode, "has none" in gone.stderr) == (2, True), gone.stderr


def test_this_machine_takes_work():
    descriptor = describe_machine("file:///nowhere", 2, 4096, 0, 2)
    backend = LocalBackend(descriptor)
    assert backend.describe(descriptor.queues["local"], "no-job") == []
    assert backend.queue_states(descriptor.queues)["local"].running


def test_a_job_that_runs_is_not_removed(here):
    store = ["--pipeline", str(here.store / "pipeline.json")]
    run = here.start("--name", "slow", "a", "--", "sleep", "300")
    until(lambda: any(map(is_sleep, here.processes())), "a program", SECONDS)
    (job,) = [path.parent.name for path in here.store.glob("jobs/*/job.json")]
    refused = here.ask("rm", "slow", "--yes", *store)
    assert refused.returncode == 2
    assert f"`tidemill cancel {job}` ends it." in refused.stderr
    assert here.ask("cancel", job, *store).returncode == 0
    assert run.wait(SECONDS) == 1
    here.ask("rm", job, "--yes", *store)
    assert not [path for path in here.store.rglob("*") if job in path.name]
    assert here.run("--name", "slow", "a", "--", "true").returncode == 0


def test_a_retry_runs_at_once(here):
    mended = here.folder / "mended"
    first = here.run("--attempts", "1", "a", "b", "--", "sh", "-c", f"test $1 = a || test -e {mended}", "sh", "{uri}")
    (job,) = [path.parent.name for path in here.store.glob("jobs/*/job.json")]
    assert first.returncode == 1
    assert f"`tidemill retry {job} --failed --run" in first.stdout
    mended.touch()
    again = here.type("retry", job, "--failed", "--run", "--pipeline", str(here.store / "pipeline.json"))
    assert again.returncode == 0, again.stderr
    assert f"{job}: 1 item in 1 chunk enqueued as round 1.\n" in again.stderr
    assert [(outcome.status, outcome.attempts) for outcome in here.outcomes()] == [("succeeded", 1)] * 2
    assert not here.processes()
    nothing = here.type("retry", job, "--failed", "--run", "--json")
    assert f"{job}: nothing to enqueue." in nothing.stderr
    assert json.loads(nothing.stdout)["succeeded"] == 2


def test_logs_name_the_jobs_whose_results_are_shared(here):
    program = ("--", "echo", "read", "{uri}")
    here.run("--name", "words", "a", *program)
    (first,) = [path.parent.name for path in here.store.glob("jobs/*/job.json")]
    here.run("--name", "words", "--changed", "a", "b", *program)
    told = here.ask("logs", "words", "--pipeline", str(here.store / "pipeline.json"))
    assert told.stdout == "1.1 stdout: read b\n"
    assert f"1 of {first}, 1 of this job.\nThe lines of shared items are in the logs of those jobs" in told.stderr
    told = here.ask("logs", "words", "--item", "0", "--pipeline", str(here.store / "pipeline.json"))
    assert told.stdout == "0.1 stdout: read a\n"
