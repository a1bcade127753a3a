"""Snapshots of an item: the fence, names that are used again, and their expiry. The store is memory."""

from __future__ import annotations

import errno
import json
import os
from typing import Any
from unittest.mock import Mock

import obstore
import pytest

from tests.unit.state.attempts import JOB, Attempt, Expiring, content, objects
from tidemill import layout
from tidemill.errors import DamagedError, StoreError
from tidemill.state import Snapshots, StateError, SupersededError, scan
from tidemill.state.save import ChangedError
from tidemill.store import Store
from tidemill.tree import fetch_tree


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
