"""State with a safeguard removed: the figure that it guards changes. The store is memory, programs are this process."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from tests.mutants import state as mutants
from tests.unit.state.attempts import Expiring
from tidemill.client.results import fetch_state
from tidemill.errors import CloudError, DamagedError
from tidemill.job import Item, StateSettings
from tidemill.manifest import write_frames
from tidemill.state import Saver, Snapshots, SupersededError, restore, scan
from tidemill.state.snapshots import newest_tree
from tidemill.store import Store
from tidemill.tree import Tree, fetch_tree
from tidemill.worker.items import item_state
from tidemill.worker.items.item_state import ItemState
from tidemill.worker.machine.stop import JobStop, Stop, StopReason
from tidemill.worker.programs.faults import ItemError
from tidemill.worker.programs.supervisor import Limits

JOB = "t-00000000"


def attempt(
    store: Store,
    folder: Path,
    name: str,
    stop: Stop | None = None,
    *,
    round_: int = 0,
    room: Callable[[], int] = lambda: 2**30,
    like: Item | None = None,
    **settings: Any,
) -> ItemState:
    said = StateSettings(**{"snapshot_seconds": 1, **settings})
    stop, index = stop or Stop(), like.index if like else 0
    return ItemState(store, said, (JOB, index, name, round_, ""), folder, room=room, stop=stop, labels={}, like=like)


def prepared(*arguments: Any, **options: Any) -> ItemState:
    """An attempt with the state that it begins with."""
    state = attempt(*arguments, **options)
    state.prepare()
    return state


def save(state: ItemState, **files: bytes) -> None:
    for name, data in files.items():
        (state.folder / name).write_bytes(data)
    state._saver.save(scan(state.folder), lambda: False)


def newest(store: Store) -> dict[str, bytes]:
    """What the newest snapshot holds."""
    found = Snapshots(store, JOB, 0).newest()
    return {file.path: store.get(file.object) for file in found.tree.files} if found else {}


def until(done: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not done() and time.monotonic() < end:
        time.sleep(0.02)


@pytest.fixture
def running(store: Store, tmp_path: Path) -> Iterator[ItemState]:
    state = prepared(store, tmp_path, "a")
    state.begin()
    yield state
    state.close()


@pytest.mark.parametrize(("mutant", "seen"), [(None, {b"whole"}), (mutants.single_scan, {b"half", b"whole"})])
def test_a_file_that_is_being_written_is_not_saved(store, running, mutant, seen):
    found: set[bytes] = set()

    def look(seconds: float, wanted: set[bytes]) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and found != wanted:
            found.update(newest(store).values())
            time.sleep(0.02)

    with (running.folder / "checkpoint").open("wb", buffering=0) as file:
        file.write(b"half")
        look(60.0 if mutant else 2.0, {b"half"})
        file.seek(0)
        file.write(b"whole")
    look(60.0, seen)
    assert found == seen


@pytest.mark.parametrize(("mutant", "mixed"), [(None, False), (mutants.mark_alone, True)])
def test_a_mark_keeps_two_checkpoints_apart(store, running, mutant, mixed):
    """A program marks its second checkpoint, and begins the third one at once."""

    def checkpoint(n: int) -> None:
        for name in ("model", "optimizer"):
            (running.folder / name).write_bytes(b"%d" % n)
        (running.folder / ".commit").touch()

    checkpoint(1)
    until(lambda: not (running.folder / ".commit").exists())
    checkpoint(2)
    (running.folder / "model").write_bytes(b"3")
    until(lambda: running._watched.mark.newer == "model" or newest(store)["model"] == b"3")
    saved = newest(store)
    assert (saved["model"] != saved["optimizer"]) == mixed


@pytest.mark.parametrize(("mutant", "mixed"), [(None, False), (mutants.marks_forgotten, True)])
def test_a_program_that_marks_is_known_on_its_next_machine(store, tmp_path, mutant, mixed):
    """Restored, it is slow with its next checkpoint, and has marked none here yet."""
    first = prepared(store, tmp_path / "first", "a")
    first.begin()
    for name in ("model", "optimizer", ".commit"):
        (first.folder / name).write_bytes(b"1")
    until(lambda: not (first.folder / ".commit").exists())
    first.close()
    second = prepared(store, tmp_path / "second", "b")
    second.begin()
    (second.folder / "model").write_bytes(b"2")
    until(lambda: newest(store)["model"] == b"2", seconds=60 if mixed else 3)
    second.close()
    saved = newest(store)
    assert (saved["model"] != saved["optimizer"]) == mixed


def test_a_program_that_marks_first_when_its_machine_goes_is_known_on_the_next(store, tmp_path):
    stop = Stop()
    state = prepared(store, tmp_path, "a", stop)
    state.begin()
    stop.set(StopReason.SIGNAL)
    for name in ("model", ".commit"):
        (state.folder / name).write_bytes(b"1")
    state.end(by_itself=True, succeeded=False)
    state.close()
    saved = Snapshots(store, JOB, 0).newest()
    assert saved is not None
    assert (saved.kind, saved.marked) == ("snapshot", 0)


def test_code_of_another_round_need_not_mark(store, tmp_path, monkeypatch):
    monkeypatch.setattr(item_state, "PATIENCE", 0)
    for round_, files in enumerate((("model", ".commit"), ("model",))):
        state = prepared(store, tmp_path / f"{round_}", f"{round_}", round_=round_)
        state.begin()
        for name in files:
            (state.folder / name).write_bytes(b"%d" % round_)
        until(lambda wanted=b"%d" % round_: newest(store).get("model") == wanted)
        state.close()
    assert newest(store) == {"model": b"1"}


@pytest.mark.parametrize(("mutant", "lost"), [(None, False), (mutants.restored_is_new, True)])
def test_a_file_that_never_changes_outlives_short_attempts(tmp_path, patch_time, mutant, lost):
    world, day = Expiring(tmp_path / "bucket", 14, patch_time), 0
    with suppress(DamagedError):
        while day < 40:
            world.attempt(tmp_path / f"{day}", f"a{day}").save(model=b"%d" % day)
            world.pass_days(1)
            day += 1
    assert (day < 40) == lost


@pytest.mark.parametrize(
    ("mutant", "left"), [(None, ["checkpoint-1"]), (mutants.folders_stay, ["checkpoint-1", "checkpoint-2"])]
)
def test_a_program_that_died_in_a_checkpoint_finds_the_one_before(store, tmp_path, mutant, left):
    """As its next attempt does that takes the newest folder by its name."""
    state = prepared(store, tmp_path / "state", "a")
    for number in (1, 2):
        (state.folder / f"checkpoint-{number}").mkdir()
        (state.folder / f"checkpoint-{number}/model").write_bytes(b"1")
        if number == 1:
            save(state)
    state.prepare()
    assert sorted(path.name for path in state.folder.iterdir()) == left


@pytest.mark.parametrize(("mutant", "fails"), [(None, False), (mutants.room_for_all, True)])
def test_a_second_attempt_on_a_machine_needs_no_more_room(store, tmp_path, mutant, fails):
    """Its state is more than half of the volume."""
    folder = tmp_path / "state"
    state = prepared(store, folder, "a", room=lambda: 100 - sum(one.size for one in scan(folder).values()))
    save(state, model=b"1" * 60)
    with pytest.raises(ItemError, match="60 B needed, 40 B free") if fails else nullcontext():
        state.prepare()


@pytest.mark.parametrize(("mutant", "ended"), [(None, "a"), (mutants.reads_past_claims, "b")])
def test_of_two_attempts_the_older_one_ends(store, tmp_path, mutant, ended):
    """Its program has failed while its machine stood still, and it tries the item again."""
    older = prepared(store, tmp_path / "a", "a")
    save(older, model=b"1")
    newer = prepared(store, tmp_path / "b", "b")
    found = set[str]()
    for name, state in (("a", older), ("b", newer)):
        try:
            if name == "a":
                state.prepare()
            save(state, model=name.encode())
        except SupersededError:
            found.add(name)
    assert found == {ended}


@pytest.mark.parametrize(("mutant", "begins"), [(None, b"3"), (mutants.all_failures_count, b"2")])
def test_corrected_code_begins_with_the_newest_snapshot(store, tmp_path, mutant, begins):
    """Three attempts of a mistaken one have failed at once."""
    state = prepared(store, tmp_path / "a", "a")
    for data in (b"1", b"2", b"3"):
        save(state, model=data)
    wrong = attempt(store, tmp_path / "b", "b", round_=1)
    tried: list[bytes] = []
    for _ in range(3):
        wrong.prepare()
        tried.append((wrong.folder / "model").read_bytes())
        wrong.begin()
        wrong.end(by_itself=True, succeeded=False)
    assert tried == [b"3", b"3", b"2"]
    wrong.close()
    right = prepared(store, tmp_path / "c", "c", round_=2)
    assert (right.folder / "model").read_bytes() == begins


@pytest.mark.parametrize(("mutant", "begin"), [(None, "abc"), (mutants.by_index, "cba")])
def test_items_begin_with_the_state_of_the_same_items(store, tmp_path, mutant, begin):
    """The list of the second job has another order."""
    first = "first-00000000"
    lines = [json.dumps({"uri": uri, "meta": {"hours": 1}}).encode() for uri in "cba"]
    write_frames(store, first, [(line, 1) for line in lines])
    for index, uri in enumerate("cba"):
        snapshots = Snapshots(store, first, index)
        snapshots.claim("x", 0, "", None)
        saver = Saver(snapshots, tmp_path / uri)
        (tmp_path / uri).mkdir()
        (tmp_path / uri / "of").write_text(uri)
        saver.save(scan(tmp_path / uri), lambda: False)
    found = ""
    for index, uri in enumerate("abc"):
        like = Item(index, uri, {"hours": 1})
        state = prepared(store, tmp_path / f"of-{uri}", uri, like=like, from_job=first)
        found += (state.folder / "of").read_text()
    assert found == begin
    if not mutant:
        with pytest.raises(ItemError, match=r"^'a' is not one of the items of first-00000000$"):
            attempt(store, tmp_path / "d", "d", like=Item(3, "a"), from_job=first).prepare()


def saving(store: Store, job: str, folder: Path) -> Callable[[], None]:
    """A job that runs. Each call is a checkpoint of its only item, of two files."""
    write_frames(store, job, [(b'"x"', 1)])
    folder.mkdir()
    snapshots, saved = Snapshots(store, job, 0), count()
    snapshots.claim("x", 0, "", None)
    saver = Saver(snapshots, folder)

    def checkpoint() -> None:
        number = next(saved)
        for name in ("model", "optimizer"):
            (folder / name).write_text(f"{name} {number}")
        saver.save(scan(folder), lambda: False)

    return checkpoint


@pytest.mark.parametrize("faster", [False, True])
def test_the_state_of_a_job_that_runs_is_read_by_a_slow_machine(store, tmp_path, monkeypatch, faster):
    """Meanwhile the job saves so often that the objects are overwritten."""
    first = "first-00000000"
    checkpoint = saving(store, first, tmp_path / "first")
    for _ in range(4):
        checkpoint()
    slow, reads = restore, count()

    def slowly(*arguments: Any, **options: Any) -> object:
        if next(reads) < 2 or faster:
            for _ in range(4):
                checkpoint()
        return slow(*arguments, **options)

    monkeypatch.setattr(item_state, "restore", slowly)
    state = attempt(store, tmp_path / "b", "b", like=Item(0, "x"), from_job=first)
    if faster:
        with pytest.raises(ItemError, match=r"^first-00000000 saves its state more often than it can be read") as found:
            state.prepare()
        assert not found.value.final
    else:
        state.prepare()
        assert [path.read_text() for path in sorted(state.folder.iterdir())] == ["model 11", "optimizer 11"]


@pytest.mark.parametrize("faster", [False, True])
def test_the_state_of_a_job_that_runs_is_fetched_slowly(store, tmp_path, monkeypatch, faster):
    checkpoint = saving(store, JOB, tmp_path / "first")
    for _ in range(4):
        checkpoint()
    reads, to = count(), fetch_state._Destination(store, Mock(), "x", tmp_path)

    def slowly(tree: Tree, to: Any) -> None:
        if next(reads) < 2 or faster:
            for _ in range(4):
                checkpoint()
        fetch_tree(to.store, tree, tmp_path / to.name)

    monkeypatch.setattr(fetch_state, "_bring", slowly)
    tree = newest_tree(store, JOB, 0)
    assert tree is not None
    line = "^x changes more often than it can be read here: its item saves its state all the time"
    with pytest.raises(CloudError, match=line) if faster else nullcontext():
        fetch_state._bring_newest(lambda: newest_tree(store, JOB, 0), tree, to)
    if not faster:
        assert [path.read_text() for path in sorted((tmp_path / "x").iterdir())] == ["model 11", "optimizer 11"]
    # What nobody writes again is damaged.
    newest = newest_tree(store, JOB, 0)
    assert newest is not None
    store.put(newest.files[0].object, b"other")
    monkeypatch.setattr(fetch_state, "_bring", lambda tree, to: fetch_tree(to.store, tree, tmp_path / "y"))
    with pytest.raises(DamagedError):
        fetch_state._bring_newest(lambda: newest_tree(store, JOB, 0), newest, to)


class Passing(threading.Event):
    """Waits by letting time pass, in which a program replaces its checkpoint five times a second. The wait is over when
    there is a snapshot, or after a minute."""

    EVERY = 0.2

    def __init__(self, folder: Path, store: Store) -> None:
        super().__init__()
        self.now, self._folder, self._store = 0.0, folder, store

    def wait(self, timeout: float | None = None) -> bool:
        end = self.now + (timeout or 0.0)
        while (due := self.EVERY * (self.now // self.EVERY + 1)) <= end:
            self.now = due + 1e-6
            (self._folder / "new").write_bytes(b"%06d" % (self.now / self.EVERY) * 1000)
            os.utime(self._folder / "new", (self.now, self.now))
            (self._folder / "new").rename(self._folder / "checkpoint")
        self.now = max(self.now, end)
        return bool(newest(self._store)) or self.now > 60


def test_a_program_that_saves_all_the_time_is_saved_whole(store, tmp_path, monkeypatch, patch_time):
    """It replaces its checkpoint more often than the folder would have to rest, and each of them is whole."""
    monkeypatch.setattr(item_state, "PATIENCE", 1000)
    time_ = Passing(tmp_path, store)
    patch_time(monotonic=lambda: time_.now)
    state = prepared(store, tmp_path, "a")
    monkeypatch.setattr(state, "_ended", time_)
    state._watch()
    found = newest(store)
    assert found["checkpoint"] == found["checkpoint"][:6] * 1000
    assert [one.open for one in Snapshots(store, JOB, 0).newest_first() if one.kind == "snapshot"][-1] == ()
    assert 1 < time_.now < 10


def test_a_warning_saves_once_and_ends_nothing(store, tmp_path):
    worker = Stop()
    stop = JobStop(worker)
    state = prepared(store, tmp_path, "a", stop, snapshot_seconds=3600)
    state.begin()
    (tmp_path / "checkpoint").write_bytes(b"1")
    worker.warn()
    # The warning makes a snapshot due now, and the snapshot the next one an hour later.
    until(lambda: newest(store) and state._due > time.monotonic() + 1800)
    assert newest(store) == {"checkpoint": b"1"}
    assert not stop.raised
    assert state._due > time.monotonic() + 1800
    state.close()


@pytest.mark.parametrize(("mutant", "whole"), [(None, True), (mutants.mirror, False)])
def test_a_save_that_dies_half_way_leaves_the_snapshot_before(store, tmp_path, monkeypatch, mutant, whole):
    first = prepared(store, tmp_path / "a", "a")
    for n in (b"1", b"2"):
        (first.folder / "x").write_bytes(n)
        first._saver.save(scan(first.folder), lambda: False)
    (first.folder / "x").write_bytes(b"3")
    with monkeypatch.context() as dying:
        dying.setattr(Snapshots, "commit", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            first._saver.save(scan(first.folder), lambda: False)
    second = attempt(store, tmp_path / "b", "b")
    if whole:
        second.prepare()
        assert (second.folder / "x").read_bytes() == b"2"
    else:
        with pytest.raises(ItemError, match="None of the snapshots"):
            second.prepare()


@pytest.mark.parametrize(("mutant", "late"), [(None, 0), (mutants.no_fence, 1)])
def test_a_superseded_attempt_saves_nothing(store, tmp_path, mutant, late):
    attempts = [attempt(store, tmp_path / name, name) for name in "ab"]
    for one in attempts:
        one.prepare()
    (attempts[0].folder / "x").write_bytes(b"late")
    with suppress(SupersededError):
        attempts[0]._saver.save(scan(attempts[0].folder), lambda: False)
    after = [one for one in Snapshots(store, JOB, 0).newest_first() if one.seq > 2]
    assert sum(one.attempt == "a" for one in after) == late


@pytest.mark.parametrize(("mutant", "begun"), [(None, (5, "no-progress")), (mutants.no_guard, (8, ""))])
def test_an_item_that_gets_nowhere_ends(store, tmp_path, mutant, begun):
    count, reason = 0, ""
    try:
        while count < 8:
            attempt(store, tmp_path / str(count), f"a{count}").prepare()
            count += 1
    except ItemError as error:
        reason = error.reason
    assert (count, reason) == begun


@pytest.mark.parametrize(("mutant", "least"), [(None, 105), (mutants.short_grace, 10)])
def test_a_program_has_most_of_a_notice(store, tmp_path, mutant, least):
    """Of 120 s, 10 are kept. What has changed is small."""
    stop = Stop()
    state = prepared(store, tmp_path, "a", stop)
    stop.set(StopReason.NOTICE, 120)
    limits = state.limits(Limits(1e6))
    left = limits.grace_seconds if limits.left is None else limits.left()
    assert least <= left <= least + 10


def test_a_large_state_leaves_the_program_less(store, tmp_path):
    """With 1 Gbps measured, 12.5 GB would take 100 s: of 120 s, 10 are left."""
    stop = Stop()
    state = prepared(store, tmp_path, "a", stop)
    state._saver._bytes, state._saver._seconds = 125_000_000, 1.0
    with (state.folder / "large").open("wb") as file:
        file.truncate(12_500_000_000)
    stop.set(StopReason.NOTICE, 120)
    left = state.limits(Limits(1e6)).left
    assert left is not None
    assert 3 <= left() <= 10.1
