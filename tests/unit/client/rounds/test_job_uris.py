"""`job://`: what a client makes of it, and which files a worker finds behind it."""

from __future__ import annotations

import itertools
import os
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.unit.client_fakes import FakeBackend, descriptor, outcome
from tests.warm import ran
from tidemill import layout
from tidemill.chain import Files, JobFiles, JobUri, parse
from tidemill.client import Pipeline
from tidemill.errors import CallerError, DamagedError, StoreMissingError
from tidemill.inputs import read_source
from tidemill.job import Item
from tidemill.ledger import Ledger
from tidemill.manifest import read_chunk
from tidemill.state.snapshots import Snapshot
from tidemill.store import Store, Stores
from tidemill.tree import Tree, TreeFile, fetch_tree
from tidemill.worker.items.staging import Staging
from tidemill.worker.items.task import reader
from tidemill.worker.machine.scratch import Scratch
from tidemill.worker.machine.stop import Stop
from tidemill.worker.programs.faults import ItemError

TIDEMILL = [sys.executable, "-c", "import sys; from tidemill.cli import main; sys.exit(main())"]


@pytest.fixture
def pipeline(tmp_path):
    uri = tmp_path.as_uri()
    return Pipeline(descriptor(uri, max_spec=4), Store.open(uri), FakeBackend())


def prepared(pipeline: Pipeline, items: int = 3, failed: tuple[int, ...] = (), name: str = "prep"):
    """A complete job: item N has written N.txt and more/N.bin."""
    job = pipeline.submit(["p"], [f"s3://raw/{n}" for n in range(items)], queue="cpu", name=name, chunk_size=2)
    write(pipeline, job.id, 0, failed)
    return job


def write(pipeline: Pipeline, job: str, number: int, failed: tuple[int, ...] = (), lease: str = "L") -> None:
    ledger = Ledger(pipeline.store, job)
    for chunk in ledger.rounds()[number].enqueued():
        found = []
        for item in read_chunk(pipeline.store, job, chunk):
            folder = f"{layout.out(job)}/{item.index}/{lease}{chunk}.1"
            made = outcome(item.index, item.uri, item.index in failed)
            found.append(replace(made, output=made.output and f"{pipeline.store.uri}/{folder}/"))
            # A failed attempt may have left files, too.
            pipeline.store.put(f"{folder}/{item.index}.txt", f"{lease}{item.index}".encode())
            pipeline.store.put(f"{folder}/more/{item.index}.bin", b"b")
        ledger.chunk(number, chunk).commit("a", found)


def files(pipeline: Pipeline) -> JobFiles:
    return JobFiles(Stores(pipeline.store))


def paths(found: Files) -> dict[str, bytes]:
    return {file.path: found.store.get(file.object) for file in found.tree.files}


@pytest.mark.parametrize(
    ("uri", "wanted"),
    [
        ("job://prep/output", JobUri("prep", "output")),
        ("job://prep-0123abcd/state/", JobUri("prep-0123abcd", "state")),
        ("job://prep/output/12", JobUri("prep", "output", 12)),
        ("job://prep/output/*/a b/c.npy", JobUri("prep", "output", "*", "a b/c.npy")),
    ],
)
def test_a_reference_is_read_and_written(uri, wanted):
    assert parse(uri) == wanted
    assert parse(str(wanted)) == wanted


@pytest.mark.parametrize(
    "uri",
    ["job://", "job://prep", "job://prep/logs", "job://Prep/output", "job://prep/output/x", "job://p/output/1/../2",
     "job://p/output/1//2", "job://p/output/-1", "job://p/output/*/.."],
)  # fmt: skip
def test_what_is_no_reference_is_refused(uri):
    with pytest.raises(CallerError, match="job://JOB/output") as refused:
        parse(uri)
    assert refused.value.value == repr(uri)


def test_an_item_for_each_item_of_another_job(pipeline):
    prep = prepared(pipeline)
    job = pipeline.submit(["p", "{input}"], "job://prep/output/*/more", queue="cpu", name="train")
    items = [item.uri for chunk in range(job.spec.chunks_total) for item in read_chunk(pipeline.store, job.id, chunk)]
    assert items == [f"job://{prep.id}/output/{n}/more" for n in range(3)]
    assert job.spec.spec_version == 4
    assert [each.job for each in job.spec.after] == [prep.id]
    assert pipeline.estimate("job://prep/output", item_seconds=1, queue="cpu").items == 3
    again = pipeline.submit(["p", "{input}"], "job://prep/output/*/more", queue="cpu", name="train")
    assert again.id == job.id


def test_names_in_a_list_become_ids_and_their_jobs_are_waited_for(pipeline):
    other = prepared(pipeline, name="other")
    prep = pipeline.submit(["p"], ["s3://raw/1"], queue="cpu", name="prep")
    said: list[str] = []
    given = ["s3://raw/x", Item(0, "job://prep/output", {"k": 1}), "job://other/output/2/2.txt"]
    more = {"after_success": ["other"], "chunk_size": 3, "log": said.append}
    job = pipeline.submit(["p", "{input}"], given, queue="cpu", name="train", **more)
    [*items] = read_chunk(pipeline.store, job.id, 0)
    assert [item.uri for item in items] == ["s3://raw/x", f"job://{prep.id}/output", f"job://{other.id}/output/2/2.txt"]
    assert items[1].meta == {"k": 1}
    assert {each.job: each.success for each in job.spec.after} == {other.id: True, prep.id: False}
    assert any(prep.id in line and "starts when" in line for line in said)
    assert [waits.job for waits in job.status().waits_for] == [prep.id]


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ("job://nothing/output", "no job 'nothing'"),
        (["job://prep/output/3"], "from 0 to 2"),
        ("job://prep/output/1", "all items of a job"),
        (["job://prep/output/*/x"], "one item"),
        ("job://gone/output", "is cancelled"),
    ],
)
def test_references_that_cannot_be_are_refused(pipeline, items, words):
    prepared(pipeline)
    pipeline.submit(["p"], ["a"], queue="cpu", name="gone").cancel()
    before = len(pipeline.jobs())
    with pytest.raises(CallerError, match=words):
        pipeline.submit(["p", "{input}"], items, queue="cpu", name="train")
    assert len(pipeline.jobs()) == before


def test_the_files_of_an_item(pipeline):
    prep = prepared(pipeline, failed=(1,))
    found = files(pipeline)
    assert paths(found.find(f"job://{prep.id}/output/2")) == {"2.txt": b"L2", "more/2.bin": b"b"}
    assert paths(found.find(f"job://{prep.id}/output/2/more")) == {"2.bin": b"b"}
    one = found.find(f"job://{prep.id}/output/2/more/2.bin")
    assert one.single
    assert paths(one) == {"2.bin": b"b"}


@pytest.mark.parametrize(
    ("rest", "words"),
    [("/1", "item 1 of .* failed"), ("/9", "has no item 9"), ("/2/none", "does not exist; item 2 of .* has '2.txt'")],
)
def test_what_an_item_has_not_left_is_said(pipeline, rest, words):
    prep = prepared(pipeline, failed=(1,))
    with pytest.raises(StoreMissingError, match=words):
        files(pipeline).find(f"job://{prep.id}/output{rest}")


def test_a_job_that_has_expired_is_said(pipeline):
    with pytest.raises(StoreMissingError, match="prep-00000000 is not in the store any more"):
        files(pipeline).find("job://prep-00000000/output/1")


def test_the_whole_output_has_a_folder_for_each_item_that_succeeded(pipeline):
    prep = prepared(pipeline, failed=(1,))
    found = paths(files(pipeline).find(f"job://{prep.id}/output"))
    assert found == {"0/0.txt": b"L0", "0/more/0.bin": b"b", "2/2.txt": b"L2", "2/more/2.bin": b"b"}
    pipeline.job("prep").retry()
    write(pipeline, prep.id, 1, lease="M")
    found = paths(files(pipeline).find(f"job://{prep.id}/output"))
    assert {name: text for name, text in found.items() if name.endswith("txt")} == {
        "0/0.txt": b"M0",
        "1/1.txt": b"M1",
        "2/2.txt": b"L2",
    }


def test_a_whole_output_of_too_many_files_says_to_make_them_items(pipeline, monkeypatch):
    prep = prepared(pipeline)
    monkeypatch.setattr("tidemill.chain.MAX_FILES", 5)
    with pytest.raises(DamagedError, match=f"more than 5 files. Give them as items: job://{prep.id}/output"):
        files(pipeline).find(f"job://{prep.id}/output")


def test_the_output_of_a_job_with_one_item_is_a_folder_of_its_own(pipeline):
    fit = prepared(pipeline, items=1, name="fit")
    assert set(paths(files(pipeline).find(f"job://{fit.id}/output"))) == {"0.txt", "more/0.bin"}


def test_state_is_the_newest_snapshot(pipeline):
    prep = prepared(pipeline)
    at = datetime.now(UTC).isoformat()
    for seq, text in ((1, b"old"), (2, b"new")):
        name = layout.state_file(prep.id, 1, "a", seq)
        pipeline.store.put(name, text)
        tree = Tree((TreeFile("model.pt", len(text), None, name),))
        pipeline.store.create(
            layout.snapshot(prep.id, 1, seq), Snapshot(seq, "snapshot", seq, "a", 0, at, tree).encode()
        )
    found = files(pipeline)
    assert paths(found.find(f"job://{prep.id}/state/1")) == {"model.pt": b"new"}
    assert paths(found.find(f"job://{prep.id}/state")) == {"1/model.pt": b"new"}
    with pytest.raises(StoreMissingError, match="left nothing there"):
        found.find(f"job://{prep.id}/state/0")


def test_items_of_one_chunk_read_its_record_once(pipeline, monkeypatch):
    prep = prepared(pipeline, items=4)
    reads: list[int] = []
    merged = Ledger.merged
    monkeypatch.setattr(
        Ledger, "merged", lambda self, chunk, rounds: reads.append(chunk) or merged(self, chunk, rounds)
    )
    found = files(pipeline)
    for item in range(4):
        found.find(f"job://{prep.id}/output/{item}")
    assert reads == [0, 1]


def test_each_round_that_reads_sees_what_counts_when_it_reads(pipeline, tmp_path):
    """A worker on GCP serves a queue for days: what it has read for one round is not read for the next."""
    prep = prepared(pipeline, failed=(2,))
    scratch = Scratch(tmp_path / "scratch", "one")
    staging, folders = Staging(Stores(pipeline.store), scratch), itertools.count()

    def read(item: int, number: int) -> str:
        folder = scratch.folder / str(next(folders))
        found = staging.fetch(f"job://{prep.id}/output/{item}", folder, Stop(), reader("train-00000000", number))
        return (found.result() / f"{item}.txt").read_text()

    assert read(0, 0) == "L0"
    with pytest.raises(ItemError, match=f"item 2 of {prep.id} failed"):
        read(2, 0)
    prep.retry(items=[0, 1, 2])
    write(pipeline, prep.id, 1, lease="M")
    assert [read(item, 1) for item in range(3)] == ["M0", "M1", "M2"]
    staging.close()
    scratch.close()


def test_a_folder_of_too_many_items_is_refused_before_all_are_read(pipeline, monkeypatch):
    prep, read = prepared(pipeline, items=8), []
    outcomes = Ledger.outcomes
    monkeypatch.setattr(Ledger, "outcomes", lambda self: (read.append(1) or each for each in outcomes(self)))
    monkeypatch.setattr("tidemill.chain.MAX_FILES", 3)
    with pytest.raises(DamagedError, match="more than 3 files"):
        files(pipeline).find(f"job://{prep.id}/output")
    assert len(read) == 4


def test_run_reads_what_another_job_has_left(tmp_path: Path):
    """Three jobs after each other with real workers: an item for each item, then one that reads all of it."""

    def tidemill(*words: str, code: int = 0) -> str:
        env = {**os.environ, "TIDEMILL_PIPELINE": f"{tmp_path.as_uri()}/.tidemill/pipeline.json"}
        done = ran([*TIDEMILL, *words], cwd=tmp_path, env=env, timeout=120)
        assert done.returncode == code, done.stderr
        return done.stdout

    write = 'test "$TIDEMILL_URI" != b || exit 3; echo "$TIDEMILL_URI" > "$TIDEMILL_OUTPUT/f"'
    tidemill("run", "--name", "one", "--attempts", "1", "a", "b", "c", "--shell", "--", write, code=1)
    copy = 'cp "$TIDEMILL_INPUT/f" "$TIDEMILL_OUTPUT/g"'
    tidemill("run", "--name", "two", "--items", "job://one/output", "--shell", "--", copy, code=1)
    join = 'cat "$TIDEMILL_INPUT"/*/g > "$TIDEMILL_OUTPUT/all"'
    tidemill("run", "--name", "three", "--after", "two", "job://two/output", "--shell", "--", join)
    [joined] = (tmp_path / ".tidemill" / "out").glob("three-*/0/*/all")
    assert joined.read_text() == "a\nc\n"
    assert "item 1 of one-" in tidemill("failures", "two")


def test_run_waits_for_no_job_that_does_not_run(tmp_path: Path):
    tmp = ["--store", str(tmp_path)]
    ran([*TIDEMILL, "run", *tmp, "--name", "one", "a", "--", "true"], cwd=tmp_path).check_returncode()
    env = {**os.environ, "TIDEMILL_PIPELINE": f"{tmp_path.as_uri()}/pipeline.json"}
    ran([*TIDEMILL, "submit", "--name", "two", "b", "--", "true"], cwd=tmp_path, env=env).check_returncode()
    late = [*TIDEMILL, "run", *tmp, "--name", "three", "--after", "two", "c", "--", "true"]
    done = ran(late, cwd=tmp_path)
    assert done.returncode == 2
    assert "waits for two-" in done.stderr
    assert "tidemill run --job two-" in done.stderr


def test_a_named_input_is_what_another_job_has_left(tmp_path: Path, pipeline):
    prep = prepared(pipeline, failed=(1,))
    more = {"queue": "cpu", "name": "train", "inputs": {"data": "job://prep/output"}}
    job = pipeline.submit(["p", "{data}"], ["a"], **more)
    assert job.spec.inputs == {"data": f"job://{prep.id}/output"}
    assert [each.job for each in job.spec.after] == [prep.id]
    source = read_source(Stores(pipeline.store), pipeline.store, job.spec.inputs["data"])
    assert not source.lasting
    fetch_tree(source.store, source.tree, tmp_path / "fetched")
    assert (tmp_path / "fetched" / "2" / "2.txt").read_text() == "L2"
    with pytest.raises(CallerError, match="one folder or file"):
        pipeline.submit(["p", "{data}"], ["a"], **more | {"inputs": {"data": "job://prep/output/*"}})
