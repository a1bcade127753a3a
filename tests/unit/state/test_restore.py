"""A restore leaves exactly what the snapshot holds. The store is memory."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.state.attempts import Attempt, content, everything, written
from tidemill.state import StateError, restore

LEFT: dict[str, Callable[[Path], object]] = {
    "a folder without its files": lambda folder: (folder / "checkpoint-2").mkdir(),
    "folders in it": lambda folder: (folder / "checkpoint-2/a/b").mkdir(parents=True),
    "half a checkpoint": lambda folder: written(folder, "checkpoint-2/model"),
    "a folder where a file was": lambda folder: ((folder / "last").unlink(), written(folder, "last/part")),
    "a file where a folder was": lambda folder: (shutil.rmtree(folder / "sub"), written(folder, "sub")),
    "a link where a folder was": lambda folder: (shutil.rmtree(folder / "sub"), (folder / "sub").symlink_to("/")),
    "a link where a file was": lambda folder: ((folder / "last").unlink(), (folder / "last").symlink_to("sub/x")),
    "a mark": lambda folder: (folder / ".commit").touch(),
    "a mark that is a folder": lambda folder: (folder / ".commit/x").mkdir(parents=True),
    "a FIFO": lambda folder: os.mkfifo(folder / "pipe"),
    "what nobody may write": lambda folder: (written(folder, "shut/x"), (folder / "shut").chmod(0o500)),
    "nothing": shutil.rmtree,
    "a file in its place": lambda folder: (shutil.rmtree(folder), folder.write_bytes(b"1")),
    "a link in its place": lambda folder: (folder.rename(folder.with_name("x")), folder.symlink_to("x")),
    "part of a transfer": lambda folder: written(folder, ".tidemill-part-1"),
}


@pytest.mark.parametrize("what", LEFT)
@pytest.mark.parametrize("known", [True, False], ids=["the same worker", "another worker"])
def test_nothing_of_a_failed_attempt_stays(store, folder, what, known):
    attempt = Attempt(store, folder, "a")
    written(folder, "sub/x")
    attempt.save(last=b"2")
    LEFT[what](folder)
    again = attempt if known else Attempt(store, folder, "b")
    again.recent = again.snapshots.recent()
    again.restore()
    assert everything(folder) == {"last", "sub", "sub/x"}
    assert content(folder) == {"last": b"2", "sub/x": b"1"}
    assert not folder.is_symlink()


def test_without_a_snapshot_nothing_stays(store, folder):
    attempt = Attempt(store, folder, "a")
    written(folder, "checkpoint-1/model")
    attempt.restore()
    assert everything(folder) == set()


def test_what_is_there_needs_no_room(store, folder):
    """State of 60 on a volume of 100, and a failed attempt has left more."""
    attempt = Attempt(store, folder, "a")
    attempt.save(model=b"1" * 60)
    written(folder, "rest", b"2" * 40)

    def room() -> int:
        return 100 - sum(len(data) for data in content(folder).values())

    for changed in (b"1" * 60, b"3" * 10):
        written(folder, "model", changed)
        attempt.recent = attempt.snapshots.recent()
        attempt.restore(room)
        assert content(folder) == {"model": b"1" * 60}


def test_what_cannot_be_removed_is_named(store, folder, monkeypatch):
    attempt = Attempt(store, folder, "a")
    attempt.restore()
    written(folder, "sub/theirs")
    monkeypatch.setattr(sys.modules[restore.__module__], "remove", lambda path: None)
    line = r"^'sub' in the state folder cannot be removed: it is another user's$"
    with pytest.raises(StateError, match=line):
        attempt.restore()
