"""What is in a state folder, and what cannot be kept."""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.unit.state.attempts import Attempt, content, everything
from tidemill.state import StateError, WatchedState, open_files, scan


def a_socket(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(os.path.relpath(folder / "odd"))


def too_deep(folder: Path) -> None:
    """Folders in folders, until no path is long enough."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(20):
        os.mkdir("d" * 255, dir_fd=here)
        deeper = os.open("d" * 255, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)


def replaced(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))
    folder.symlink_to("moved")


ODD: dict[str, tuple[Callable[[Path], object], str]] = {
    "a FIFO": (
        lambda folder: os.mkfifo(folder / "odd"),
        "'odd' in the state folder is a FIFO, neither a file nor a folder",
    ),
    "a socket": (a_socket, "'odd' in the state folder is a socket, neither a file nor a folder"),
    "a link outside": (
        lambda folder: (folder / "odd").symlink_to(folder.parent),
        "'odd' in the state folder is a link that leads outside it",
    ),
    "a link to nowhere": (
        lambda folder: (folder / "odd").symlink_to("/nowhere"),
        "'odd' in the state folder is a link that leads outside it",
    ),
    "a link to a folder": (
        lambda folder: ((folder / "sub").mkdir(), (folder / "odd").symlink_to("sub")),
        "'odd' in the state folder is a link to a folder",
    ),
    "a link to itself": (
        lambda folder: (folder / "odd").symlink_to("odd"),
        "'odd' in the state folder cannot be read: Too many levels of symbolic links",
    ),
    "a name with a line": (
        lambda folder: os.mkfifo(folder / "a\nb"),
        "'a\\nb' in the state folder is a FIFO, neither a file nor a folder",
    ),
    "a mark that is a folder": (
        lambda folder: (folder / ".commit").mkdir(),
        "'.commit' in the state folder is a folder, not a file: make it with `touch`",
    ),
    "a mark that is a FIFO": (
        lambda folder: os.mkfifo(folder / ".commit"),
        "'.commit' in the state folder is a FIFO, not a file: make it with `touch`",
    ),
    "a mark that is a link": (
        lambda folder: (folder / ".commit").symlink_to("model"),
        "'.commit' in the state folder is a link, not a file: make it with `touch`",
    ),
    "folders too deep": (too_deep, f"'{'d' * 76}... in the state folder cannot be read: File name too long"),
    "no folder": (shutil.rmtree, "the state folder is gone: the program removed or moved it"),
    "a file in its place": (
        lambda folder: (shutil.rmtree(folder), folder.write_bytes(b"1")),
        "the state folder is gone: the program removed or moved it",
    ),
    "a link in its place": (replaced, "the state folder is a link: the program has replaced it"),
}


def test_files_links_and_folders(folder):
    (folder / "sub").mkdir()
    (folder / "sub/x").write_bytes(b"123")
    (folder / "last").symlink_to("sub/x")
    (folder / ".commit").touch()
    assert {path: seen.size for path, seen in scan(folder).items()} == {"sub/x": 3, "last": 3}


def test_names_of_any_kind_come_back(store, folder, tmp_path):
    for name in (b"new\nline", b"\xff", "ü".encode()):
        (folder / os.fsdecode(name)).write_bytes(name)
    Attempt(store, folder, "a").save()
    second = Attempt(store, tmp_path / "other", "b")
    second.restore()
    assert content(second.folder) == content(folder)
    assert len(content(folder)) == 3


@pytest.mark.parametrize("odd", ODD)
def test_what_cannot_be_kept_is_named(store, folder, odd, tmp_path):
    """Nothing of it is in the way of the next attempt."""
    attempt = Attempt(store, folder, "a")
    attempt.save(model=b"1")
    make, line = ODD[odd]
    make(folder)
    with pytest.raises(StateError) as error:
        scan(folder)
    assert str(error.value).splitlines()[0] == line
    attempt.recent = attempt.snapshots.recent()
    attempt.restore()
    assert everything(folder) == {"model"}


def test_a_folder_that_cannot_be_read_is_named(folder, monkeypatch):
    monkeypatch.setattr(os, "scandir", Mock(side_effect=PermissionError(errno.EACCES, "Permission denied")))
    with pytest.raises(StateError, match=r"^the state folder cannot be read: Permission denied$"):
        scan(folder)


def test_a_mark_that_cannot_be_removed_is_named(folder, monkeypatch):
    watched = WatchedState(folder, 60, 50)
    (folder / ".commit").touch()
    watched.look(due=False)
    monkeypatch.setattr(Path, "unlink", Mock(side_effect=PermissionError(errno.EACCES, "Permission denied")))
    with pytest.raises(StateError, match=r"^'\.commit' in the state folder cannot be removed: Permission denied$"):
        watched.taken()
    watched.close()


def test_a_file_larger_than_any_disk_is_refused_by_its_size(folder):
    with (folder / "sparse").open("wb") as file:
        file.truncate(2**43)
    watched = WatchedState(folder, 60, 50)
    line = r"^the state folder holds 8192.0 GiB, and its limit is 50 GiB \(max_gib\)$"
    with pytest.raises(StateError, match=line):
        watched.look(due=False)
    watched.close()


def test_more_files_than_a_snapshot_lists_are_refused(folder, monkeypatch):
    monkeypatch.setattr(sys.modules[scan.__module__], "MAX_FILES", 2)
    for name in "abc":
        (folder / name).touch()
    with pytest.raises(StateError, match="more than 2 files; pack them"):
        scan(folder)


def test_open_files_are_those_open_for_writing(folder):
    for name in ("read", "write", "mapped", "closed"):
        (folder / name).write_bytes(b"1")
    with (folder / "read").open("rb"), (folder / "write").open("ab"):
        with (folder / "mapped").open("r+b") as opened:
            mapped = mmap.mmap(opened.fileno(), 1)
        assert open_files(folder) == {"write", "mapped"}
        mapped.close()
    assert open_files(folder) == set()
