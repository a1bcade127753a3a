"""`retry`, `resume`, `jobs`, `cancel`, `results --file` and `submit --shell` with a queue in memory.

What this cannot prove: what a cloud does with the rounds.
"""

import json

import pytest

from tidemill.cli import main
from tidemill.client import Pipeline
from tidemill.client.rounds import deliveries
from tidemill.job import SPEC_VERSION
from tidemill.ledger import Ledger
from tidemill.store import Store


@pytest.fixture
def stack(tmp_path, monkeypatch, installed):
    """A pipeline in a folder, with its queue and a job of five chunks."""
    found, backend = installed(max_spec=SPEC_VERSION)
    monkeypatch.setattr(deliveries, "SUBMIT_GRACE_SECONDS", -1)
    monkeypatch.chdir(tmp_path)
    return Pipeline(found, Store.open(found.store), backend), backend


def submitted(capsys):
    items = [f"s3://raw/{n}.jpg" for n in range(10)]
    assert main(["submit", "--queue", "cpu", "--name", "tiles", "--chunk-size", "2", *items, "--", "x", "{uri}"]) == 0
    return capsys.readouterr().out.strip()


def said(capsys, *arguments, code=0):
    assert main(list(arguments)) == code
    return capsys.readouterr()


def test_retry_of_what_failed(stack, capsys):
    pipeline, backend = stack
    job = submitted(capsys)
    backend.run(pipeline, job, fail_items=[3, 4])
    out = said(capsys, "retry", "tiles", "--failed").out
    assert out == f"{job}: 2 items in 2 chunks enqueued as round 1. `tidemill wait {job}` watches it.\n"
    again = json.loads(said(capsys, "retry", job, "--failed", "--json").out)
    assert (again["round"], again["note"]) == (None, "failed items of 2 chunks run again already")


def test_a_retry_that_would_run_here_is_refused_for_a_cloud(stack, capsys):
    pipeline, backend = stack
    job = submitted(capsys)
    backend.run(pipeline, job, fail_items=[3])
    told = said(capsys, "retry", "tiles", "--failed", "--run", code=2).err
    assert "--run goes with a pipeline of this machine; a cloud runs what is enqueued." in told
    assert len(Ledger(pipeline.store, job).rounds()) == 1


def test_retry_of_some_items(stack, capsys):
    pipeline, backend = stack
    job = submitted(capsys)
    backend.run(pipeline, job)
    sent = json.loads(said(capsys, "retry", job, "--items", "0-2, 9", "--json").out)
    assert (sent["items"], sent["chunks"], sent["round"]) == (4, 3, 1)
    assert Ledger(pipeline.store, job).round(1).items == {1: [2], 4: [9]}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give one of --failed, --group, --items and --dead"),
        (["--failed", "--items", "1"], "give one of --failed, --group, --items and --dead"),
        (["--items", "3-1"], "--items is '3-1'; allowed: indexes and ranges"),
        (["--items", "a"], "--items is 'a'; allowed: indexes and ranges"),
        (["--items", ""], "--items is ''; allowed: indexes and ranges"),
        (["--items", "0-99999999999"], "the job has the items 0 to 9"),
        (["--items", "1"], "Item 1 belongs to a chunk that has not ended"),
    ],
)
def test_a_wrong_retry_enqueues_nothing(stack, capsys, arguments, words):
    _, backend = stack
    job = submitted(capsys)
    assert words in said(capsys, "retry", job, *arguments, code=2).err
    assert len(backend.arrays) == 1


def test_resume_and_cancel(stack, capsys):
    pipeline, backend = stack
    job = submitted(capsys)
    backend.run(pipeline, job, skip_chunks=[2])
    assert "2 items in 1 chunk enqueued as round 1" in said(capsys, "resume", job).out
    assert "nothing to enqueue (everything that is not done is still enqueued)" in said(capsys, "resume", job).out
    assert f"{job} is cancelled" in said(capsys, "cancel", job).out
    refused = said(capsys, "submit", "--queue", "cpu", "--name", "tiles", "--chunk-size", "2",
                   *[f"s3://raw/{n}.jpg" for n in range(10)], "--", "x", "{uri}", code=2).err  # fmt: skip
    assert f"`tidemill resume {job}` runs what is left" in refused
    assert json.loads(said(capsys, "resume", job, "--json").out)["round"] == 2


def test_jobs(stack, capsys):
    pipeline, backend = stack
    assert json.loads(said(capsys, "jobs", "--json").out) == {"jobs": []}
    job = submitted(capsys)
    backend.run(pipeline, job)
    lines = said(capsys, "jobs").out.splitlines()
    assert lines[0].split()[:3] == ["job", "state", "items"]
    assert lines[1].split()[:4] == [job, "succeeded", "10", "10"]


def test_results_in_a_file(stack, capsys, tmp_path):
    pipeline, backend = stack
    job = submitted(capsys)
    backend.run(pipeline, job, fail_items=[7])
    assert said(capsys, "results", job, "--failed", "--file", "out.jsonl").err == "1 outcomes in out.jsonl.\n"
    assert json.loads((tmp_path / "out.jsonl").read_text())["index"] == 7
    assert "--file is not given" in said(capsys, "results", job, "--format", "jsonl", code=2).err


def test_a_shell_is_asked_for(stack, capsys):
    pipeline, _ = stack
    text = 'cat "$TIDEMILL_INPUT" | wc -l > "$TIDEMILL_OUTPUT/lines"'
    job = said(capsys, "submit", "--queue", "cpu", "--shell", "s3://raw/1.jpg", "--", text).out.strip()
    spec = Ledger(pipeline.store, job).spec()
    assert spec.command == ["/bin/sh", "-c", text]
    assert spec.stages_input


def test_what_a_command_may_not_mean_is_said(stack, capsys):
    for program, words in [
        (["x", "|", "y", "{uri}"], "'|' reaches the program as it is"),
        (["x", "fixed"], "The command does not name its item"),
        (["x", "$(ls)", "{uri}"], "'$(ls)' reaches the program as it is"),
        (["x", "{uri}"], "The command has no {output}"),
        (["x", "{thing}", "{uri}"], "{thing} in the command is not a placeholder"),
    ]:
        assert words in said(capsys, "submit", "--queue", "cpu", "s3://raw/1.jpg", "--", *program).err
    err = said(capsys, "submit", "--queue", "cpu", "s3://raw/1.jpg", "--", "x", "{uri}", "{output}").err
    assert "program" not in err


@pytest.mark.parametrize("arguments", [["--", "features:extract"], ["--function", "features:extract"]])
def test_a_function_is_named_by_an_option_or_as_the_only_word(stack, capsys, arguments):
    pipeline, _ = stack
    job = said(capsys, "submit", "--queue", "cpu", "s3://raw/1.jpg", *arguments).out.strip()
    spec = Ledger(pipeline.store, job).spec()
    assert (spec.function, spec.command) == ("features:extract", None)


def test_a_function_and_a_program_are_refused(stack, capsys):
    _, backend = stack
    both = ["--queue", "cpu", "--function", "a:b", "s3://raw/1.jpg", "--", "x", "{uri}"]
    assert "--function is 'a:b' and a program is given too" in said(capsys, "submit", *both, code=2).err
    wrong = ["--queue", "cpu", "--function", "a.b", "s3://raw/1.jpg"]
    assert "function is 'a.b'; it must be module:function" in said(capsys, "submit", *wrong, code=2).err
    assert backend.arrays == []
