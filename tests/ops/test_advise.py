"""`python -m ops advise` on stack files, with the package's own tables and no cloud."""

import datetime
import difflib
import json
import shlex

import pytest
import yaml
from click.testing import CliRunner

from ops import project
from ops.advise import command
from ops.advise.command import advise
from ops.check import problems
from ops.queue import queue
from tidemill.advice.sources import (
    ApiOffError,
    CapacityAdvice,
    CpuQuota,
    Gap,
    LiveAnswer,
    NoPermissionError,
    PlacementScore,
    ReclaimRate,
    SpotPrice,
)

NOW = datetime.datetime(2026, 11, 22, 18, 0, tzinfo=datetime.UTC)

AWS = """\
# The vision team.
config:
  aws:region: us-west-2   # close to the data
  tidemill:team: vision
  tidemill:environment: dev
  tidemill:network:
    create: {zones: 4}
  tidemill:queues:
    cpu:
      images: {default: "registry://preprocess:1.4.0"}   # pinned
      item: {cpus: 1, memory_mib: 2048}
      machines:
        # All x86.
        families:
          - c6i  # proven
          # On trial.
          - c7i
        zones: [a, c]   # where the data is
        cpus: {min: 2, max: 4}
      # Half of the quota.
      capacity: [{market: spot, max_cpus: 64}]
    gpu:
      images: {default: "registry://embed:2"}
      item: {cpus: 4, memory_mib: 14000, gpus: 1}
      machines: {families: [g6, g5], cpus: {min: 4, max: 8}}
    plain:
      images: {default: "registry://embed:2"}
    steady:
      images: {default: "registry://embed:2"}
      capacity: [{market: on_demand, max_cpus: 64}]
# The end.
"""
GCP = """\
config:
  gcp:project: vision-dev
  gcp:region: us-central1
  tidemill:team: vision
  tidemill:environment: dev
  tidemill:cloud: gcp
  tidemill:queues:
    cpu:
      images: {default: "registry://preprocess:1.4.0"}
      machines: {families: [n2], cpus: 16, zones: [a]}  # one of each
"""


@pytest.fixture
def stacks(tmp_path, monkeypatch):
    monkeypatch.setattr(project, "STACKS", tmp_path)
    (tmp_path / "Pulumi.vision-dev.yaml").write_text(AWS)
    (tmp_path / "Pulumi.vision-gcp-dev.yaml").write_text(GCP)
    return tmp_path


@pytest.fixture
def path(stacks):
    return stacks / "Pulumi.vision-dev.yaml"


def run(*arguments, stack="vision-dev"):
    """Without a cloud, unless `--live` comes last."""
    done = CliRunner().invoke(advise, ["--stack", stack, "--offline", *arguments], catch_exceptions=False)
    return done.exit_code, done.output


def take(*arguments, stack="vision-dev"):
    """Run the command that the advice names; false where it names none."""
    code, output = run(*arguments, "--json", stack=stack)
    assert code == 0, output
    named = json.loads(output)["command"]
    if named:
        done = CliRunner().invoke(queue, shlex.split(named)[4:], catch_exceptions=False)
        assert done.exit_code == 0, done.output
    return bool(named)


def changed(before, path):
    lines = difflib.ndiff(before.splitlines(), path.read_text().splitlines())
    return [line for line in lines if line[0] in "+-"]


def test_it_names_the_command_that_changes_the_file_and_leaves_the_file_alone(path):
    code, output = run("cpu")
    assert code == 0, output
    families = "'machines.families=[c6i, c7i, r5, r7i, m6i]'"
    assert f"python -m ops queue set --stack vision-dev cpu {families} machines.zones=null" in output
    assert path.read_text() == AWS


def test_what_was_taken_keeps_comments_and_order_and_leads_to_no_more_advice(path):
    assert take("cpu")
    assert changed(AWS, path) == [
        "-         zones: [a, c]   # where the data is",
        "+           - r5",
        "+           - r7i",
        "+           - m6i",
    ]
    assert problems([path]) == []
    assert not take("cpu")


def test_every_figure_has_its_date_and_source():
    code, output = run("gpu", stack="speech-prod")
    assert code == 0
    assert "The oldest figure is of 20" in output
    assert "Source: https://website.spot.ec2.aws.a2z.com" in output


@pytest.mark.parametrize("path", sorted((project.ROOT / "stacks").glob("Pulumi.*.yaml")), ids=lambda path: path.stem)
def test_it_has_advice_for_every_queue_of_our_own_stacks_that_it_agrees_with(path, tmp_path, monkeypatch):
    mine = tmp_path / path.name
    mine.write_text(path.read_text())
    monkeypatch.setattr(project, "STACKS", tmp_path)
    stack = path.stem.removeprefix("Pulumi.")
    for name in project.read_config(stack).queues:
        take(name, stack=stack)
        assert not take(name, stack=stack)
    assert problems([mine]) == []


def test_a_queue_that_names_no_machines_gets_the_key(path):
    # The default families have types enough.
    assert not take("plain")
    path.write_text(AWS.replace("    plain:", "    plain:\n      item: {cpus: 30}"))
    assert take("plain")
    families = yaml.safe_load(path.read_text())["config"]["tidemill:queues"]["plain"]["machines"]["families"]
    assert families[:4] == ["c7i", "c6i", "m7i", "m6i"]
    assert len(families) > 4


def test_a_queue_without_spot_is_told_what_spot_saves(path):
    code, output = run("steady")
    assert code == 0
    assert "No rung of the queue is on Spot" in output
    assert "% less" in output


def test_on_gcp_zones_are_a_note_because_a_change_ends_machines(stacks):
    _, output = run("cpu", stack="vision-gcp-dev")
    assert "machines.zones=" not in output
    assert "Note: machines.zones names one zone (a)." in output


def test_names_that_change_places_keep_their_comments(stacks):
    path = stacks / "Pulumi.vision-gcp-dev.yaml"
    names = ("n2  # fast", "c3d", "n2d  # cheap")
    block = "\n          - ".join(("machines:\n        cpus: 16\n        families:", *names))
    path.write_text(GCP.replace("machines: {families: [n2], cpus: 16, zones: [a]}  # one of each", block))
    assert take("cpu", stack="vision-gcp-dev")
    listed = [line.strip() for line in path.read_text().splitlines() if line.strip().startswith("- ")]
    assert listed == ["- n2d  # cheap", "- n2  # fast", "- c3d"]


def test_as_json_unknown_is_null_and_every_figure_is_dated(path):
    code, output = run("cpu", "--json")
    found = json.loads(output)
    assert code == 0
    assert [change["key"] for change in found["changes"]] == ["machines.families", "machines.zones"]
    assert found["families"][0]["reclaimed"] is None
    assert found["as_of"]
    assert found["sources"]


def test_the_only_key_of_its_parent_goes_with_it(path):
    path.write_text(AWS.replace("    plain:\n", "    plain:\n      machines: {zones: [a]}\n"))
    assert "machines=null" in run("plain")[1]
    assert take("plain")


class Said:
    """A cloud that says what a test wants, and remembers what it was asked."""

    def __init__(self, answer):
        self.answer, self.asked = answer, []

    def ask(self, question):
        self.asked.append(question)
        return self.answer(question)


@pytest.fixture
def cloud(monkeypatch, stacks):
    def says(answer):
        said = Said(answer)
        monkeypatch.setattr(command, "open_source", lambda *_: said)
        return said

    return says


def scored(question, value, *, priced=()):
    """AWS's answer: one score for all types, and prices of some."""
    region = question.regions[0]
    if question.one_zone:
        zones = [PlacementScore(region, f"{region}{letter}", NOW, "ec2:GetSpotPlacementScores", None, points)
                 for letter, points in (("a", 2), ("b", 7), ("c", 2))]  # fmt: skip
        return LiveAnswer(scores=tuple(zones))
    score = PlacementScore(region, None, NOW, "ec2:GetSpotPlacementScores", None, value)
    paid = [SpotPrice(region, "us-west-2a", NOW, "ec2:DescribeSpotPriceHistory", kind, 0.4, None, None)
            for kind in question.types if kind.startswith(tuple(priced))]  # fmt: skip
    quota = CpuQuota(region, None, NOW, "servicequotas:GetServiceQuota", "spot", "standard", 32.0)
    return LiveAnswer(scores=(score,), prices=tuple(paid), quotas=(quota,))


def test_a_low_score_brings_more_families_and_an_on_demand_rung(path, cloud):
    said = cloud(lambda question: scored(question, 3 if len(question.types) < 10 else 9))
    code, output = run("cpu", "--live")
    assert code == 0, output
    own, every, zoned = said.asked
    assert take("cpu", "--live")
    assert "Spot in us-west-2 now: 3 of 10 (2026-11-22 18:00 UTC, ec2:GetSpotPlacementScores)." in output
    assert "With every family that could be named: 9 of 10" in output
    assert "Note: The account may run 32 vCPUs of class standard on Spot, and the queue asks for up to 64" in output
    queue = yaml.safe_load(path.read_text())["config"]["tidemill:queues"]["cpu"]
    assert queue["capacity"] == [{"market": "spot", "max_cpus": 64}, {"market": "on_demand", "max_cpus": 16}]
    assert len(queue["machines"]["families"]) == 10
    assert "All in one zone: us-west-2b 7, us-west-2a 2, us-west-2c 2, of 10 (2026-11-22 18:00 UTC" in output
    assert zoned.types == own.types
    assert own.types == ("c6i.large", "c6i.xlarge", "c7i.large", "c7i.xlarge")
    assert own.cpus == every.cpus == 64
    assert set(own.types) < set(every.types)
    assert not take("cpu", "--live")


def test_live_prices_count_only_where_they_are_of_all_types_that_the_tables_have(path, cloud):
    cloud(lambda question: scored(question, 9, priced=("c6i", "c7i")))
    partial = run("cpu", "--live")[1]
    assert "ec2:DescribeSpotPriceHistory" not in partial
    cloud(lambda question: scored(question, 9, priced=("c", "m", "r", "i")))
    whole = run("cpu", "--live")[1]
    assert "Source: ec2:DescribeSpotPriceHistory" in whole


def test_on_gcp_obtainability_and_reclaims_are_told(stacks, cloud):
    capacity = CapacityAdvice("us-central1", None, NOW, "advice.capacity", 4, 0.25, 600.0, ())
    rate = ReclaimRate("us-central1", None, NOW, "advice.capacityHistory", "n2-standard-16", 0.125, 7)
    cloud(lambda _: LiveAnswer(capacity=(capacity,), reclaims=(rate,)))
    code, output = run("cpu", "--live", stack="vision-gcp-dev")
    assert code == 0
    assert "obtainability 0.25 (2026-11-22 18:00 UTC, advice.capacity)" in output
    assert "12 %" in output
    assert "market: on_demand" in output


@pytest.mark.parametrize(
    ("gap", "stack", "says"),
    [
        (NoPermissionError("ec2:GetSpotPlacementScores is not allowed.", "Set advise: true."), "vision-dev",
         "Set advise: true."),
        (ApiOffError("The API is off.", "Enable it."), "vision-gcp-dev", "Enable it."),
    ],
)  # fmt: skip
def test_what_could_not_be_asked_is_told_and_the_tables_remain(stacks, cloud, gap, stack, says):
    gaps = tuple(Gap(call, "", gap) for call in ("one", "other"))
    cloud(lambda _: LiveAnswer(gaps=gaps))
    code, output = run("cpu", "--live", stack=stack)
    assert code == 0
    assert output.count(says) == 1
    assert "Not known: one, other: " in output
    assert "All figures are those of the tables." in output
    offline = run("cpu", stack=stack)[1]
    assert output.splitlines()[:4] == offline.splitlines()[:4]


def test_without_a_login_it_says_so_once(path, monkeypatch):
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    nowhere = str(path.parent / "none")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, nowhere)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    code, output = run("cpu", "--live")
    assert code == 0, output
    assert output.count("no AWS login") == 1
    assert "All figures are those of the tables." in output


def test_a_queue_without_spot_asks_nothing(path, cloud):
    said = cloud(lambda _: LiveAnswer())
    assert run("steady", "--live")[0] == 0
    assert said.asked == []
