"""A mark and files that only grow, such as logs, in a folder and a store in memory."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.mutants import state as mutants
from tests.unit.state.attempts import Attempt, a_tick, renamed, written
from tidemill.state import WatchedState, scan
from tidemill.state.append_only import AppendOnlyFiles
from tidemill.state.mark import Mark
from tidemill.store import Store


def appended(folder: Path, path: str = "log", data: bytes = b"a line\n") -> None:
    with (folder / path).open("ab") as file:
        file.write(data)


def marked(folder: Path) -> None:
    (folder / ".commit").touch()
    a_tick(folder)


@pytest.fixture(params=["events", "times alone"])
def watched(request, folder, monkeypatch) -> Iterator[WatchedState]:
    """A folder with a checkpoint of two files and a log, which have been looked at while the log grew. A look takes
    the files that do not only grow for rested."""
    monkeypatch.setattr(sys.modules[WatchedState.__module__], "SETTLE_SECONDS", 0.0)
    if request.param == "times alone":
        monkeypatch.setattr(sys.modules[Mark.__module__], "_inotify", lambda: None)
    watched = WatchedState(folder, 60, 50)
    for path in ("model", "optimizer", "db-wal"):
        written(folder, path)
    growing(watched, folder)
    a_tick(folder)
    yield watched
    watched.close()


def growing(watched: WatchedState, folder: Path, *paths: str) -> None:
    for _ in range(3):
        for path in paths or ("log", "db-wal"):
            appended(folder, path)
        watched.look(due=False)


def stands(watched: WatchedState) -> bool:
    watched.look(due=False)
    return watched.asked is not None


@pytest.mark.parametrize(("mutant", "saved"), [(None, True), (mutants.logs_void_marks, False)])
def test_a_log_that_goes_on_does_not_void_a_mark(watched, folder, mutant, saved):
    store = Store.open("memory://")
    attempt = Attempt(store, folder, "a")
    written(folder, "model", b"2")
    (folder / ".commit").touch()
    # Within the tick of the mark, and later; at a look, and while the snapshot is sent.
    appended(folder)
    a_tick(folder)
    appended(folder)
    there = watched.look(due=False)
    assert (watched.asked is not None) == saved
    if saved:
        appended(folder)
        snapshot = attempt.saver.save(there, lambda: False, watched.growing(), watched=watched)
        found = {file.path: store.get(file.object) for file in snapshot.tree.files}
        assert (found["model"], found["log"]) == (b"2", (folder / "log").read_bytes())
        assert snapshot.open == ("log",)


VOID: dict[str, Callable[[Path], object]] = {
    "the next checkpoint": lambda folder: written(folder, "model", b"1, and more"),
    "a new file": lambda folder: written(folder, "new"),
    "a log that is rotated": lambda folder: (renamed(folder, "log", "log.1"), appended(folder)),
    "a log that is begun again": lambda folder: written(folder, "log", b"longer " * 50),
    "a log that is cut": lambda folder: written(folder, "log"),
    "the log of a database": lambda folder: appended(folder, "db-wal"),
}


@pytest.mark.parametrize("within_a_tick", [True, False])
@pytest.mark.parametrize("what", VOID)
def test_a_mark_is_void_after_any_other_write(watched, folder, monkeypatch, what, within_a_tick):
    """The log grows as before, too."""
    if within_a_tick and watched.mark._events is None:
        # Then the mark stands for nothing that may have been written after it.
        monkeypatch.setattr(sys.modules[WatchedState.__module__], "SETTLE_SECONDS", 2.0)
    (folder / ".commit").touch()
    if not within_a_tick:
        a_tick(folder)
    VOID[what](folder)
    a_tick(folder)
    if what != "a log that is rotated":
        appended(folder)
    assert not stands(watched)
    monkeypatch.setattr(sys.modules[WatchedState.__module__], "SETTLE_SECONDS", 0.0)
    marked(folder)
    assert stands(watched)


def test_a_log_that_was_rotated_grows_again(watched, folder):
    renamed(folder, "log", "log.1")
    growing(watched, folder)
    marked(folder)
    appended(folder)
    assert stands(watched)


def test_a_file_that_was_rewritten_once_is_no_log(watched, folder):
    written(folder, "log")
    watched.look(due=False)
    growing(watched, folder)
    marked(folder)
    appended(folder)
    assert not stands(watched)
    assert watched.mark.newer == "log"


@pytest.mark.parametrize(("mutant", "mixed"), [(None, False), (mutants.longer_is_grown, True)])
def test_a_checkpoint_that_becomes_longer_is_no_log(watched, folder, mutant, mixed):
    """It is rewritten in place with a longer one each time, and marked each time."""
    for number in range(8, 12):
        written(folder, "model", b"%d" % number * number)
        watched.look(due=False)
    marked(folder)
    written(folder, "model", b"%d" % 12 * 12)
    assert stands(watched) == mixed


@pytest.mark.parametrize(("mutant", "mixed"), [(None, False), (mutants.grown_since_the_mark, True)])
def test_a_checkpoint_that_is_being_written_is_no_log(watched, folder, mutant, mixed):
    """The one before is marked. The next one is rewritten in place, slowly: all that is seen of it is that it grows."""
    marked(folder)
    written(folder, "model", b"2")
    found = set[bool]()
    for _ in range(5):
        appended(folder, "model", b"2")
        found.add(stands(watched))
    assert (True in found) == mixed


def test_a_file_counts_once_its_bytes_were_found_again(watched, folder):
    """A step that becomes longer by a digit begins as it did."""
    written(folder, "step", b"1")
    watched.look(due=False)
    written(folder, "step", b"10")
    watched.look(due=False)
    marked(folder)
    written(folder, "step", b"100")
    assert not stands(watched)


def test_a_long_file_is_not_compared(watched, folder, monkeypatch):
    monkeypatch.setattr(sys.modules[AppendOnlyFiles.__module__], "MAX_BYTES", 30)
    growing(watched, folder)
    marked(folder)
    appended(folder)
    assert not stands(watched)


@pytest.mark.parametrize("what", ["log", "model"])
def test_a_program_that_ended_after_its_mark_leaves_its_log(watched, folder, what):
    marked(folder)
    appended(folder, what)
    killed = watched.mark._events is not None
    assert watched.whole(scan(folder), by_itself=not killed, succeeded=False) == (what == "log")


def test_a_log_that_is_begun_again_while_files_are_held_ends_the_save(watched, folder):
    marked(folder)
    appended(folder)
    assert stands(watched)
    appended(folder)
    assert watched.still()
    written(folder, "log", b"longer " * 50)
    assert not watched.still()
