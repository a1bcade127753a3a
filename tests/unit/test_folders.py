"""Folders of a user on this machine, which other users may try to take first."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidemill import folders
from tidemill.errors import CallerError

MAKE = "from tidemill.folders import temporary_folder; print(temporary_folder('code'), flush=True); "


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    monkeypatch.setenv("TIDEMILL_SCRATCH", str(tmp_path / "scratch"))
    folders._folder_of_this_process.cache_clear()
    yield tmp_path / "scratch" / "clients"
    folders._folder_of_this_process.cache_clear()


def made_by(code, **options):
    """A process that makes a folder and then does something; and the folder."""
    process = subprocess.Popen([sys.executable, "-c", MAKE + code], stdout=subprocess.PIPE, text=True, **options)
    assert process.stdout
    return process, Path(process.stdout.readline().strip())


def test_the_next_process_removes_what_a_killed_one_left_and_leaves_that_of_a_live_one(scratch):
    live, kept = made_by("input()", stdin=subprocess.PIPE)
    dead, left = made_by("input()", stdin=subprocess.PIPE)
    dead.kill()
    dead.wait(60)
    assert left.is_dir()
    own = folders.temporary_folder("code")
    assert (left.parent.exists(), kept.is_dir(), own.is_dir()) == (False, True, True)
    live.communicate("\n", timeout=60)
    assert [path.name for path in scratch.iterdir()] == [own.parent.name]


def test_a_fork_keeps_the_folder_and_does_not_remove_it(scratch):
    after = (
        "import os, sys; pid = os.fork(); pid or sys.exit(0); os.waitpid(pid, 0); print('ended', flush=True); input()"
    )
    process, folder = made_by(after, stdin=subprocess.PIPE)
    assert process.stdout
    # The fork ends by a SystemExit, which runs what is registered for the end of a process.
    assert process.stdout.readline() == "ended\n"
    own = folders.temporary_folder("code")
    assert folder.is_dir()
    process.communicate("\n", timeout=60)
    assert not folder.exists()
    assert own.is_dir()


def test_a_folder_that_was_cleared_away_is_made_again(scratch):
    first = folders.temporary_folder("code")
    os.rmdir(first)
    os.rmdir(first.parent)
    assert folders.temporary_folder("items").is_dir()


def test_a_folder_that_another_user_has_taken_first_is_refused(scratch, monkeypatch):
    scratch.parent.mkdir()
    if os.getuid() == 0:
        os.chown(scratch.parent, 12345, 12345)
    else:
        monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(CallerError, match="belongs to another user") as refused:
        folders.temporary_folder("code")
    assert "TIDEMILL_SCRATCH" in str(refused.value)
    assert list(scratch.parent.iterdir()) == []


def test_a_link_in_place_of_the_folder_of_clients_is_refused(scratch, tmp_path):
    scratch.parent.mkdir()
    (tmp_path / "home").mkdir(mode=0o700)
    scratch.symlink_to(tmp_path / "home")
    with pytest.raises(CallerError, match="not a folder that only you may write to"):
        folders.temporary_folder("code")
