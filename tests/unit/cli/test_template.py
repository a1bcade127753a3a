"""The commands of templates. What this cannot prove: a stack's own sender."""

import json
import os

import pytest

from tidemill.cli import main
from tidemill.cli.options import load
from tidemill.descriptor import SPEC_VERSION

SAVE = ["template", "save", "nightly", "--queue", "cpu", "s3://raw/{time:%d}.jpg", "--json", "--", "x", "{uri}"]


@pytest.fixture
def run(installed, capsys):
    installed(max_spec=SPEC_VERSION)

    def run(*arguments, code=0):
        assert main([*arguments]) == code
        said = capsys.readouterr()
        return json.loads(said.out) if "--json" in arguments else said.out + said.err

    return run


def test_a_template_is_saved_sent_listed_paused_and_removed(run):
    assert run(*SAVE) == {"template": "nightly", "version": 1, "code": None}
    job = run("template", "send", "nightly", "--at", "2026-11-23", "--json")["job"]
    (send,) = run("template", "history", "nightly", "--json")["sends"]
    assert (send["outcome"], send["job"], send["trigger"]) == ("sent", job, "hand")
    assert job in run("template", "history", "nightly")
    assert run("template", "pause", "nightly", "--reason", "dust", "--json")["changed"]
    assert "paused already" in run("template", "pause", "nightly")
    assert "paused by ada: dust" in run("templates")
    assert "Template nightly is paused by ada: dust." in run("explain", "nightly")
    assert "hand, template nightly@1, saved by ada" in run("status", job)
    assert "not paused now" in run("template", "resume", "nightly")
    assert run("templates", "--json")["templates"][0]["last"]["job"] == job
    run("template", "rm", "nightly")
    assert run("templates", "--json") == {"templates": []}


def test_a_template_has_what_a_job_may_ask_of_a_queue(run):
    run(*SAVE[:3], "--queue", "cpu", "--memory-max", "4G", "--start-within", "6h", "s3://raw/1.jpg", "--", "x", "{uri}")
    job = run("template", "send", "nightly", "--json")["job"]
    spec = load(os.environ["TIDEMILL_PIPELINE"]).job(job).spec
    assert (spec.memory_max_mib, spec.start_within_seconds) == (4096, 21_600)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["template", "send", "nightly"], "There is no template 'nightly'"),
        (["template", "send"], "Missing argument"),
        (["template", "sned", "nightly"], "sned"),
        (["template", "save", "nightly", "--queue", "cpu", "--queue", "gpu", "--", "x"], "--queue is given 2 times"),
        (["template", "save", "nightly", "--queue", "cpu", "--secret", "A", "a", "--", "x"], "--secret"),
        (["template", "save", "nightly", "--queue", "cpu", "--attempts", "99", "a", "--", "x"], "--attempts is 99"),
    ],
)
def test_a_mistake(run, arguments, said):
    assert said in run(*arguments, code=2)
