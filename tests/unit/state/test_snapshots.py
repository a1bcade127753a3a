"""State: scans, snapshots, the fence, names that are used again, and which snapshot is chosen. The store is memory."""

from __future__ import annotations

import errno
import json
import mmap
import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import obstore
import pytest

from tests.unit.state.attempts import JOB, Attempt, Expiring, a_tick, renamed, written
from tidemill import layout
from tidemill.errors import DamagedError, StoreError
from tidemill.state import (
    Snapshot,
    Snapshots,
    StateError,
    SupersededError,
    WatchedState,
    choose,
    mapped_files,
    open_files,
    restore,
    scan,
    without_progress,
)
from tidemill.state.choose import no_progress_words
from tidemill.state.hold import held
from tidemill.state.mark import TICK_NS, Mark
from tidemill.state.save import ChangedError
from tidemill.state.scan import Scan
from tidemill.state.settle_time import SettleTime
from tidemill.store import Store
from tidemill.tree import Tree, TreeFile, fetch_tree


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
            place = Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
            full.setitem(fetch_tree.__kwdefaults__, "place", place)
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


class TestExpiry:
    @pytest.mark.parametrize(("expire", "lasts"), [(30, 1), (14, 1), (14, 5), (14, 0.3), (30, 20)])
    def test_nothing_that_an_item_needs_expires(self, tmp_path, patch_time, expire, lasts):
        """However short or long its attempts are. What its first one has sent would be gone in half of the time."""
        world = Expiring(tmp_path / "bucket", expire, patch_time)
        for n in range(round(2.2 * expire / lasts)):
            attempt = world.attempt(tmp_path / f"machine-{n}", f"a{n}")
            assert content(attempt.folder).keys() >= {"tokenizer"}
            for hour in range(4):
                (attempt.folder / "model").write_bytes(b"m" * (n + hour))
                attempt.save()
                world.pass_days(lasts / 4)

    def test_a_machine_that_goes_saves_only_what_changed(self, tmp_path, patch_time):
        world = Expiring(tmp_path / "bucket", 30, patch_time)
        world.attempt(tmp_path / "a", "a").save(model=b"1")
        world.pass_days(8)
        second = world.attempt(tmp_path / "b", "b")
        there = scan(second.folder)
        assert second.saver.differs(there)
        assert not second.saver.differs(there, hurry=True)
        assert second.saver.changed_bytes(there) == 0
        (second.folder / "model").write_bytes(b"22")
        assert second.saver.save(scan(second.folder), lambda: False, hurry=True).bytes == 2
        assert second.save().bytes == 1000


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

    def test_failures_of_another_round_do_not_count(self):
        """Before a retry, people correct what was wrong."""
        failures = [snapshot(6, "failure", 2, 1), snapshot(5, "failure", 3, 1), snapshot(4, "failure", 3, 1)]
        found = [*failures, snapshot(3), snapshot(2)]
        assert choose(found)[0].origin == 2
        assert choose([snapshot(7, "claim", 2, 2), *found])[0].origin == 3

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
        assert watched.mark.seen() is None

    def test_a_mark_that_was_made_again_stays(self, folder):
        watched, mark = WatchedState(folder, 60, 50), folder / ".commit"
        mark.touch()
        watched.look(due=False)
        os.utime(mark, (1e9, 1e9))
        watched.taken()
        assert watched.mark.seen() is not None


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


class TestMark:
    """A mark stands for what was written before it."""

    @pytest.fixture(params=["events", "times alone"])
    def mark(self, request, folder, monkeypatch) -> Iterator[Mark]:
        for path in ("model", "old", "sub/x"):
            written(folder, path)
        if request.param == "times alone":
            monkeypatch.setattr(sys.modules[Mark.__module__], "_inotify", lambda: None)
        mark = Mark(folder)
        mark._told(scan(folder))
        yield mark
        mark.close()

    @staticmethod
    def stands(mark: Mark, folder: Path, *, rested: bool = False) -> bool:
        seen = mark.seen()
        assert seen is not None
        return mark.stands(seen, scan(folder), rested=rested)

    @pytest.mark.parametrize("how", ["touched", "touched again", "written", "renamed"])
    def test_it_stands_for_what_was_written_before(self, mark, folder, how):
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
        assert self.stands(mark, folder, rested=mark._events is None)

    @pytest.mark.parametrize("what", AFTER)
    def test_a_mark_does_not_stand_for_later_writes(self, mark, folder, what):
        (folder / ".commit").touch()
        a_tick(folder)
        AFTER[what](folder)
        assert not self.stands(mark, folder, rested=True)
        (folder / ".commit").touch()
        a_tick(folder)
        assert self.stands(mark, folder, rested=True)

    @pytest.mark.parametrize("what", AFTER)
    def test_a_mark_does_not_stand_for_a_write_within_its_tick(self, mark, folder, what):
        """As a program does that writes checkpoints back to back."""
        (folder / ".commit").touch()
        AFTER[what](folder)
        # Times cannot tell that nothing was written: then it stands only for a folder that rests.
        assert not self.stands(mark, folder, rested=mark._events is not None)

    def test_our_own_links_change_nothing(self, mark, folder):
        (folder / ".commit").touch()
        a_tick(folder)
        with held(folder, ["model", "sub/x"], mark.linked):
            a_tick(folder)
        assert self.stands(mark, folder, rested=True)
        assert (folder / "model").stat().st_ctime_ns > (folder / ".commit").stat().st_mtime_ns + TICK_NS

    def test_what_the_kernel_has_forgotten_is_not_known(self, folder):
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

    def test_a_folder_with_the_name_of_another_is_not_known(self, folder):
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

    def test_only_the_mark_that_was_seen_is_removed(self, mark, folder):
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


class TestSettle:
    """Intervals of 60 s; looks as often as the settle time says."""

    @staticmethod
    def rests_found(longest_rest: float, until: float = 1000.0) -> list[float]:
        """When a program that never rests longer is found at rest."""
        settle, now, due, found = SettleTime(60, 0.0), 0.0, 60.0, list[float]()
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
        settle = SettleTime(60, 0.0)
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
        settle = SettleTime(60, 0.0)
        for now in range(60, 300, 2):
            settle.restless(now)
        assert settle.seconds == 0.1
        for now in range(300, 305):
            settle.rested(now)
        assert settle.seconds == 2.0

    def test_short_intervals_have_shorter_times(self):
        assert SettleTime(1, 0.0).seconds == 0.25


def everything(folder: Path) -> set[str]:
    """Every file, folder and whatever else there is."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


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


class TestRestore:
    """A restore leaves exactly what the snapshot holds."""

    @pytest.mark.parametrize("what", LEFT)
    @pytest.mark.parametrize("known", [True, False], ids=["the same worker", "another worker"])
    def test_nothing_of_a_failed_attempt_stays(self, store, folder, what, known):
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

    def test_without_a_snapshot_nothing_stays(self, store, folder):
        attempt = Attempt(store, folder, "a")
        written(folder, "checkpoint-1/model")
        attempt.restore()
        assert everything(folder) == set()

    def test_what_is_there_needs_no_room(self, store, folder):
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

    def test_what_cannot_be_removed_is_named(self, store, folder, monkeypatch):
        attempt = Attempt(store, folder, "a")
        attempt.restore()
        written(folder, "sub/theirs")
        monkeypatch.setattr(sys.modules[restore.__module__], "remove", lambda path: None)
        line = r"^'sub' in the state folder cannot be removed: it is another user's$"
        with pytest.raises(StateError, match=line):
            attempt.restore()


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

    @pytest.mark.parametrize("odd", ODD)
    def test_what_cannot_be_kept_is_named(self, store, folder, odd, tmp_path):
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

    def test_a_folder_that_cannot_be_read_is_named(self, folder, monkeypatch):
        monkeypatch.setattr(os, "scandir", Mock(side_effect=PermissionError(errno.EACCES, "Permission denied")))
        with pytest.raises(StateError, match=r"^the state folder cannot be read: Permission denied$"):
            scan(folder)

    def test_a_mark_that_cannot_be_removed_is_named(self, folder, monkeypatch):
        watched = WatchedState(folder, 60, 50)
        (folder / ".commit").touch()
        watched.look(due=False)
        monkeypatch.setattr(Path, "unlink", Mock(side_effect=PermissionError(errno.EACCES, "Permission denied")))
        with pytest.raises(StateError, match=r"^'\.commit' in the state folder cannot be removed: Permission denied$"):
            watched.taken()
        watched.close()

    def test_a_file_larger_than_any_disk_is_refused_by_its_size(self, folder):
        with (folder / "sparse").open("wb") as file:
            file.truncate(2**43)
        watched = WatchedState(folder, 60, 50)
        line = r"^the state folder holds 8192.0 GiB, and its limit is 50 GiB \(max_gib\)$"
        with pytest.raises(StateError, match=line):
            watched.look(due=False)
        watched.close()

    def test_more_files_than_a_snapshot_lists_are_refused(self, folder, monkeypatch):
        monkeypatch.setattr(sys.modules[scan.__module__], "MAX_FILES", 2)
        for name in "abc":
            (folder / name).touch()
        with pytest.raises(StateError, match="more than 2 files; pack them"):
            scan(folder)

    def test_open_files_are_those_open_for_writing(self, folder):
        for name in ("read", "write", "mapped", "closed"):
            (folder / name).write_bytes(b"1")
        with (folder / "read").open("rb"), (folder / "write").open("ab"):
            with (folder / "mapped").open("r+b") as opened:
                mapped = mmap.mmap(opened.fileno(), 1)
            assert open_files(folder) == {"write", "mapped"}
            mapped.close()
        assert open_files(folder) == set()
