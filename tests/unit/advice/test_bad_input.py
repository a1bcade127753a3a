"""Malformed or unlucky questions for advice: one line with what, value, allowed values and what to do, and exit code 2.
What only narrows an answer is a note, and advice goes on.

What this cannot prove: how a cloud itself words a refusal; tests/localcloud asks imitations.
"""

import json
import re

import pytest

from tests.unit.advice_fakes import NOW, answered, score, spot_price, tables
from tests.unit.client_fakes import gpu_machine, queue
from tidemill import machines
from tidemill.advice.sources import (
    ApiOffError,
    CpuQuota,
    Gap,
    LiveAnswer,
    NoPermissionError,
    ThrottledError,
    TypeOffering,
)
from tidemill.cli import main
from tidemill.client import Pipeline
from tidemill.descriptor import Resources

HERE = ["--regions", "us-west-2", "--offline"]


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    """No pipeline is set up."""
    monkeypatch.delenv("TIDEMILL_PIPELINE", raising=False)
    monkeypatch.delenv("TIDEMILL_DEBUG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def stack(tmp_path, installed):
    """A pipeline in a folder, with a job `tiles` of items of 12 CPUs."""
    queues = {"cpu": queue(), "gpu": queue(machines=[gpu_machine()], item=Resources(cpus=1, memory_mib=2048, gpus=1))}
    found, _ = installed(queues)
    Pipeline.load(found.uri).submit(["x", "{uri}"], ["s3://raw/1.jpg"], queue="cpu", name="tiles", cpus=12)
    return tmp_path / "store"


REFUSED = {
    # 1 to 5: places.
    "unknown region, nearest offered": (["--cpus", "4", "--regions", "us-wset-2"], "regions", ["'us-west-2'"]),
    "a zone's name": (["--cpus", "4", "--regions", "us-west-2a"], "regions", ["'us-west-2a'", "Name us-west-2."]),
    "a zone's id": (["--cpus", "4", "--regions", "apne1-az4"], "regions", ["ids of zones", "Name ap-northeast-1."]),
    "a zone's name on GCP": (["--cpus", "4", "--regions", "us-central1-a"], "regions", ["Name us-central1."]),
    "a region in China with others": (
        ["--cpus", "4", "--regions", "us-west-2,cn-north-1"],
        "regions",
        ["cn-north-1 alone", "its own region only"],
    ),
    # 6 to 9: machines.
    "unknown family, nearest offered": (["--cpus", "4", "--families", "c77i", *HERE], "families", ["'c7i'"]),
    "a family that no stack may name": (["--cpus", "4", "--families", "t3", *HERE], "families", ["'t3'", "burstable"]),
    "a type for a family": (["--gpus", "1", "--families", "g5.xlarge", *HERE], "families", ["'g5'", "begins with"]),
    "a family that has no GPUs": (["--gpus", "1", "--families", "c7i", *HERE], "families", ["'c7i'", "g5"]),
    "a family that has GPUs, without a number": (["--cpus", "8", "--families", "g5", *HERE], "families", ["--gpus"]),
    # 10 to 15: amounts.
    "no machines with so many GPUs": (
        ["--gpus", "3", "--families", "p4d", *HERE],
        "gpus",
        ["3", "8 (p4d.24xlarge)", "Ask for 8"],
    ),
    "GPUs with more memory than exists": (
        ["--gpus", "8", "--gpu-memory", "999", *HERE],
        "gpu_memory",
        ["999", "288 GB", "p6-b300"],
    ),
    "memory of no GPU": (["--gpu-memory", "24", *HERE], None, ["--gpu-memory", "--gpus"]),
    "more memory than the machines of so many GPUs have": (
        ["--gpus", "1", "--memory", "99T", *HERE],
        "gpus",
        ["less memory"],
    ),
    "more machines than anybody has": (["--cpus", "100000000", *HERE], "cpus", ["100000000", "896,000"]),
    "processors that a family does not have": (
        ["--cpus", "8", "--families", "c7i", "--arch", "arm64", *HERE],
        "arch",
        ["'arm64'", "x86_64"],
    ),
    # 16 to 18: what the tables do not have.
    "not sold in the region": (
        ["--gpus", "8", "--families", "p5en", "--regions", "af-south-1", "--offline"],
        "regions",
        ["af-south-1", "p5en"],
    ),
    "no price in the region": (["--cpus", "8", "--regions", "eu-west-1", "--offline"], "regions", ["--live"]),
    "no price in China": (["--cpus", "8", "--regions", "cn-north-1", "--offline"], "regions", ["cn-north-1", "--live"]),
    # 19 to 24: contradictions.
    "nothing is asked for": (HERE, "cpus", ["--gpus, --cpus or --memory"]),
    "no region and no pipeline": (["--cpus", "4"], None, ["--pipeline", "--regions"]),
    "names that are none": (["--cpus", "4", "--regions", ","], None, ["--regions", "','"]),
    "no time at all": (["--cpus", "4", "--hours", "0", *HERE], "--hours", ["0"]),
    "a time that is no number": (["--cpus", "4", "--hours", "nan", *HERE], "hours", ["nan"]),
    "a GPU of endless memory": (["--gpus", "4", "--gpu-memory", "inf", *HERE], "gpu_memory", ["inf"]),
}
WITH_A_PIPELINE = {
    # 25 to 28: queues and jobs.
    "unknown queue": (["--queue", "cqu"], "queue", ["'cqu'", "cpu, gpu"]),
    "a queue and machines": (["--queue", "cpu", "--gpus", "4"], None, ["--gpus and --queue"]),
    "unknown job": (["--cpus", "8", "--like", "tlies", "--offline"], "job", ["'tlies'"]),
}


def refused(arguments, what, facts, capsys):
    code = main(["advise", *arguments, "--json"])
    out, err = capsys.readouterr()
    error = json.loads(out)["error"]
    assert (code, error["exit_code"], error["what"]) == (2, 2, what), error
    assert [fact for fact in facts if fact not in error["message"]] == [], error["message"]
    assert err == f"tidemill: {error['message']}\n"
    assert re.fullmatch(r"[^\n]+\n", err), "one line"


@pytest.mark.parametrize(("arguments", "what", "facts"), REFUSED.values(), ids=REFUSED)
def test_a_question_that_has_no_answer_is_refused(capsys, arguments, what, facts):
    refused(arguments, what, facts, capsys)


def test_machines_that_hold_no_item_of_the_job_are_refused(stack, capsys, monkeypatch):
    small = {"c7i": machines.families("aws")["c7i"][:2]}
    monkeypatch.setattr(machines, "families", lambda cloud: small)
    refused(["--cpus", "8", "--families", "c7i", "--like", "tiles", "--offline"], "like", ["tiles-"], capsys)


@pytest.mark.parametrize(("arguments", "what", "facts"), WITH_A_PIPELINE.values(), ids=WITH_A_PIPELINE)
def test_a_question_about_what_a_pipeline_does_not_have_is_refused(stack, capsys, arguments, what, facts):
    before = {path: path.read_bytes() for path in stack.rglob("*") if path.is_file()}
    refused(arguments, what, facts, capsys)
    assert {path: path.read_bytes() for path in stack.rglob("*") if path.is_file()} == before, "nothing was made"


SCORES = "ec2:GetSpotPlacementScores"
NOTED = {
    # 29 to 34 (and two more below): what narrows an answer.
    "one type only": (
        LiveAnswer(scores=(score(2),), prices=(spot_price("p4de.24xlarge", "a", 9.0),)),
        ["fewer than 3 types low by rule", "1 is asked about"],
    ),
    "no permission": (
        LiveAnswer(gaps=(Gap(SCORES, "us-west-2", NoPermissionError(f"You may not {SCORES}.", "Ask for advise.")),)),
        [SCORES, "Ask for advise."],
    ),
    "throttled, with an old answer": (
        LiveAnswer(scores=(score(5),), gaps=(Gap(SCORES, "us-west-2", ThrottledError("Too many questions."), NOW),)),
        ["Too many questions.", "the answer of 2026-11-22 09:00 UTC"],
    ),
    "a project without the API": (
        LiveAnswer(gaps=(Gap("advice.capacity", "", ApiOffError("Compute is off.", command="gcloud enable it")),)),
        ["Compute is off.", "gcloud enable it"],
    ),
    "more than the account's limit": (
        LiveAnswer(quotas=(CpuQuota("us-west-2", None, NOW, "servicequotas:GetServiceQuota", "spot", "g", 32.0),)),
        ["32 vCPUs", "servicequotas:GetServiceQuota, 2026-11-22"],
    ),
    "no feed of interruptions": (
        LiveAnswer(prices=(spot_price("g5.xlarge", "a", 0.4),)),
        ["Unknown for all of these: score, reclaims."],
    ),
}


@pytest.mark.parametrize(("answer", "facts"), NOTED.values(), ids=NOTED)
def test_what_narrows_an_answer_is_said_in_it(monkeypatch, capsys, answer, facts):
    tables(monkeypatch)
    monkeypatch.setattr("tidemill.prices.interruption", lambda *at: None)
    answered(monkeypatch, answer)
    family = "p4de" if answer.prices and answer.scores else "g5"
    asked = ["--gpus", "48", "--families", family, "--market", "spot", "--regions", "us-west-2", "--live"]
    assert main(["advise", *asked]) == 0
    text = capsys.readouterr().out
    assert [fact for fact in facts if fact not in text] == [], text


def test_a_type_that_the_cloud_does_not_sell_is_refused(monkeypatch, capsys):
    tables(monkeypatch)
    gone = TypeOffering("us-west-2", None, NOW, "ec2:DescribeInstanceTypeOfferings", "p4de.24xlarge", False)
    answered(monkeypatch, LiveAnswer(offered=(gone,)))
    asked = ["--gpus", "8", "--families", "p4de", "--market", "spot", "--regions", "us-west-2", "--live"]
    refused(asked, "regions", ["sells none", "us-west-2"], capsys)


def test_a_queue_without_prices_still_has_scores(monkeypatch, stack, capsys):
    monkeypatch.setattr("tidemill.prices.machine", lambda *at, gpus: None)
    monkeypatch.setattr("tidemill.prices.on_demand", lambda *at, gpus: None)
    answered(monkeypatch, LiveAnswer(scores=(score(4),)))
    assert main(["advise", "--queue", "cpu"]) == 0
    text = capsys.readouterr().out
    assert " 4/10 " in text
    assert "No price of these machines is known in us-west-2" in text


def test_a_region_without_prices_among_others_is_said_and_comes_last(capsys):
    assert main(["advise", "--cpus", "64", "--regions", "us-west-2,eu-west-1", "--offline", "--limit", "999"]) == 0
    text = capsys.readouterr().out
    assert "No price of these machines is known in eu-west-1: they come last." in text
    assert text.rindex(" us-west-2 ") > text.index(" us-west-2 ")
    priced = [line for line in text.splitlines() if " eu-west-1 " in line and "unknown" not in line]
    assert priced == []
