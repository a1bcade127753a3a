"""State: scans, snapshots, the fence, names that are used again, and which snapshot is chosen. The store is memory."""

from __future__ import annotations

import errno
import json
import mmap
import os
import socket
import sys
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import obstore
import pytest

from tidemill import layout
from tidemill.errors import DamagedError, StoreError
from tidemill.state import (
    Saver,
    Snapshot,
    Snapshots,
    StateError,
    SupersededError,
    WatchedState,
    choose,
    open_files,
    restore,
    scan,
    without_progress,
)
from tidemill.state.choose import no_progress_words
from tidemill.state.save import ChangedError
from tidemill.state.scan import Scan
from tidemill.state.settle import Settle
from tidemill.store import Store
from tidemill.tree import Tree, TreeFile

JOB = "t-00000000"


@pytest.fixture
def store() -> Store:
    return Store.open("memory://")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir()
    return tmp_path / "state"


class Attempt:
    """An attempt on item 0, with its folder."""

    def __init__(self, store: Store, folder: Path, name: str, round_: int = 0) -> None:
        self.snapshots, self.folder = Snapshots(store, JOB, 0), folder
        self.recent = self.snapshots.recent()
        self.claim = self.snapshots.claim(name, round_, "", self.recent[0] if self.recent else None)
        self.saver = Saver(self.snapshots, folder)

    def restore(self) -> Snapshot | None:
        found = restore(
            self.snapshots.store,
            choose([self.claim, *self.recent]),
            self.folder,
            kept=self.saver.kept,
            stop=lambda: False,
            room=None,
            note=lambda text: None,
        )
        self.saver.restored(found)
        return found

    def save(self, **files: bytes) -> Snapshot:
        for name, data in files.items():
            (self.folder / name).write_bytes(data)
        return self.saver.save(scan(self.folder), lambda: False)


def content(folder: Path) -> dict[str, bytes]:
    return {path: (folder / path).read_bytes() for path in scan(folder)}


def objects(store: Store) -> set[str]:
    return {name for name in store.list(layout.state(JOB, 0)) if "/snapshots/" not in name}


class TestSnapshots:
    def test_the_next_attempt_has_what_the_last_snapshot_held(self, store, folder, tmp_path):
        first = Attempt(store, folder, "a")
        assert first.restore() is None
        first.save(x=b"1", y=b"2")
        (folder / "y").unlink()
        assert first.save(x=b"11").bytes == 2
        second = Attempt(store, tmp_path / "other", "b")
        assert second.claim.origin == 3
        second.restore()
        assert content(second.folder) == {"x": b"11"}

    def test_what_did_not_change_is_not_sent_again(self, store, folder, tmp_path):
        Attempt(store, folder, "a").save(x=b"1", y=b"2")
        second = Attempt(store, tmp_path / "other", "b")
        second.restore()
        assert not second.saver.differs(scan(second.folder))
        assert second.save(y=b"22").bytes == 2
        assert len(objects(store)) == 3

    def test_a_later_attempt_ends_an_earlier_one(self, store, folder):
        first = Attempt(store, folder, "a")
        first.save(x=b"1")
        first.snapshots.check()
        second = Attempt(store, folder, "b")
        with pytest.raises(SupersededError):
            first.snapshots.check()
        with pytest.raises(SupersededError):
            first.save(x=b"2")
        assert second.snapshots.newest() == second.claim

    def test_of_two_attempts_that_begin_at_once_the_later_sees_all(self, store, folder):
        """The first one saves between the look and the claim of the second."""
        first, second = Attempt(store, folder, "a"), Snapshots(store, JOB, 0)
        known = second.newest()
        saved = first.save(x=b"1")
        claim = second.claim("b", 0, "", known)
        assert (claim.seq, claim.origin, claim.tree) == (saved.seq + 1, saved.seq, saved.tree)

    def test_a_commit_whose_answer_was_lost_is_not_another_attempt(self, store, folder, monkeypatch):
        attempt = Attempt(store, folder, "a")
        create = Store.create

        def lost(self: Store, name: str, data: bytes) -> object:
            create(self, name, data)
            raise StoreError("no answer")

        with monkeypatch.context() as patched:
            patched.setattr(Store, "create", lost)
            with pytest.raises(StoreError):
                attempt.save(x=b"1")
        assert attempt.save(x=b"12").seq == 3
        first = store.get(attempt.snapshots.recent()[1].tree.files[0].object)
        assert first == b"1"

    def test_names_are_used_again_and_two_snapshots_stay_whole(self, store, folder):
        attempt = Attempt(store, folder, "a")
        attempt.save(b=b"same")
        for n in range(20):
            attempt.save(a=b"%d" % n, c=b"x%d" % n)
            for snapshot in attempt.snapshots.recent()[:2]:
                for file in snapshot.tree.files if snapshot.origin else ():
                    assert len(store.get(file.object)) == file.size
        assert len(objects(store)) <= 1 + 3 * 2

    def test_a_file_that_changes_while_it_is_saved_commits_nothing(self, store, folder, monkeypatch):
        attempt = Attempt(store, folder, "a")
        (folder / "x").write_bytes(b"1")
        seen = scan(folder)
        (folder / "x").write_bytes(b"22")
        with pytest.raises(ChangedError):
            attempt.saver.save(seen, lambda: False)
        assert attempt.snapshots.newest() == attempt.claim

    @pytest.mark.parametrize("how", ["replaced", "removed"])
    def test_a_file_that_goes_while_it_is_saved_is_saved_as_it_was(self, store, folder, monkeypatch, how):
        """As programs do that write a checkpoint under another name first."""
        attempt = Attempt(store, folder, "a")
        (folder / "x").write_bytes(b"1")
        seen, upload = scan(folder), Store.upload

        def meanwhile(self: Store, *arguments: Any, **options: Any) -> object:
            (folder / "x").unlink()
            if how == "replaced":
                (folder / "new").write_bytes(b"22")
                (folder / "new").rename(folder / "x")
            return upload(self, *arguments, **options)

        with monkeypatch.context() as patched:
            patched.setattr(Store, "upload", meanwhile)
            saved = attempt.saver.save(seen, lambda: False)
        assert store.get(saved.tree.files[0].object) == b"1"
        assert attempt.saver.differs(scan(folder))
        assert [path.name for path in folder.parent.iterdir()] == ["state"]

    def test_without_hard_links_a_file_is_read_where_it_is(self, store, folder, monkeypatch):
        attempt = Attempt(store, folder, "a")
        monkeypatch.setattr(os, "link", Mock(side_effect=OSError(errno.EPERM, "no links")))
        assert store.get(attempt.save(x=b"1").tree.files[0].object) == b"1"

    def test_a_damaged_object_costs_one_snapshot(self, store, folder, tmp_path):
        attempt = Attempt(store, folder, "a")
        attempt.save(x=b"1")
        last = attempt.save(x=b"2")
        store.put(last.tree.files[0].object, b"3")
        second = Attempt(store, tmp_path / "other", "b")
        second.restore()
        assert content(second.folder) == {"x": b"1"}

    def test_without_a_whole_snapshot_nothing_begins_from_zero(self, store, folder, tmp_path):
        saved = Attempt(store, folder, "a").save(x=b"1")
        obstore.delete(store._backend, saved.tree.files[0].object)
        with pytest.raises(DamagedError, match="None of the snapshots"):
            Attempt(store, tmp_path / "other", "b").restore()

    def test_a_file_that_cannot_be_read_is_named(self, store, folder, monkeypatch):
        attempt = Attempt(store, folder, "a")
        refused = Mock(side_effect=PermissionError(errno.EACCES, "Permission denied"))
        monkeypatch.setattr(Store, "upload", refused)
        with pytest.raises(StateError, match=r"'x' in the state folder cannot be read: Permission denied"):
            attempt.save(x=b"1")

    def test_a_disk_that_is_full_is_no_damage(self, store, folder, tmp_path, monkeypatch):
        """The item is told so, and its snapshots stay as they are."""
        Attempt(store, folder, "a").save(x=b"1")
        second = Attempt(store, tmp_path / "other", "b")
        with monkeypatch.context() as full:
            full.setattr(os, "replace", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
            with pytest.raises(OSError, match="No space left"):
                second.restore()
        second.restore()
        assert content(second.folder) == {"x": b"1"}

    def test_what_a_newer_worker_has_written_is_read_or_passed_over(self, store, folder):
        attempt = Attempt(store, folder, "a")
        saved = attempt.save(x=b"1")
        name = layout.snapshot(JOB, 0, saved.seq)
        fields = json.loads(store.get(name))
        store.put(name, json.dumps(fields | {"mood": "good"}).encode())
        assert attempt.snapshots.newest() == saved
        store.put(name, json.dumps({**fields, "files": {"packed": "x"}}).encode())
        assert attempt.snapshots.newest() == attempt.claim

    def test_a_snapshot_that_cannot_be_read_is_passed_over(self, store, folder):
        attempt = Attempt(store, folder, "a")
        attempt.save(x=b"1")
        last = attempt.save(x=b"2")
        store.put(layout.snapshot(JOB, 0, last.seq), b"{}")
        assert [one.seq for one in Snapshots(store, JOB, 0).recent()] == [2, 1]


def snapshot(seq: int, kind: str = "snapshot", origin: int | None = None, round_: int = 0) -> Snapshot:
    origin = seq if origin is None else origin
    tree = Tree((TreeFile("x", origin, None, "o"),))
    return Snapshot(seq, kind, origin, f"a{seq}", round_, "2026-01-01T00:00:00+00:00", tree)  # type: ignore[arg-type]


class TestChoice:
    def test_the_newest_comes_first(self):
        found = [snapshot(4, "claim", 3), snapshot(3), snapshot(2)]
        assert [one.origin for one in choose(found)] == [3, 2]

    @pytest.mark.parametrize(("failures", "first"), [(0, 3), (1, 3), (2, 2), (3, 2)])
    def test_two_quick_failures_choose_the_one_before(self, failures, first):
        newer = [snapshot(4 + n, "failure", 3) for n in range(failures)]
        assert choose([*newer[::-1], snapshot(3), snapshot(2)])[0].origin == first

    def test_the_only_snapshot_is_never_given_up(self):
        assert [one.origin for one in choose([snapshot(3, "failure", 1), snapshot(2, "failure", 1), snapshot(1)])] == [
            1
        ]

    def test_claims_without_a_snapshot_between_are_no_progress(self):
        claims = [snapshot(n, "claim", 1) for n in (5, 4, 3, 2)]
        assert [one.seq for one in without_progress([*claims, snapshot(1)], 0, "")] == [2, 3, 4, 5]
        assert len(without_progress([claims[0], snapshot(9, "failure", 1), claims[1]], 0, "")) == 1
        assert without_progress(claims, 1, "") == []

    def test_a_clock_that_jumps_back_makes_no_time_negative(self):
        words = no_progress_words([snapshot(2, "claim"), snapshot(3, "claim")], datetime(2025, 12, 31, tzinfo=UTC))
        assert "0 s, 0 s" in words


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
        assert not watched.asks

    def test_a_mark_that_was_made_again_stays(self, folder):
        watched, mark = WatchedState(folder, 60, 50), folder / ".commit"
        mark.touch()
        watched.look(due=False)
        os.utime(mark, (1e9, 1e9))
        watched.taken()
        assert watched.asks


class TestSettle:
    """Intervals of 60 s; looks as often as the settle time says."""

    @staticmethod
    def rests_found(longest_rest: float, until: float = 1000.0) -> list[float]:
        """When a program that never rests longer is found at rest."""
        settle, now, due, found = Settle(60, 0.0), 0.0, 60.0, list[float]()
        while (now := now + settle.seconds) < until:
            rests = settle.seconds < longest_rest
            if now < due and rests:
                settle.rested(now)
            elif now >= due and not rests:
                settle.restless(now)
            elif rests:
                found.append(now)
                due = now + 60
        return found

    def test_two_seconds_when_the_program_rests(self):
        settle = Settle(60, 0.0)
        settle.restless(59.0)
        assert settle.seconds == 2.0
        settle.rested(60.0)
        settle.restless(119.0)
        assert settle.seconds == 2.0

    @pytest.mark.parametrize(("rest", "first"), [(1.5, 60), (0.3, 90), (0.15, 105)])
    def test_as_long_as_a_program_rests_that_never_rests_longer(self, rest, first):
        """It takes a quarter of an interval for each half, and is near the right time from then on."""
        found = self.rests_found(rest)
        assert first <= found[0] <= first + 4
        assert max(b - a for a, b in pairwise(found)) <= 60 + 15 + 4

    def test_a_program_that_becomes_calm_must_rest_for_two_seconds_again(self):
        settle = Settle(60, 0.0)
        for now in range(60, 300, 2):
            settle.restless(now)
        assert settle.seconds == 0.1
        for now in range(300, 305):
            settle.rested(now)
        assert settle.seconds == 2.0

    def test_short_intervals_have_shorter_times(self):
        assert Settle(1, 0.0).seconds == 0.25


class TestScan:
    def test_files_links_and_folders(self, folder):
        (folder / "sub").mkdir()
        (folder / "sub/x").write_bytes(b"123")
        (folder / "last").symlink_to("sub/x")
        (folder / ".commit").touch()
        assert {path: seen.size for path, seen in scan(folder).items()} == {"sub/x": 3, "last": 3}

    def test_names_of_any_kind_come_back(self, store, folder, tmp_path):
        for name in (b"new\nline", b"\xff", "ü".encode()):
            (folder / os.fsdecode(name)).write_bytes(name)
        Attempt(store, folder, "a").save()
        second = Attempt(store, tmp_path / "other", "b")
        second.restore()
        assert content(second.folder) == content(folder)
        assert len(content(folder)) == 3

    @pytest.mark.parametrize("kind", ["a FIFO", "a socket", "outside", "nowhere", "to a folder", "is gone"])
    def test_what_cannot_be_kept_is_named(self, folder, kind, tmp_path):
        odd = folder / "odd"
        if kind == "a FIFO":
            os.mkfifo(odd)
        elif kind == "a socket":
            with socket.socket(socket.AF_UNIX) as bound:
                bound.bind(os.path.relpath(odd))
        elif kind == "is gone":
            folder.rmdir()
        else:
            (folder / "sub").mkdir()
            odd.symlink_to({"outside": tmp_path, "nowhere": "/nowhere", "to a folder": "sub"}[kind])
        with pytest.raises(StateError, match="outside" if kind == "nowhere" else kind):
            scan(folder)

    def test_more_files_than_a_snapshot_lists_are_refused(self, folder, monkeypatch):
        monkeypatch.setattr(sys.modules[scan.__module__], "MAX_FILES", 2)
        for name in "abc":
            (folder / name).touch()
        with pytest.raises(StateError, match="more than 2 files; pack them"):
            scan(folder)

    def test_open_files_are_those_that_somebody_writes(self, folder):
        for name in ("read", "write", "mapped", "closed"):
            (folder / name).write_bytes(b"1")
        with (folder / "read").open("rb"), (folder / "write").open("ab"):
            with (folder / "mapped").open("r+b") as opened:
                mapped = mmap.mmap(opened.fileno(), 1)
            assert open_files(folder) == {"write", "mapped"}
            mapped.close()
        assert open_files(folder) == set()
