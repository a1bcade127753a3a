"""Parts of the worker that need no container: leases, settings, scratch, output lines, the metadata's answers."""

import fcntl
import json
import os
import socket
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

import tidemill
from tidemill.errors import CallerError
from tidemill.ledger import Round, RoundArray
from tidemill.store import Stores
from tidemill.worker.faults import ItemError
from tidemill.worker.leases import local
from tidemill.worker.leases.array import ArrayLease, ArrayLeases
from tidemill.worker.metadata import Notice
from tidemill.worker.metadata.ec2 import Ec2Notice, read_notice
from tidemill.worker.output import ITEM_BYTES, LINE_BYTES, TAIL_BYTES, ItemOutput
from tidemill.worker.programs import Programs
from tidemill.worker.run_item import pause_before
from tidemill.worker.scratch import Scratch
from tidemill.worker.settings import Settings, child_environment
from tidemill.worker.staging import SPARE_BYTES, Staging, file_name
from tidemill.worker.stop import Stop, StopReason

ENV = {"TIDEMILL_JOB": "t-00000000", "TIDEMILL_ROUND": "1", "TIDEMILL_ARRAY": "1", "AWS_BATCH_JOB_ID": "x:2"}
ROUND = Round(round=1, arrays=[RoundArray(name="a", first=0, count=3), RoundArray(name="b", chunks=[9, 7, 5])])
GIVEN = {"job": "t-00000000", "round": 1, "chunk": 7, "delivery": 1, "run": "r", "worker": 0}


class TestLocalLease:
    @pytest.fixture
    def ends(self):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, theirs:
            yield ours, theirs

    def test_the_answer_to_a_request_is_waited_for(self, ends, monkeypatch):
        """Otherwise a busy worker looks for its next chunk only after a pause, and its slots are empty meanwhile."""
        ours, keeper = ends
        monkeypatch.setattr(local, "ANSWER_SECONDS", 30.0)

        def answer() -> None:
            assert local.receive(keeper) == {"say": "lease"}
            local.send(keeper, GIVEN)

        answering = threading.Thread(target=answer)
        answering.start()
        lease = local.LocalLeases(ours).lease(0.0)
        answering.join(30.0)
        assert lease is not None
        assert (lease.job, lease.chunk(ROUND)) == ("t-00000000", 7)

    def test_a_request_is_made_once(self, ends, monkeypatch):
        ours, keeper = ends
        monkeypatch.setattr(local, "ANSWER_SECONDS", 0.0)
        leases = local.LocalLeases(ours)
        assert leases.lease(0.0) is None
        monkeypatch.setattr(local, "ANSWER_SECONDS", 30.0)
        assert leases.lease(0.0) is None
        local.send(keeper, GIVEN)
        assert leases.lease(0.0) is not None
        assert local.receive(keeper) == {"say": "lease"}
        keeper.setblocking(False)
        with pytest.raises(BlockingIOError):
            local.receive(keeper)


class TestArrayLease:
    def test_a_child_holds_its_chunk_once(self):
        leases = ArrayLeases({**ENV, "AWS_BATCH_JOB_ARRAY_INDEX": "2", "AWS_BATCH_JOB_ATTEMPT": "4"})
        assert not leases.exhausted
        lease = leases.lease()
        assert lease is not None
        assert (lease.chunk(ROUND), lease.delivery, lease.backend) == (5, 4, {"job_id": "x:2", "attempt": 4})
        assert leases.exhausted
        assert leases.lease() is None

    def test_a_plain_job_is_the_first_child(self):
        assert ArrayLease(ENV).chunk(ROUND) == 9

    def test_no_two_attempts_have_one_name(self):
        assert ArrayLease(ENV).id != ArrayLease(ENV).id

    @pytest.mark.parametrize(
        "env",
        [{}, {**ENV, "TIDEMILL_JOB": ""}, {**ENV, "TIDEMILL_ROUND": "x"}, {**ENV, "AWS_BATCH_JOB_ARRAY_INDEX": "-1"}],
    )
    def test_what_no_submit_has_set_is_refused(self, env):
        with pytest.raises(CallerError):
            ArrayLease(env)

    def test_a_child_that_the_round_does_not_know(self):
        with pytest.raises(CallerError, match="child 3"):
            ArrayLease({**ENV, "AWS_BATCH_JOB_ARRAY_INDEX": "3"}).chunk(ROUND)


class TestSettings:
    def test_defaults(self):
        settings = Settings.read({"TIDEMILL_STORE": "s3://b"})
        assert settings.notice is None
        assert (settings.poll_seconds, settings.drain_seconds) == (2, 15)
        assert settings.cache is None

    @pytest.mark.parametrize(
        "env",
        [
            {},
            {"TIDEMILL_STORE": "s3://b", "TIDEMILL_RECLAIM_POLL_SECONDS": "0"},
            {"TIDEMILL_STORE": "s3://b", "TIDEMILL_DRAIN_SECONDS": "soon"},
            {"TIDEMILL_STORE": "s3://b", "TIDEMILL_MIN_WORKER": "999.0.0"},
        ],
    )
    def test_mistakes(self, env):
        with pytest.raises(CallerError):
            Settings.read(env)

    @pytest.mark.parametrize("oldest", ["", "0.0.9", tidemill.__version__])
    def test_a_worker_that_is_new_enough(self, oldest):
        assert Settings.read({"TIDEMILL_STORE": "s3://b", "TIDEMILL_MIN_WORKER": oldest}).store == "s3://b"

    def test_a_program_sees_nothing_of_ours(self):
        env = {"PATH": "/bin", "TIDEMILL_STORE": "s3://b", "TIDEMILL_JOB": "x", "AWS_BATCH_JOB_ID": "1"}
        assert child_environment(env) == {"PATH": "/bin", "AWS_BATCH_JOB_ID": "1"}

    def test_what_the_tree_was_started_with_is_put_back(self):
        env = {
            "LC_ALL": "C.UTF-8",
            "TIDEMILL_WAS_LC_ALL": "de_DE",
            "TIDEMILL_WAS_LD_PRELOAD": "libjemalloc.so",
            "SSL_CERT_FILE": "/tidemill/certificates.pem",
            "TIDEMILL_ADDED": "SSL_CERT_FILE",
            "PATH": "/bin",
        }
        assert child_environment(env) == {"LC_ALL": "de_DE", "LD_PRELOAD": "libjemalloc.so", "PATH": "/bin"}


@pytest.fixture
def written(capsysbinary):
    return lambda: [json.loads(line) for line in capsysbinary.readouterr().out.splitlines()]


class TestOutput:
    def test_lines_carry_their_item(self, written):
        output = ItemOutput({"job": "j", "item": 3})
        output.begin(2)
        output.feed("stdout", b"one\ntw")
        output.feed("stderr", b"bad\r\n")
        output.feed("stdout", b"o\nrest")
        output.end()
        assert [(line["stream"], line["message"], line["attempt"], line["item"]) for line in written()] == [
            ("stdout", "one", 2, 3),
            ("stderr", "bad", 2, 3),
            ("stdout", "two", 2, 3),
            ("stdout", "rest", 2, 3),
        ]

    def test_any_bytes_are_a_line(self, written):
        output = ItemOutput({})
        output.feed("stdout", b"\xff\x00\xfe\n")
        assert written()[0]["message"] == "\ufffd\x00\ufffd"

    def test_a_line_without_an_end_is_cut_into_lines(self, written):
        output = ItemOutput({})
        output.feed("stdout", b"x" * (2 * LINE_BYTES + 1))
        output.end()
        assert [len(line["message"]) for line in written()] == [LINE_BYTES, LINE_BYTES, 1]

    def test_the_cap_is_of_the_item_and_the_cut_is_said(self, written):
        output = ItemOutput({})
        line = b"y" * 1023 + b"\n"
        for attempt in (1, 2):
            output.begin(attempt)
            for _ in range(ITEM_BYTES // 1024 // 2 + 10):
                output.feed("stdout", line)
            output.end()
        output.close()
        lines = written()
        (cut,) = (line for line in lines if line.get("cut"))
        assert len(lines) == ITEM_BYTES // 1024 + 1
        assert lines.index(cut) == ITEM_BYTES // 1024 // 2
        assert str(20 * 1024) in cut["message"]
        assert (lines[0]["attempt"], lines[-1]["attempt"]) == (1, 2)

    def test_the_tail_is_of_the_last_attempt(self, written):
        output = ItemOutput({})
        output.begin(1)
        output.feed("stderr", b"first")
        output.begin(2)
        output.feed("stderr", b"z" * 10_000 + b"the end\n")
        assert output.tail().endswith("zthe end")
        assert len(output.tail()) < TAIL_BYTES


class TestScratch:
    def test_the_dead_are_cleared_away_and_the_living_are_not(self, tmp_path):
        living, dead = Scratch(tmp_path, "living"), Scratch(tmp_path, "dead")
        (dead.folder / "big").write_bytes(b"1")
        for lock in dead._locks:
            lock.close()
        newcomer = Scratch(tmp_path, "newcomer")
        assert living.folder.is_dir()
        assert not dead.folder.exists()
        for scratch in (living, newcomer):
            scratch.close()
        assert list((tmp_path / "workers").iterdir()) == []

    def test_a_folder_is_not_cleared_away_while_it_is_made(self, tmp_path, monkeypatch):
        """A worker that starts between the lock file and the lock of another must not take it for a dead one's."""
        real, meanwhile = fcntl.flock, []

        def flock(file, how):
            if not meanwhile:
                meanwhile.append(None)
                meanwhile[0] = Scratch(tmp_path, "meanwhile")
            real(file, how)

        monkeypatch.setattr(fcntl, "flock", flock)
        slow = Scratch(tmp_path, "slow")
        assert slow.folder.is_dir()
        assert meanwhile[0].folder.is_dir()
        for scratch in (slow, meanwhile[0]):
            scratch.close()
        assert list((tmp_path / "workers").iterdir()) == []

    def test_what_a_worker_left_half_made_goes_later(self, tmp_path):
        half = tmp_path / "workers" / ".half"
        half.mkdir(parents=True)
        Scratch(tmp_path, "one").close()
        assert half.exists()
        os.utime(half, (time.time() - 61, time.time() - 61))
        Scratch(tmp_path, "two").close()
        assert not half.exists()

    def test_ports_are_of_the_machine(self, tmp_path):
        one, two = Scratch(tmp_path, "one"), Scratch(tmp_path, "two")
        bases = [one.port_base(), two.port_base(), one.port_base()]
        assert bases == [20_000, 20_016, 20_032]
        one.close()
        assert two.port_base() == 20_000
        two.close()


def test_the_scratch_is_looked_at_before_a_fetch(tmp_path, monkeypatch):
    scratch = Scratch(tmp_path / "scratch", "one")
    source = tmp_path / "source"
    source.write_bytes(b"x" * 3 * 2**20)
    staging = Staging(Stores(), scratch)
    assert staging.fetch(str(source), scratch.folder / "a", Stop(), "").result().read_bytes() == source.read_bytes()
    monkeypatch.setattr(Scratch, "free_bytes", lambda _: SPARE_BYTES + 2**20)
    with pytest.raises(ItemError, match="3 MiB needed, 1 MiB free") as caught:
        staging.fetch(str(source), scratch.folder / "b", Stop(), "").result()
    assert (caught.value.reason, caught.value.final) == ("scratch", False)
    assert list((scratch.folder / "b").iterdir()) == []
    staging.close()
    scratch.close()


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("s3://b/p/photo.jpg", "photo.jpg"),
        ("/data/x.tif", "x.tif"),
        ("s3://b/folder/", "folder"),
        ("s3://b/..", "input"),
        ("s3://b/.hidden", "hidden"),
        ("s3://b/" + "é" * 300 + ".png", "é" * 98 + ".png"),
    ],
)
def test_the_local_copy_keeps_its_name(uri, name):
    assert file_name(uri) == name
    assert len(file_name(uri).encode()) <= 200


def test_a_notice_is_there_once_it_is_written(tmp_path):
    machine = Ec2Notice(tmp_path / "notice")
    assert machine.notice() is None
    assert not machine.at_risk()
    (tmp_path / "rebalance").write_text("{}")
    assert (machine.at_risk(), machine.notice()) == (True, None)
    (tmp_path / "notice").write_text('{"action": "terminate"}')
    assert machine.notice() == Notice(None)


@pytest.mark.parametrize(
    ("seconds", "stays"),
    [(120, 15), (80, 10), (-600, 15), (3600, 15)],
    ids=["real", "late", "clock ahead", "clock behind"],
)
def test_how_long_a_drained_worker_stays(seconds, stays):
    time = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()
    assert read_notice(f'{{"action": "terminate", "time": "{time}"}}').until_not_placeable(15) == pytest.approx(
        stays, abs=0.5
    )


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"time": "soon"}', '{"time": "2026-11-21T08:00:00"}'])
def test_a_notice_that_says_nothing_is_a_notice(text):
    assert read_notice(text).until_not_placeable(15) == 15


def test_the_flag_keeps_its_first_reason():
    stop, woken = Stop(), []
    stop.on_raise(lambda: woken.append(1))
    assert not stop.wait(0)
    stop.set(StopReason.NOTICE)
    stop.set(StopReason.SIGNAL)
    assert stop.raised
    assert (stop.reason, woken) == (StopReason.NOTICE, [1])


def test_a_program_that_moves_between_two_items_is_found_again(tmp_path):
    programs = Programs(Stop())
    env = {"PATH": f"{tmp_path}/first:{tmp_path}/second"}

    def exit_code(folder: str, code: int) -> int:
        path = tmp_path / folder / "program"
        path.parent.mkdir()
        path.write_text(f"#!/bin/sh\nexit {code}\n")
        path.chmod(0o755)
        child = programs.start(["program"], cwd=tmp_path, env=env, stdout=2, stderr=2)
        return child.wait(30)

    assert exit_code("first", 3) == 3
    (tmp_path / "first" / "program").unlink()
    assert exit_code("second", 4) == 4
    (tmp_path / "second" / "program").unlink()
    with pytest.raises(FileNotFoundError) as error:
        programs.start(["program"], cwd=tmp_path, env=env, stdout=2, stderr=2)
    assert error.value.filename == "program"


def test_an_attempt_waits_for_room_on_a_full_disk():
    """Three of them would be over in two seconds otherwise."""
    assert [pause_before(n) < 1 for n in (1, 2)] == [True, True]
    assert all(30 <= pause_before(n, "scratch") <= 60 for n in (1, 2, 3))
