"""`rm` and `clean` as people type them. What this cannot prove: a real terminal."""

import fcntl
import json
import os
import sys
import time

import pytest

from tidemill.cli import main, removals
from tidemill.client import Pipeline
from tidemill.client.rounds import deliveries
from tidemill.client.this_machine import open_here
from tidemill.descriptor import SPEC_VERSION


@pytest.fixture
def jobs(tmp_path, monkeypatch, installed):
    """Two finished jobs in a folder."""
    _, backend = installed(max_spec=SPEC_VERSION)
    monkeypatch.setattr(deliveries, "SUBMIT_GRACE_SECONDS", -1)
    monkeypatch.chdir(tmp_path)
    pipeline = Pipeline.load(os.environ["TIDEMILL_PIPELINE"])
    sent = [pipeline.submit(["x", "{uri}"], ["s3://raw/1.jpg"], queue="cpu", name=name) for name in ("tiles", "masks")]
    for job in sent:
        backend.run(pipeline, job.id)
    return pipeline


def said(capsys, *arguments, code=0):
    assert main(list(arguments)) == code
    return capsys.readouterr()


def test_without_a_terminal_nothing_goes_before_yes(jobs, capsys):
    told = said(capsys, "rm", "tiles", "masks", code=2)
    assert "give --yes, or --dry-run" in told.err
    assert [line.split()[0].rpartition("-")[0] for line in told.out.splitlines()[1:3]] == ["masks", "tiles"]
    assert said(capsys, "rm", "tiles", "--dry-run").out.splitlines()[-1].startswith("1 job, ")
    assert len(jobs.jobs()) == 2
    tiles = jobs.job("tiles").id
    assert said(capsys, "rm", "tiles", "--yes").out.splitlines()[-1] == f"removed {tiles}"
    assert [job.job.rpartition("-")[0] for job in jobs.jobs()] == ["masks"]


@pytest.mark.parametrize(("typed", "left"), [("n\n", 2), ("\n", 2), ("y\n", 1)])
def test_a_terminal_asks(jobs, capsys, monkeypatch, typed, left):
    reading, writing = os.pipe()
    os.write(writing, typed.encode())
    os.close(writing)
    with os.fdopen(reading) as answers:
        monkeypatch.setattr(sys, "stdin", answers)
        monkeypatch.setattr(removals, "on_terminal", lambda: True)
        assert "Remove this? [y/N]" in said(capsys, "rm", "tiles").err
    assert len(jobs.jobs()) == left


def test_one_reason_refuses_all_of_a_line(jobs, capsys):
    assert "There is no job 'tile'" in said(capsys, "rm", "tiles", "tile", "--yes", code=2).err
    assert len(jobs.jobs()) == 2


def test_clean_lists_what_stays_and_why(jobs, capsys):
    jobs.submit(["x", "{uri}"], ["s3://raw/1.jpg"], queue="cpu", name="user", after=["tiles"])
    rows = json.loads(said(capsys, "clean", "--older-than", "0s", "--dry-run", "--json").out)["jobs"]
    kept = {row["job"].rpartition("-")[0]: row["kept"] for row in rows}
    assert kept["masks"] is None
    assert "and only a job that has ended" in kept["user"]
    assert "`tidemill cancel user-" in kept["tiles"]
    out = said(capsys, "clean", "--older-than", "0s", "--yes").out
    assert "stays because" in out
    assert {job.job.rpartition("-")[0] for job in jobs.jobs()} == {"tiles", "user"}
    assert said(capsys, "clean", "--yes").out == "Nothing to remove.\n"


# ---- what no job uses, on this machine ------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("TIDEMILL_SCRATCH", str(tmp_path / "scratch"))
    monkeypatch.setenv("TIDEMILL_PIPELINE", str(tmp_path / "store" / "pipeline.json"))
    return Pipeline(*open_here(tmp_path / "store", 1))


def old_file(path, age=2 * 86_400):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * 10)
    os.utime(path, (time.time() - age, time.time() - age))
    return path


def test_clean_finds_what_no_job_uses_on_this_machine(here, capsys, tmp_path):
    store, code = tmp_path / "store", tmp_path / "scratch" / f"code-{os.getuid()}"
    here.site.backend("local").begin = lambda job: True
    used = here.submit(None, [b"some bytes"], function="builtins:len", name="used")
    (upload,) = [path for path in (store / "uploads").rglob("*") if path.is_file()]
    os.utime(upload, (0, 0))
    dead = old_file(store / "jobs" / "tiles-00000000" / "manifest" / "part")
    begins = old_file(store / "jobs" / "tiles-00000001" / "manifest" / "part", age=60)
    unused = old_file(store / "uploads" / ("0" * 64) / "a.bin")
    unpacked = old_file(code / "11" / "code" / "x.py")
    found = json.loads(said(capsys, "clean", "--dry-run", "--json").out)
    assert {each["what"]: (each["objects"], each["bytes"]) for each in found["leftovers"]} == dict.fromkeys(
        ("submits that died", "uploads that no job uses", "unpacked code of earlier runs"), (1, 10)
    )
    said(capsys, "clean", "--yes")
    assert [path.exists() for path in (dead, begins, unused, unpacked, upload)] == [False, True, False, False, True]
    # With its last job, the upload goes too.
    assert here.job("used").id == used.id
    said(capsys, "rm", "used", "--yes")
    said(capsys, "clean", "--yes")
    assert not upload.exists()


def test_unpacked_code_stays_while_a_worker_runs(here, capsys, tmp_path):
    lock = old_file(tmp_path / "scratch" / "workers" / "a" / "lock")
    unpacked = old_file(tmp_path / "scratch" / f"code-{os.getuid()}" / "11" / "code" / "x.py")
    with lock.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        said(capsys, "clean", "--yes")
        assert unpacked.exists()
    said(capsys, "clean", "--yes")
    assert not unpacked.exists()


def test_clean_follows_no_link_that_another_user_has_made(here, capsys, tmp_path):
    thesis = old_file(tmp_path / "home" / "thesis" / "chapter.tex")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    (scratch / f"code-{os.getuid()}").symlink_to(tmp_path / "home")
    assert said(capsys, "clean", "--yes").out == "Nothing to remove.\n"
    assert thesis.exists()
