"""Failures by message. What this cannot prove: that people's programs end with the line that tells most."""

import json

import pytest

from tests.unit.client_fakes import descriptor, outcome, pipeline, uris
from tidemill.cli import run
from tidemill.client import Pipeline, failures
from tidemill.client import site as site_module
from tidemill.ledger import Ledger

TRACEBACK = """Traceback (most recent call last):
  File "x.py", line 3, in <module>
    open(sys.argv[1])
FileNotFoundError: [Errno 2] No such file or directory: '{name}'
"""


def failed(index, error, reason="exit", code=1, uri=None):
    made = outcome(index, uri or f"s3://raw/tile-{index}.jpg", failed=True)
    made.error, made.reason, made.exit_code = error, reason, code
    return made


def test_what_says_the_same_is_one_group_and_the_largest_is_first():
    found = failures.group_failures(
        [
            failed(0, "ValueError: band 7 of 12"),
            failed(1, TRACEBACK.format(name="tile-1.jpg")),
            outcome(2, "s3://raw/2.jpg", failed=False),
            failed(3, TRACEBACK.format(name="tile-3.jpg")),
            failed(4, TRACEBACK.format(name="s3://raw/tile-4.jpg")),
            failed(5, "ValueError: band 3 of 12", code=2),
            failed(6, "ValueError: band 3 of 4"),
        ]
    )
    assert [(g.count, g.exit_code, g.items) for g in found] == [(3, 1, [1, 3, 4]), (2, 1, [0, 6]), (1, 2, [5])]
    assert found[0].message == "FileNotFoundError: [Errno 2] No such file or directory: 'tile-1.jpg'"
    assert found[0].uri == "s3://raw/tile-1.jpg"
    assert (found[0].error or "").startswith("Traceback")


@pytest.mark.parametrize(
    ("error", "reason", "code", "line"),
    [
        (TRACEBACK.format(name="a"), "exit", 1, "FileNotFoundError: [Errno 2] No such file or directory: 'a'"),
        ("torch.cuda.OutOfMemoryError: CUDA\nsome more\n", "exit", 1, "torch.cuda.OutOfMemoryError: CUDA"),
        ("one\ntwo  \n\n", "exit", 1, "two"),
        ("", "exit", 3, "said nothing and ended with 3"),
        (None, "timeout", None, "over its time limit"),
        (None, "memory", -9, "over its memory limit"),
        ("x" * 1000, "exit", 1, "x" * failures.MESSAGE_CHARACTERS),
    ],
)
def test_the_line_that_tells_most(error, reason, code, line):
    assert failures.telling_line(failed(0, error, reason, code)) == line


def test_groups_are_bounded(monkeypatch):
    monkeypatch.setattr(failures, "MAX_GROUPS", 3)
    words = ["a", "b", "c", "d", "e", "a"]
    found = failures.group_failures(failed(n, word) for n, word in enumerate(words))
    assert [(g.count, g.message) for g in found] == [(2, "a"), (2, "other messages"), (1, "b"), (1, "c")]


@pytest.fixture
def job(tmp_path, monkeypatch):
    """A finished job with three failures of ten items."""
    target, backend = pipeline(f"file://{tmp_path}/store")
    (tmp_path / "store" / "pipeline.json").write_text(descriptor(f"file://{tmp_path}/store").model_dump_json())
    monkeypatch.setattr(site_module, "open_backend", lambda descriptor, store: backend)
    monkeypatch.setenv("TIDEMILL_PIPELINE", f"file://{tmp_path}/store/pipeline.json")
    sent = target.submit(["x", "{input}"], uris(10), queue="cpu", name="tiles", chunk_size=10)
    said = {2: "KeyError: 'band'", 5: "no space", 7: "KeyError: 'band'"}
    made = [failed(n, said[n]) if n in said else outcome(n, f"s3://raw/{n}.jpg", False) for n in range(10)]
    Ledger(target.store, sent.id).chunk(0, 0).commit("a", made)
    return sent.id


def test_the_verb_shows_the_worst_first(job, capsys):
    assert run(["failures", job]) == 0
    out, err = capsys.readouterr()
    assert [line.split(maxsplit=4) for line in out.splitlines()] == [
        ["items", "reason", "which", "message"],
        ["2", "exit", "1", "2,", "7   KeyError: 'band'"],
        ["1", "exit", "1", "5", "no space"],
    ]
    assert err == f"`tidemill logs {job} --item 2` shows what the first of them printed.\n"


def test_the_verb_has_json(job, capsys):
    assert run(["failures", "tiles", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["job"], said["failed"]) == (job, 3)
    assert said["groups"][0] == {
        "count": 2,
        "reason": "exit",
        "exit_code": 1,
        "message": "KeyError: 'band'",
        "items": [2, 7],
        "uri": "s3://raw/tile-2.jpg",
        "error": "KeyError: 'band'",
    }


def test_a_job_without_failures(tmp_path, monkeypatch, job, capsys):
    sent = Pipeline.load(f"file://{tmp_path}/store/pipeline.json")
    other = sent.submit(["x", "{input}"], uris(2), queue="cpu", name="other")
    assert run(["failures", other.id]) == 0
    assert capsys.readouterr().out == f"No item of {other.id} has failed so far.\n"
