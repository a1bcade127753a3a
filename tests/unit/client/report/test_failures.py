"""Failures by message. What this cannot prove: that people's programs end with the line that tells most."""

import json

import pytest

from tests.unit.client_fakes import descriptor, outcome, pipeline, uris
from tidemill.cli import main
from tidemill.cli.commands.results import show
from tidemill.client import Job, Pipeline
from tidemill.client import site as site_module
from tidemill.client.report import failures
from tidemill.failures import MESSAGE_CHARACTERS, GroupKey, group_key, telling_line
from tidemill.ledger import Ledger

BAND = "286fd987c2"
"""The id of `KeyError: 'band'`."""
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
        ("x" * 1000, "exit", 1, "x" * MESSAGE_CHARACTERS),
    ],
)
def test_the_line_that_tells_most(error, reason, code, line):
    assert telling_line(failed(0, error, reason, code)) == line


def test_paths_of_workers_and_of_outputs_do_not_tell_mistakes_apart():
    """The same mistake in two jobs, by workers of this machine and of clouds, whose ids stay what they were."""
    read = "FileNotFoundError: '/tmp/tidemill-0/workers/{}/0/input/{}'"
    local = [
        failed(0, read.format(f"{run}-6922a3f1-{n}", "a.jpg"), uri="in/a.jpg") for n, run in enumerate(["782b", "19"])
    ]
    cloud = failed(0, read.format("17-187a2f6c9d0e4b21", "a.jpg"), uri="in/a.jpg")
    assert {group_key(one).id for one in [*local, cloud]} == {"1138954f51"}
    sent = "PUT of file:///st/out/{}/{}/a1-{}.1/o failed: the disk is full"
    full = [sent.format("w-d8cc0d68", 3, "8c09f2e17841"), sent.format("other-127b6781", 14, "f56c168ec9f0")]
    assert (
        len(
            {
                group_key(failed(n, said, uri=uri)).id
                for n, (said, uri) in enumerate(zip(full, ["4", "a1"], strict=True))
            }
        )
        == 1
    )


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
    monkeypatch.setattr(site_module, "open_backend", lambda *_: backend)
    monkeypatch.setenv("TIDEMILL_PIPELINE", f"file://{tmp_path}/store/pipeline.json")
    sent = target.submit(["x", "{input}"], uris(10), queue="cpu", name="tiles", chunk_size=10)
    said = {2: "KeyError: 'band'", 5: "no space", 7: "KeyError: 'band'"}
    made = [failed(n, said[n]) if n in said else outcome(n, f"s3://raw/{n}.jpg", False) for n in range(10)]
    Ledger(target.store, sent.id).chunk(0, 0).commit("a", made)
    return sent.id


def test_the_verb_shows_the_worst_first(job, capsys):
    assert main(["failures", job]) == 0
    out, err = capsys.readouterr()
    assert [line.split(maxsplit=4) for line in out.splitlines()] == [
        ["items", "group", "reason", "which", "message"],
        ["2", BAND, "exit", "1", "2, 7   KeyError: 'band'"],
        ["1", "0063918df2", "exit", "1", "5      no space"],
    ]
    assert err.splitlines() == [
        f"`tidemill logs {job} --item 2` shows what the first of them printed.",
        f"`tidemill retry {job} --group {BAND}` runs the items of the first group again.",
    ]


def test_the_verb_has_json(job, capsys):
    assert main(["failures", "tiles", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["job"], said["failed"]) == (job, 3)
    assert said["groups"][0] == {
        "id": BAND,
        "count": 2,
        "reason": "exit",
        "exit_code": 1,
        "message": "KeyError: 'band'",
        "items": [2, 7],
        "uri": "s3://raw/tile-2.jpg",
        "error": "KeyError: 'band'",
        "memory_mib": None,
    }


@pytest.mark.parametrize(
    ("key", "name"),
    [
        (GroupKey("exit", 1, "KeyError: 'band'"), BAND),
        (GroupKey("timeout", None, "over its time limit"), "af1553c332"),
        (GroupKey("exit", -9, "größer als # MiB: {item}"), "6dc639ed9e"),
    ],
)
def test_ids_stay_what_they_are(key, name):
    # Ids are in scripts and tickets. This must not change between releases.
    assert key.id == name


def test_a_group_is_the_same_for_each_item_and_number():
    said = ["tile-1.jpg: band 7 at 0x7f00aa", "tile-23.jpg: band 12 at 0xdeadbeef"]
    keys = {group_key(failed(n, text, uri=f"s3://raw/{text.split(':')[0]}")) for n, text in enumerate(said)}
    assert {key.line for key in keys} == {"{item}: band # at #"}
    other = [failed(0, said[0], code=2), failed(0, said[0], reason="exception"), failed(0, "band at")]
    assert len({group_key(each).id for each in other} | {key.id for key in keys}) == 4


def test_a_retry_runs_a_groups_items_and_no_others(tmp_path, job, capsys):
    assert main(["retry", job, "--group", BAND]) == 0
    assert "2 items" in capsys.readouterr().out
    ledger = Ledger(Pipeline.load(f"file://{tmp_path}/store/pipeline.json").store, job)
    assert ledger.round(1).runs(0) == [2, 7]


def test_a_group_that_nothing_belongs_to(job, capsys):
    assert main(["retry", job, "--group", "0123456789", "--json"]) == 2
    said = json.loads(capsys.readouterr().out)["error"]
    assert (said["what"], said["value"]) == ("group", "'0123456789'")
    assert f"tidemill failures {job}" in said["allowed"]
    assert main(["retry", job, "--group", BAND, "--failed"]) == 2


def test_a_job_without_failures(tmp_path, monkeypatch, job, capsys):
    sent = Pipeline.load(f"file://{tmp_path}/store/pipeline.json")
    other = sent.submit(["x", "{input}"], uris(2), queue="cpu", name="other")
    assert main(["failures", other.id]) == 0
    assert capsys.readouterr().out == f"No item of {other.id} has failed so far.\n"


@pytest.mark.parametrize(
    ("reason", "error", "hints"),
    [
        ("input", "it does not exist", []),
        ("start", "Traceback\nNameError: x", ["`tidemill results {job} --failed --json` has their whole errors."]),
    ],
)
def test_no_lines_are_promised_of_items_that_never_ran(job, capsys, monkeypatch, *, reason, error, hints):
    monkeypatch.setattr(Job, "results", lambda job, **asked: iter([failed(2, error, reason)]))
    assert main(["failures", job]) == 0
    *said, again = capsys.readouterr().err.splitlines()
    assert said == [hint.format(job=job) for hint in hints]
    assert again.startswith(f"`tidemill retry {job} --group")


@pytest.mark.parametrize(
    ("value", "output", "last"),
    [({"n": 8}, None, '{"n": 8}'), (None, None, "a"), (None, "s3://store/out/1/", "s3://store/out/1/")],
)
def test_results_show_the_value_of_a_function_or_where_its_output_is(capsys, value, output, last):
    made = outcome(1, "a", failed=False)
    made.value, made.output = value, output
    show(iter([made]), narrow=False)
    assert capsys.readouterr().out.rstrip().endswith(f"  {last}")
