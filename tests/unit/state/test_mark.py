"""A mark stands for what was written before it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.state.attempts import a_tick, renamed, written
from tidemill.state import scan
from tidemill.state.hold import held
from tidemill.state.mark import TICK_NS, Mark

AFTER: dict[str, Callable[[Path], object]] = {
    "a new file": lambda folder: written(folder, "new"),
    "a file written again": lambda folder: written(folder, "model", b"2"),
    "one that replaces another": lambda folder: (written(folder, "tmp"), renamed(folder, "tmp", "model")),
    "an old one that replaces another": lambda folder: renamed(folder, "old", "model"),
    "one with the time of another": lambda folder: shutil.copy2(folder / "old", folder / "model"),
    "a file that goes": lambda folder: (folder / "old").unlink(),
    "a file in a folder": lambda folder: written(folder, "sub/new"),
    "a file in a new folder": lambda folder: written(folder, "sub-2/new"),
    "a folder renamed": lambda folder: renamed(folder, "sub", "sub-2"),
}


@pytest.fixture(params=["events", "times alone"])
def mark(request, folder, monkeypatch) -> Iterator[Mark]:
    for path in ("model", "old", "sub/x"):
        written(folder, path)
    if request.param == "times alone":
        monkeypatch.setattr(sys.modules[Mark.__module__], "_inotify", lambda: None)
    mark = Mark(folder)
    mark._told(scan(folder))
    yield mark
    mark.close()


def stands(mark: Mark, folder: Path, *, rested: bool = False) -> bool:
    seen = mark.seen()
    assert seen is not None
    return mark.stands(seen, scan(folder), rested=rested)


@pytest.mark.parametrize("how", ["touched", "touched again", "written", "renamed"])
def test_it_stands_for_what_was_written_before(mark, folder, how):
    if how == "touched again":
        (folder / ".commit").touch()
    written(folder, "model", b"2")
    if how == "renamed":
        written(folder, ".new")
        a_tick(folder)
        renamed(folder, ".new", ".commit")
    elif how == "written":
        written(folder, ".commit", b"epoch 3")
    else:
        (folder / ".commit").touch()
    a_tick(folder)
    assert stands(mark, folder, rested=mark._events is None)


@pytest.mark.parametrize("what", AFTER)
def test_a_mark_does_not_stand_for_later_writes(mark, folder, what):
    (folder / ".commit").touch()
    a_tick(folder)
    AFTER[what](folder)
    assert not stands(mark, folder, rested=True)
    (folder / ".commit").touch()
    a_tick(folder)
    assert stands(mark, folder, rested=True)


@pytest.mark.parametrize("what", AFTER)
def test_a_mark_does_not_stand_for_a_write_within_its_tick(mark, folder, what):
    """As a program does that writes checkpoints back to back."""
    (folder / ".commit").touch()
    AFTER[what](folder)
    # Times cannot tell that nothing was written: then it stands only for a folder that rests.
    assert not stands(mark, folder, rested=mark._events is not None)


def test_our_own_links_change_nothing(mark, folder):
    (folder / ".commit").touch()
    a_tick(folder)
    with held(folder, ["model", "sub/x"], mark.linked):
        a_tick(folder)
    assert stands(mark, folder, rested=True)
    assert (folder / "model").stat().st_ctime_ns > (folder / ".commit").stat().st_mtime_ns + TICK_NS


def test_what_the_kernel_has_forgotten_is_not_known(folder):
    mark = Mark(folder)
    (folder / ".commit").touch()
    written(folder, "model")
    (folder / ".commit").touch()
    mark._happened(-1, 0x4000, "")
    assert mark._order == "unknown"
    mark._read()
    assert mark._order == "marked"
    mark._happened(-1, 0x4000, "")
    assert mark._told(scan(folder)) == "unknown"
    mark.close()


def test_a_folder_with_the_name_of_another_is_not_known(folder):
    """What happens there is not told before it has been seen."""
    written(folder, "sub/x")
    mark = Mark(folder)
    mark._told(scan(folder))
    (folder / "sub").rename(folder.with_name("gone"))
    written(folder, "sub/x")
    (folder / ".commit").touch()
    written(folder, "sub/x", b"2")
    assert mark._told(scan(folder)) == "unknown"
    mark.close()


def test_only_the_mark_that_was_seen_is_removed(mark, folder):
    (folder / ".commit").touch()
    seen = mark.seen()
    assert seen is not None
    a_tick(folder)
    (folder / ".commit").touch()
    mark.remove(seen)
    assert mark.seen() != seen
    again = mark.seen()
    assert again is not None
    mark.remove(again)
    assert mark.seen() is None
