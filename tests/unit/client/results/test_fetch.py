"""Outputs of a job as files of this machine, from a store in memory. What this cannot prove: a cloud's listings."""

import errno
import json
import os
import shutil
from contextlib import suppress
from pathlib import Path

import obstore
import pytest
from obstore.store import MemoryStore

from tests.fields import about
from tests.unit.client_fakes import FakeBackend, descriptor, outcome
from tidemill import Item
from tidemill.cli.commands.fetch import say, typed
from tidemill.client import Job, Pipeline
from tidemill.client.results import downloads
from tidemill.client.results.fetch import LISTED_TOGETHER
from tidemill.client.results.fetch_report import FetchReport, ItemCount
from tidemill.client.results.fetch_target import INDEX, FetchTarget
from tidemill.client.rounds import deliveries
from tidemill.clouds.account import LogLine
from tidemill.errors import CallerError, StoreDeniedError, StoreError
from tidemill.job import StateSettings
from tidemill.ledger import Ledger
from tidemill.state import Snapshots
from tidemill.store import Store
from tidemill.tree import Tree, store_file

ITEMS = [f"s3://raw/{n}.jpg" for n in range(6)]


class World:
    """A job whose items have outcomes and outputs as a test says."""

    def __init__(self, output=None, items=ITEMS):
        self.memory = MemoryStore()
        self.store = Store(self.memory, "memory://")
        pipeline = Pipeline(descriptor(), self.store, FakeBackend())
        sent = pipeline.submit(["x", "{uri}"], items, queue="cpu", chunk_size=2)
        # From now on it is listed like a bucket.
        self.store.uri = "s3://store"
        self.job = Job(pipeline.site, sent.spec.model_copy(update={"output": output}))
        self.items = items

    def end(self, *indexes, files=None, failed=(), lease="a.1", chunk=None, number=0):
        """Commit chunks with all of their items; outputs are there for those of them that succeeded."""
        for chunk_ in sorted({index // 2 for index in indexes}):
            outcomes = []
            for index in range(2 * chunk_, min(2 * chunk_ + 2, len(self.items))):
                found = outcome(index, self.items[index], index in failed)
                if index not in failed:
                    found.output = f"{self.job.output}/{index}/{lease}/"
                    self.write(found.output, {"x.npy": b"%d" % index} if files is None else files)
                outcomes.append(found)
            Ledger(self.store, self.job.id).chunk(number, chunk_).commit(lease, outcomes)

    def write(self, prefix, files):
        for name, data in files.items():
            obstore.put(self.memory, prefix.removeprefix("s3://store/") + name, data)


@pytest.fixture
def world(monkeypatch):
    monkeypatch.setattr(deliveries, "SUBMIT_GRACE_SECONDS", -1)
    return World()


def edit(path, data):
    """Change a file. Our store in memory is so fast that its time could stay the same."""
    path.write_bytes(data)
    os.utime(path, (0, os.stat(path).st_mtime + 1))


def found(folder):
    """Names and contents of all files below a folder, without the index."""
    files = (Path(at) / name for at, _, names in os.walk(folder) for name in names if name != INDEX)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_outputs_come_under_the_names_of_their_items(world, tmp_path):
    world.end(0, 2, 4, files={"x.npy": b"1", "d/Y": b"", "big": b"0123456789" * 10})
    report = world.job.fetch(tmp_path / "out")
    assert found(tmp_path / "out") == {
        f"{n}/{name}": data
        for n in range(6)
        for name, data in {"x.npy": b"1", "d/Y": b"", "big": b"0123456789" * 10}.items()
    }
    assert (report.whole, report.complete, report.moved.files, report.moved.bytes) == (True, 6, 18, 606)


def test_of_each_item_only_the_attempt_that_counts(world, tmp_path):
    world.write(f"{world.job.output}/1/a.1/", {"x.npy": b"of an attempt that was reclaimed", "more": b""})
    world.write(f"{world.job.output}/10/a.1/", {"x.npy": b"of no item"})
    world.write(f"{world.job.output}/x/a.1/", {"x.npy": b"of no item"})
    world.end(0, 2, 4, lease="b.2")
    world.job.fetch(tmp_path)
    assert found(tmp_path) == {f"{n}/x.npy": b"%d" % n for n in range(6)}


def test_an_item_that_is_a_file(world, tmp_path):
    world.end(0, 2)
    world.end(4, files={"x.npy": b"", "y.npy": b""})
    world.job.fetch(tmp_path, name="features/{stem}{ext}")
    assert sorted(found(tmp_path)) == [f"features/{n}.npy" for n in range(4)] + [
        f"features/{n}/{name}.npy" for n in (4, 5) for name in "xy"
    ]


@pytest.mark.parametrize("items", [None, [0, 1, 5]])
def test_a_job_that_still_runs_says_what_is_missing(world, tmp_path, items):
    world.end(0, 4, failed=[1])
    report = world.job.fetch(tmp_path, items=items)
    assert not report.whole
    assert report.failed.first == [1]
    assert report.unfinished.first == ([2, 3] if items is None else [])
    world.end(2)
    assert world.job.fetch(tmp_path).unfinished.count == 0


def test_a_second_fetch_brings_what_is_missing_and_leaves_what_was_changed(world, tmp_path):
    world.end(0, 2, 4)
    world.job.fetch(tmp_path)
    (tmp_path / "0" / "x.npy").unlink()
    (tmp_path / "1" / "x.npy").write_bytes(b"")
    edit(tmp_path / "2" / "x.npy", b"!")
    report = world.job.fetch(tmp_path)
    assert (report.moved.files, report.moved.kept, report.whole) == (1, 3, False)
    assert [name for name, _ in report.moved.problems] == ["1/x.npy", "2/x.npy"]
    assert found(tmp_path) == {f"{n}/x.npy": {1: b"", 2: b"!"}.get(n, b"%d" % n) for n in range(6)}
    assert world.job.fetch(tmp_path, overwrite=True).whole
    assert found(tmp_path) == {f"{n}/x.npy": b"%d" % n for n in range(6)}
    assert world.job.fetch(tmp_path).moved.kept == 6


def again(world, index, data):
    """An item has run again."""
    number = world.job.retry([index]).round
    ended = outcome(index, ITEMS[index], False)
    ended.output = f"{world.job.output}/{index}/c.{number}/"
    world.write(ended.output, {"x.npy": data})
    Ledger(world.store, world.job.id).chunk(number, index // 2).commit(f"c.{number}", [ended])


def test_a_retry_replaces_what_came_before(world, tmp_path):
    world.end(0, 2, 4)
    world.job.fetch(tmp_path, items=[n for n in range(6) if n != 3])
    # Its line is the last of the index, as it may be after any fetch: files come side by side.
    world.job.fetch(tmp_path)
    again(world, 3, b"n")
    # A fetch that was killed has left half of what it writes: the end of the line before, and a part of its own.
    with (tmp_path / INDEX).open("a") as index:
        index.write('\n["3/x.n')
    assert world.job.fetch(tmp_path).whole
    assert (tmp_path / "3" / "x.npy").read_bytes() == b"n"
    edit(tmp_path / "3" / "x.npy", b"mine")
    assert not world.job.fetch(tmp_path).whole


def test_what_came_before_there_was_an_index_is_ours(world, tmp_path):
    world.end(0, 2, 4)
    world.job.fetch(tmp_path)
    (tmp_path / INDEX).unlink()
    assert world.job.fetch(tmp_path).moved.kept == 6
    again(world, 3, b"n")
    assert world.job.fetch(tmp_path).whole
    assert (tmp_path / "3" / "x.npy").read_bytes() == b"n"


def test_outputs_that_expired(world, tmp_path):
    world.end(0, 2, 4)
    for name in list(world.store.list(f"out/{world.job.id}/3")):
        obstore.delete(world.memory, name)
    for items in (None, [3]):
        report = world.job.fetch(tmp_path, items=items)
        assert (report.gone.first, report.whole) == ([3], False)


def test_outputs_under_a_prefix_of_the_user(tmp_path):
    world = World(output="s3://store/theirs")
    world.end(0, 2, 4, files={"a b%20.txt": b"1"})
    world.job.fetch(tmp_path / "out")
    assert found(tmp_path / "out") == {f"{n}/a b%20.txt": b"1" for n in range(6)}


def test_few_items_of_many_are_listed_one_by_one(tmp_path, monkeypatch):
    world = World(items=[f"s3://raw/{n}.jpg" for n in range(2 * LISTED_TOGETHER)])
    world.end(6, 7)
    asked = []
    listed = Store.entries
    monkeypatch.setattr(
        Store, "entries", lambda self, prefix, *rest: asked.append(prefix) or listed(self, prefix, *rest)
    )
    world.job.fetch(tmp_path, items=[7])
    assert [prefix for prefix in asked if prefix.startswith("out/")] == [f"out/{world.job.id}/7/a.1/"]
    assert found(tmp_path) == {"7/x.npy": b"7"}


def test_large_files_come_in_pieces(world, tmp_path, monkeypatch):
    monkeypatch.setattr(downloads, "PIECE_BYTES", 1000)
    data = os.urandom(10_500)
    world.end(0, files={"x": data, "y": data[:1000], "z": data[:1001]})
    report = world.job.fetch(tmp_path, items=[0])
    assert found(tmp_path) == {"0/x": data, "0/y": data[:1000], "0/z": data[:1001]}
    assert report.moved.bytes == 12_501


def test_what_breaks_off_leaves_nothing_under_a_files_name(world, tmp_path, monkeypatch):
    world.end(0, 2, 4)
    stream = Store.stream

    def breaks(self, name, *arguments):
        yield from stream(self, name, *arguments)
        if "/3/" in name:
            raise StoreError("the store does not answer")

    monkeypatch.setattr(Store, "stream", breaks)
    with pytest.raises(StoreError):
        world.job.fetch(tmp_path)
    assert "3/x.npy" not in found(tmp_path)
    assert [path.name for path in tmp_path.glob(".*")] == [INDEX]
    monkeypatch.undo()
    assert world.job.fetch(tmp_path).whole


def test_what_a_killed_fetch_has_left_is_removed(world, tmp_path):
    world.end(0, 2, 4)
    left = tmp_path / f"{downloads.PARTS}left"
    left.mkdir()
    (left / "0").write_bytes(b"part")
    with downloads.Downloads(FetchTarget(tmp_path), downloads.TransferProgress()) as other:
        world.job.fetch(tmp_path)
        assert not left.exists()
        assert other._parts.exists()
    assert found(tmp_path) == {f"{n}/x.npy": b"%d" % n for n in range(6)}


def everything(world, out):
    return world.job.fetch(out, logs=True, state=True)


@pytest.fixture
def full_world(world, tmp_path):
    """A job with outputs, logs and state."""
    world.end(0, 2, 4)
    line(world, 0, 0, "hello")
    save_state(world, tmp_path, 0)
    return world


@pytest.mark.parametrize("name", ["3/x.npy", "state/0/epoch", "logs/0.log"])
def test_what_comes_to_a_place_while_a_file_is_on_its_way_stays(full_world, tmp_path, monkeypatch, name):
    out, claim = tmp_path / "out", FetchTarget.claim

    def theirs(self, asked):
        path = claim(self, asked)
        if asked == name and not path.exists():
            path.write_bytes(b"theirs")
        return path

    with monkeypatch.context() as patch:
        patch.setattr(FetchTarget, "claim", theirs)
        if name.startswith("logs"):
            # It is claimed at once before it gets its name.
            (out / "logs").mkdir(parents=True)
            (out / name).write_bytes(b"theirs")
        report = everything(full_world, out)
    assert [one for one, _ in report.moved.problems] == [name]
    assert found(out)[name] == b"theirs"
    assert everything(full_world, out).moved.problems[0][0] == name
    assert found(out)[name] == b"theirs"


@pytest.mark.parametrize("again_", [False, True])
def test_two_fetches_into_a_folder_at_once(full_world, tmp_path, monkeypatch, again_):
    """The second one does all of its work before any step of the first."""
    world, out, step = full_world, tmp_path / "out", 0
    plain = Store.stream
    while True:
        step += 1
        if again_:
            everything(world, out)
            again(world, 3, b"new %d" % step)
        left = [step]

        def stream(self, *arguments, left=left, **more):
            left[0] -= 1
            if left[0] == 0:
                assert everything(world, out).whole
            yield from plain(self, *arguments, **more)

        with monkeypatch.context() as patch:
            patch.setattr(Store, "stream", stream)
            assert everything(world, out).moved.problems == []
        assert found(out)["3/x.npy"] == (b"new %d" % step if again_ else b"3")
        if left[0] > 0:
            break
        if not again_:
            shutil.rmtree(out)
    assert step > (1 if again_ else 6)


class Death:
    """A process dies just before or just after a step. From then on it does nothing more."""

    def __init__(self, step, after):
        self.seen, self._step, self._after = 0, step, after

    def of(self, call):
        def step(*arguments):
            self.seen += 1
            if self.seen > self._step or (self.seen == self._step and not self._after):
                raise KeyboardInterrupt
            answer = call(*arguments)
            if self.seen == self._step:
                raise KeyboardInterrupt
            return answer

        return step


@pytest.mark.parametrize("after", [False, True])
def test_a_fetch_that_dies_at_any_step_is_continued_and_what_it_wrote_is_replaced(
    full_world, tmp_path, monkeypatch, after
):
    """A step is a note in the index, or a file that gets its name."""
    world, out, step = full_world, tmp_path / "out", 0
    while True:
        step += 1
        death = Death(step, after)
        with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
            for name in ("write", "replace"):
                patch.setattr(os, name, death.of(getattr(os, name)))
            everything(world, out)
        again(world, 3, b"new %d" % step)
        save_state(world, tmp_path, 0, data=b"new %d" % step)
        report = everything(world, out)
        assert (report.whole, report.moved.problems) == (True, []), step
        assert found(out)["3/x.npy"] == found(out)["state/0/epoch"] == b"new %d" % step
        assert [path.name for path in out.rglob(".*")] == [INDEX]
        shutil.rmtree(out)
        if death.seen < step:
            break
    # Six outputs, a log and a state have two steps each.
    assert step == 17


def test_a_login_that_expires_in_the_middle(world, tmp_path, monkeypatch):
    world.end(0, 2, 4)

    def refused(self, name, *arguments):
        raise StoreDeniedError("GET was refused: ExpiredToken.", code="ExpiredToken")
        yield

    monkeypatch.setattr(Store, "stream", refused)
    with pytest.raises(StoreDeniedError, check=about("output", fix="repeat the command")):
        world.job.fetch(tmp_path)
    monkeypatch.undo()
    assert world.job.fetch(tmp_path).whole


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_a_full_disk(world, tmp_path, monkeypatch, number):
    world.end(0, 2, 4)

    def no_room(*_):
        raise OSError(number, "no room")

    monkeypatch.setattr(os, "pwrite", no_room)
    with pytest.raises(CallerError, check=about("output", fix="repeat the command")):
        world.job.fetch(tmp_path)
    monkeypatch.undo()
    assert world.job.fetch(tmp_path).whole


def test_a_file_larger_than_the_disk_is_refused_before_it_comes(world, tmp_path, monkeypatch):
    monkeypatch.setattr(downloads, "PIECE_BYTES", 10)
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 50}))
    world.end(0, files={"x": b"0" * 51})
    with pytest.raises(CallerError, check=about("output")):
        world.job.fetch(tmp_path)


def test_a_place_that_is_taken_by_something_else(world, tmp_path):
    world.end(0, 2, 4)
    (tmp_path / "2").write_text("a file where a folder goes")
    (tmp_path / "3" / "x.npy").mkdir(parents=True)
    report = world.job.fetch(tmp_path)
    assert sorted(name for name, _ in report.moved.problems) == ["2/x.npy", "3/x.npy"]
    assert (report.whole, report.moved.files) == (False, 4)


OTHER = "another file is there, or it was changed after it was fetched; --overwrite replaces it"


def link(path, to):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(to)


@pytest.mark.parametrize(
    ("there", "problem"),
    [
        pytest.param(lambda out, away: (out / "0.npy").write_text("mine"), f"0.npy: {OTHER}", id="file"),
        pytest.param(lambda out, away: link(out / "0.npy", away / "x"), f"0.npy: {OTHER}", id="link-to-file"),
        pytest.param(lambda out, away: link(out / "0.npy", away / "none"), f"0.npy: {OTHER}", id="link-to-nothing"),
        pytest.param(lambda out, away: link(out / "0.npy", away), f"0.npy: {OTHER}", id="link-to-folder"),
        pytest.param(lambda out, away: (out / "0.npy").mkdir(), "0.npy: a folder is there", id="folder"),
        pytest.param(lambda out, away: (out / "4").write_text(""), "4/y.npy: File exists", id="file-for-a-folder"),
        pytest.param(
            lambda out, away: link(out / "4", away),
            "4/y.npy: 4 is a link, and a fetch writes through none",
            id="link-above",
        ),
        pytest.param(
            lambda out, away: link(out / "logs", away),
            "logs/0.log: logs is a link, and a fetch writes through none",
            id="link-for-logs",
        ),
        pytest.param(
            lambda out, away: link(out / "logs" / "0.log", away / "x"), f"logs/0.log: {OTHER}", id="link-for-log"
        ),
        pytest.param(
            lambda out, away: link(out / "state", away),
            "state/0/epoch: state is a link, and a fetch writes through none",
            id="link-for-states",
        ),
        pytest.param(
            lambda out, away: link(out / "state" / "0", away),
            "state/0/epoch: state/0 is a link, and a fetch writes through none",
            id="link-for-state",
        ),
    ],
)
def test_what_is_not_ours_stays(world, tmp_path, there, problem, capsys):
    out, away = tmp_path / "out", tmp_path / "away"
    for folder in (out, away):
        folder.mkdir()
    (away / "x").write_text("theirs")
    world.end(0, 2)
    world.end(4, files={"x.npy": b"1", "y.npy": b"2"})
    line(world, 0, 0, "hello")
    save_state(world, tmp_path, 0)
    there(out, away)
    name = problem.partition(":")[0]
    before = os.readlink(out / name) if (out / name).is_symlink() else found(out)
    report = world.job.fetch(out, name="{stem}{ext}", logs=True, state=True)
    assert not report.whole
    say(typed(report))
    assert f"{problem.replace(': ', ' was not written: ', 1)}." in capsys.readouterr().err.splitlines()
    assert found(away) == {"x": b"theirs"}
    if isinstance(before, str):
        assert os.readlink(out / name) == before
    else:
        assert before.items() <= found(out).items()
    report = world.job.fetch(out, name="{stem}{ext}", logs=True, state=True, overwrite=True)
    assert report.whole == problem.endswith(OTHER)
    assert found(away) == {"x": b"theirs"}


@pytest.mark.parametrize(
    ("there", "said"),
    [
        (lambda index: index.symlink_to("elsewhere"), ".tidemill-fetched: is a link"),
        (lambda index: index.mkdir(), ".tidemill-fetched: Is a directory"),
    ],
)
def test_an_index_that_cannot_be_written(world, tmp_path, there, said):
    world.end(0)
    there(tmp_path / INDEX)
    with pytest.raises(CallerError, match=f"cannot be written: {said}.", check=about("output")):
        world.job.fetch(tmp_path)
    assert not (tmp_path / "elsewhere").exists()


def test_the_folder_itself_may_be_a_link(world, tmp_path):
    world.end(0, 2, 4)
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to("disk")
    assert world.job.fetch(tmp_path / "out").whole
    assert len(found(tmp_path / "disk")) == 6


def test_a_folder_that_cannot_be_written(world, tmp_path):
    world.end(0)
    (tmp_path / "file").write_text("")
    with pytest.raises(CallerError, check=about("output", allowed="can be written")):
        world.job.fetch(tmp_path / "file" / "out")


@pytest.mark.parametrize("items", [[6], [-1]])
def test_items_that_the_job_does_not_have(world, tmp_path, items):
    with pytest.raises(CallerError, check=about("items", allowed="0 to 5")):
        world.job.fetch(tmp_path / "out", items=items)
    assert not (tmp_path / "out").exists()


def test_hostile_names_of_outputs_stay_in_the_folder(world, tmp_path):
    names = ["A", "a", "x", "x/y", "CON", "c" * 250, "q?", "back\\slash", " .hidden. "]
    world.end(0, files=dict.fromkeys(names, b"1"))
    world.job.fetch(tmp_path, items=[0])
    assert sorted(found(tmp_path)) == sorted(
        ["0/A", "0/a~3", "0/x", "0/x~8/y", "0/_CON", f"0/{'c' * 240}", "0/q_", "0/back_slash", "0/ .hidden"]
    )


def test_metadata_names_items(tmp_path):
    world = World(items=[Item(0, f"{n}", {"lr": n / 10}) for n in range(2)])
    world.items = ["0", "1"]
    world.end(0)
    world.job.fetch(tmp_path, name="lr-{lr}")
    assert sorted(found(tmp_path)) == ["lr-0.0/x.npy", "lr-0.1/x.npy"]


def line(world, item, at, message, stream="stdout"):
    fields = {"job": world.job.id, "item": item, "attempt": 1, "stream": stream, "message": message}
    at += world.job.spec.created_at.timestamp()
    world.job._watched.site.backend("cpu").lines.append(LogLine(at, json.dumps(fields), "container", fields))


def test_logs_are_a_file_per_item(world, tmp_path, monkeypatch):
    monkeypatch.setattr("tidemill.client.results.log_files._OPEN", 2)
    world.end(0, 2, 4, failed=[1])
    for n in range(3):
        for item in (0, 1, 5):
            line(world, item, n, f"line {n}\ud800", "stderr" if n else "stdout")
    world.job._watched.site.backend("cpu").lines.append(LogLine(0.0, "{}", "container", {"message": "of the worker"}))
    assert world.job.fetch(tmp_path / "all", logs=True).logs == 3
    first, *_ = lines = (tmp_path / "all" / "logs" / "1.log").read_text().splitlines()
    assert first.endswith("Z 1 stdout line 0\\ud800")
    assert [text.split(" ", 2)[2] for text in lines[1:]] == ["stderr line 1\\ud800", "stderr line 2\\ud800"]
    assert world.job.fetch(tmp_path / "all", logs=True).logs == 3
    assert len((tmp_path / "all" / "logs" / "1.log").read_text().splitlines()) == 3
    report = world.job.fetch(tmp_path / "failed", failed=True, logs=True)
    assert (sorted(found(tmp_path / "failed")), report.whole) == (["logs/1.log"], True)


def save_state(world, folder, *items, path="epoch", data=b"1"):
    world.job._watched.spec = world.job.spec.model_copy(update={"state": StateSettings()})
    (folder / "epoch").write_bytes(data)
    for item in items:
        snapshots = Snapshots(world.store, world.job.id, item)
        snapshots.claim("a", 0, "", None)
        name = f"state/{world.job.id}/{item}/a/0"
        snapshots.commit(Tree((store_file(world.store, folder / "epoch", path, name),)))


def test_state_is_the_newest_snapshot_of_each_item(world, tmp_path):
    with pytest.raises(CallerError, check=about("state")):
        world.job.fetch(tmp_path / "out", state=True)
    world.end(0, 2, 4, failed=[1])
    save_state(world, tmp_path, 0, 1, path="deep/epoch")
    assert world.job.fetch(tmp_path / "out", state=True, failed=True).states == 1
    assert found(tmp_path / "out") == {"state/1/deep/epoch": b"1"}
    (tmp_path / "out" / "state" / "1" / "deep" / "epoch").write_text("edited")
    report = world.job.fetch(tmp_path / "out", state=True, items=[0, 1, 2])
    assert [name for name, _ in report.moved.problems] == ["state/1/deep/epoch"]
    assert (tmp_path / "out" / "state" / "1" / "deep" / "epoch").read_text() == "edited"
    assert world.job.fetch(tmp_path / "out", state=True, items=[0, 1, 2], overwrite=True).states == 2
    assert {name: data for name, data in found(tmp_path / "out").items() if name.startswith("state")} == {
        "state/0/deep/epoch": b"1",
        "state/1/deep/epoch": b"1",
    }


def test_failed_items_have_no_outputs(world, tmp_path):
    with pytest.raises(CallerError, check=about("failed", fix="`logs=True`")):
        world.job.fetch(tmp_path / "out", failed=True)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("count", "said"),
    [(1, "1 item (0) failed and has no outputs."), (2, "2 items (0, 1) failed and have no outputs.")],
)
def test_what_is_missing_is_said_in_a_sentence(count, said, capsys):
    say(FetchReport("j", "out", count, failed=ItemCount(count, list(range(count)))))
    assert capsys.readouterr().err == f"{said}\n"


@pytest.mark.parametrize(
    ("command", "said"),
    [(None, "repeat the command later"), ("tidemill run --job j", "`tidemill run --job j` runs what is left")],
)
def test_the_next_command_for_items_that_have_not_finished(command, said, capsys):
    say(FetchReport("j", "out", 1, unfinished=ItemCount(1, [0])), run_command=command)
    assert capsys.readouterr().err == f"1 item (0) has not finished; {said}.\n"


def test_of_failed_items_no_outputs_are_counted(capsys):
    say(FetchReport("j", "out", 1, complete=1, logs=1), failed=True)
    assert capsys.readouterr().out == "out/logs: what 1 item printed.\n"


def test_reports_are_json(world, tmp_path):
    world.end(0, 2, 4)
    reports = []
    world.job.fetch(tmp_path, on_report=lambda report: reports.append(json.dumps(report.moved.files)))
    assert reports[-1] == "6"
