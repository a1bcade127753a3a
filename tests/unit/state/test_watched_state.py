"""Looks at a state folder: when it rests, and what a mark that was seen stands for."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Any

import pytest

from tests.unit.state.attempts import Attempt, a_tick, written
from tidemill.state import WatchedState, mapped_files, scan
from tidemill.state.save import ChangedError
from tidemill.state.scan import Scan


class TestWatched:
    @staticmethod
    def _scans_take(seconds: float, folder: Path, patch_time: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = [0.0]
        patch_time(monotonic=lambda: clock[0])

        def slow(self: WatchedState) -> Scan:
            clock[0] += seconds
            return scan(folder)

        monkeypatch.setattr(WatchedState, "scan", slow)

    def test_a_large_folder_that_rests_shortly_is_found_at_rest(self, folder, patch_time, monkeypatch):
        """A look takes so long that the next one is a minute away, and the folder has changed by then."""
        self._scans_take(3, folder, patch_time, monkeypatch)
        watched = WatchedState(folder, 60, 50)
        for n in range(3):
            (folder / "x").write_bytes(b"1" * n)
            waited: list[float] = []
            watched.look(due=n > 0, wait=waited.append)
            assert (waited, watched.quiet is None) == (([2.0], False) if n else ([], True))
            assert watched.pause >= 60

    def test_a_machine_that_stood_still_in_a_look_does_not_delay_the_next(self, folder, patch_time, monkeypatch):
        self._scans_take(3600, folder, patch_time, monkeypatch)
        watched = WatchedState(folder, 60, 50)
        watched.look(due=False)
        assert watched.pause == 60

    def test_a_mark_counts_for_what_is_seen_after_it(self, folder, monkeypatch):
        """The program writes its state and the mark right after a scan."""
        watched = WatchedState(folder, 60, 50)

        def written_after(self: WatchedState) -> Scan:
            there = scan(folder)
            (folder / "x").write_bytes(b"1")
            (folder / ".commit").touch()
            return there

        with monkeypatch.context() as patched:
            patched.setattr(WatchedState, "scan", written_after)
            assert (watched.look(due=False), watched.asked) == ({}, None)
        assert (watched.look(due=False).keys(), watched.asked is not None) == ({"x"}, True)
        watched.taken()
        assert watched.mark.seen() is None

    def test_a_mark_that_was_made_again_stays(self, folder):
        watched, mark = WatchedState(folder, 60, 50), folder / ".commit"
        mark.touch()
        watched.look(due=False)
        os.utime(mark, (1e9, 1e9))
        watched.taken()
        assert watched.mark.seen() is not None


class TestCommit:
    """Saves of a program that makes marks."""

    def test_what_it_writes_while_files_are_held_ends_the_save(self, store, folder, monkeypatch):
        """In the tick in which the file was written, so that neither its size nor its time tells."""
        attempt, watched = Attempt(store, folder, "a"), WatchedState(folder, 60, 50)
        written(folder, "model", b"1")
        (folder / ".commit").touch()
        there = watched.look(due=False)
        assert watched.asked
        link = os.link

        def meanwhile(source: Any, target: Any) -> None:
            link(source, target)
            before = os.stat(folder / "model")
            written(folder, "model", b"2")
            os.utime(folder / "model", ns=(before.st_atime_ns, before.st_mtime_ns))

        monkeypatch.setattr(os, "link", meanwhile)
        with pytest.raises(ChangedError):
            attempt.saver.save(there, lambda: False, watched=watched)
        watched.close()

    def test_a_mapping_is_sent_although_its_time_stays(self, store, folder):
        attempt = Attempt(store, folder, "a")
        attempt.save(index=b"1")
        at = (folder / "index").stat().st_mtime_ns
        with (folder / "index").open("r+b") as opened, mmap.mmap(opened.fileno(), 1) as mapped:
            mapped[0:1] = b"2"
            os.utime(folder / "index", ns=(at, at))
            assert not attempt.saver.differs(scan(folder))
            attempt.saver.mapped(mapped_files(folder))
            assert attempt.saver.differs(scan(folder))
            saved = attempt.save()
            assert store.get(saved.tree.files[0].object) == b"2"
            assert attempt.saver.differs(scan(folder))
        attempt.saver.mapped(mapped_files(folder))
        attempt.save()
        assert not attempt.saver.differs(scan(folder))

    def test_a_folder_that_a_busy_disk_changes_late_is_as_the_mark_left_it(self, folder):
        watched = WatchedState(folder, 60, 50)
        written(folder, "model")
        (folder / ".commit").touch()
        a_tick(folder)
        os.utime(folder)
        assert watched.whole(scan(folder), by_itself=False, succeeded=False)
        written(folder, "more")
        assert not watched.whole(scan(folder), by_itself=False, succeeded=False)
        watched.close()

    @pytest.mark.parametrize(
        ("mark", "killed", "whole"),
        [("before", False, True), ("before", True, True), ("after", False, True), ("between", False, False)],
    )
    def test_what_a_program_leaves_is_whole_up_to_its_mark(self, folder, mark, killed, whole):
        watched = WatchedState(folder, 60, 50)
        for path in ("model", "optimizer"):
            written(folder, path)
            if mark == "between" and path == "model":
                (folder / ".commit").touch()
        if mark != "between":
            (folder / ".commit").touch()
        if mark == "after":
            a_tick(folder)
        assert watched.whole(scan(folder), by_itself=not killed, succeeded=False) == whole
        watched.close()
