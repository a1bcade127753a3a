"""Answers that are kept: torn files, two programs at once, clocks that jump, and folders that cannot be written to."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from tidemill.advice.cache import KEPT_SECONDS, Cache
from tidemill.advice.calls import Call, ask_all
from tidemill.advice.sources import NoAnswerError, NoPermissionError, ThrottledError
from tidemill.errors import CallerError, CloudError


def raising(error: Exception):
    def fetch() -> None:
        raise error

    return fetch


def test_an_answer_is_found_while_it_is_fresh(tmp_path: Path):
    now = [1000.0]
    cache = Cache(tmp_path, lambda: now[0])
    assert cache.find(["a"], 60) is None
    cache.keep(["a"], {"b": [1, None]})
    now[0] = 1060.0
    assert cache.find(["a"], 60) == (1000.0, {"b": [1, None]})
    assert cache.find(["other"], 60) is None
    now[0] = 1061.0
    assert cache.find(["a"], 60) is None


@pytest.mark.parametrize("jump", [-3600.0, 3600.0])
def test_a_clock_that_jumps_makes_answers_old_never_new(tmp_path: Path, jump: float):
    now = [100_000.0]
    cache = Cache(tmp_path, lambda: now[0])
    cache.keep(["a"], 1)
    now[0] += jump
    assert cache.find(["a"], 600) is None


@pytest.mark.parametrize(
    "torn", [b"", b"{", b"[]", b"null", b'{"format": 1}', b'{"format": 2, "at": 0, "data": 1}', b"\xff"]
)
def test_a_torn_file_counts_as_missing(tmp_path: Path, torn: bytes):
    cache = Cache(tmp_path)
    cache.keep(["a"], 1)
    next(tmp_path.iterdir()).write_bytes(torn)
    assert cache.find(["a"], 600) is None
    cache.keep(["a"], 2)
    assert cache.find(["a"], 600)[1] == 2  # type: ignore[index]


def test_two_at_once_leave_a_whole_file(tmp_path: Path):
    long = ["x" * 200_000, "y" * 200_000]

    def write(text: str) -> None:
        for _ in range(20):
            Cache(tmp_path).keep(["a"], text)

    threads = [threading.Thread(target=write, args=(text,)) for text in long]
    for each in threads:
        each.start()
    while any(each.is_alive() for each in threads):
        found = Cache(tmp_path).find(["a"], 600)
        assert found is None or found[1] in long
    for each in threads:
        each.join(60)
    assert [path.suffix for path in tmp_path.iterdir()] == [".json"]


def test_a_folder_that_cannot_be_written_to_costs_only_the_calls(tmp_path: Path):
    """The folder is a file: root may write everywhere else."""
    (tmp_path / "file").write_text("")
    cache = Cache(tmp_path / "file" / "advice")
    replies = ask_all([Call("a", "r", [], 600, lambda: 7)], cache)
    assert (replies[0].data, replies[0].gap) == (7, None)
    assert cache.find(["a", "r", []], 600) is None


def test_old_files_are_deleted(tmp_path: Path):
    cache = Cache(tmp_path)
    cache.keep(["old"], 1)
    old = next(tmp_path.iterdir())
    then = time.time() - KEPT_SECONDS - 10
    os.utime(old, (then, then))
    cache.keep(["new"], 2)
    assert not old.exists()
    assert cache.find(["new"], 60)


@pytest.mark.parametrize(
    ("error", "shown"),
    [(ThrottledError("busy"), True), (NoAnswerError("cut"), True), (NoPermissionError("no"), False)],
)
def test_an_old_answer_stands_in_unless_the_cloud_says_no(tmp_path: Path, error: CloudError, shown: bool):
    now = [1000.0]
    cache = Cache(tmp_path, lambda: now[0])
    ask_all([Call("a", "r", [], 0, lambda: 7)], cache)
    now[0] += 1
    (reply,) = ask_all([Call("a", "r", [], 0, raising(error))], cache)
    assert reply.data == (7 if shown else None)
    assert reply.gap
    assert reply.gap.error is error
    assert (reply.gap.at == reply.at is not None) == shown


def test_a_caller_error_is_raised(tmp_path: Path):
    with pytest.raises(CallerError):
        ask_all([Call("a", "r", [], 0, raising(CallerError("boto3 is missing.")))], Cache(tmp_path))


def test_calls_run_side_by_side_and_keep_their_order(tmp_path: Path):
    together = threading.Barrier(3, timeout=60)
    calls = [Call(str(number), "r", [], 0, lambda number=number: [together.wait(), number][1]) for number in range(3)]
    assert [reply.data for reply in ask_all(calls, Cache(tmp_path))] == [0, 1, 2]


def test_one_that_does_not_answer_does_not_hold_up_the_others(tmp_path: Path):
    never, ended = threading.Event(), threading.Event()
    hangs = Call("slow", "r", [], 0, lambda: (never.wait(60), ended.set()))
    slow, quick = ask_all([hangs, Call("quick", "r", [], 0, lambda: 1)], Cache(tmp_path), seconds=2)
    assert not ended.is_set()
    never.set()
    assert quick.data == 1
    assert slow.gap
    assert isinstance(slow.gap.error, NoAnswerError)
