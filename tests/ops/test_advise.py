"""`python -m ops advise` on stack files, with the package's own tables and no cloud."""

import datetime
import difflib
import json

import pytest
import yaml
from click.testing import CliRunner

from ops import project, stack_files
from ops.advise import command
from ops.advise.command import advise
from ops.check import problems
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


def changed(before, path):
    lines = difflib.ndiff(before.splitlines(), path.read_text().splitlines())
    return [line for line in lines if line[0] in "+-"]


def test_it_prints_the_change_and_leaves_the_file_alone(path):
    code, output = run("cpu")
    assert code == 0, output
    assert "+          - r5" in output
    assert "-        zones: [a, c]   # where the data is" in output
    assert "Nothing is written; --write edits the file." in output
    assert path.read_text() == AWS


def test_written_it_keeps_comments_and_order_and_a_second_run_changes_nothing(path):
    assert run("cpu", "--write")[0] == 0
    assert changed(AWS, path) == [
        "-         zones: [a, c]   # where the data is",
        "+           - r5",
        "+           - r7i",
        "+           - m6i",
    ]
    assert problems([path]) == []
    written = path.read_text()
    code, output = run("cpu", "--write")
    assert code == 0
    assert "is unchanged" in output
    assert path.read_text() == written


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
    for queue in project.read_config(stack).queues:
        assert run(queue, "--write", stack=stack)[0] == 0
        written = mine.read_text()
        assert "is unchanged" in run(queue, "--write", stack=stack)[1]
        assert mine.read_text() == written
    assert problems([mine]) == []


def test_a_queue_that_names_no_machines_gets_the_key(path):
    code, output = run("plain", "--write")
    assert code == 0, output
    # The default families have types enough.
    assert changed(AWS, path) == []
    path.write_text(AWS.replace("    plain:", "    plain:\n      item: {cpus: 30}"))
    code, output = run("plain", "--write")
    families = yaml.safe_load(path.read_text())["config"]["tidemill:queues"]["plain"]["machines"]["families"]
    assert families[:4] == ["c7i", "c6i", "m7i", "m6i"]
    assert len(families) > 4


def test_a_queue_without_spot_is_told_what_spot_saves(path):
    code, output = run("steady")
    assert code == 0
    assert "No rung of the queue is on Spot" in output
    assert "% less" in output


def test_on_gcp_zones_are_a_note_because_a_change_ends_machines(stacks):
    path = stacks / "Pulumi.vision-gcp-dev.yaml"
    code, output = run("cpu", "--write", stack="vision-gcp-dev")
    assert code == 0, output
    assert (
        changed(GCP, path)
        == [
            "-       machines: {families: [n2], cpus: 16, zones: [a]}  # one of each",
            "+       machines: {families: [n2d, n1, n2], cpus: 16, zones: [a]} # one of each",
        ]
        or "zones: [a]" in path.read_text()
    )
    assert "Note: machines.zones names one zone (a)." in output


@pytest.mark.parametrize(
    "theirs", [AWS + "# theirs\n", AWS.replace("        zones: [a, c]   # where the data is\n", "")]
)
def test_a_file_that_changed_while_the_cloud_was_asked_stays_theirs(path, cloud, theirs):
    def late(_):
        path.write_text(theirs)
        return LiveAnswer()

    cloud(late)
    code, output = run("cpu", "--write", "--live")
    assert code == 1
    assert "changed meanwhile" in output
    assert path.read_text() == theirs


def test_names_that_change_places_keep_their_comments(stacks):
    path = stacks / "Pulumi.vision-gcp-dev.yaml"
    names = ("n2  # fast", "c3d", "n2d  # cheap")
    block = "\n          - ".join(("machines:\n        cpus: 16\n        families:", *names))
    path.write_text(GCP.replace("machines: {families: [n2], cpus: 16, zones: [a]}  # one of each", block))
    assert run("cpu", "--write", stack="vision-gcp-dev")[0] == 0
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
    assert found["written"] is False
    assert json.loads(run("cpu", "--write", "--json")[1])["written"] is True


KEYS = "machines: {zones: [a], cpus: {min: 2, max: 4}}"


@pytest.mark.parametrize("keys", [KEYS, "machines: {zones: [a]}"], ids=["a key", "the only key"])
def test_a_queue_that_merges_keys_in_is_shown_advice_that_cannot_be_written(path, keys):
    text = AWS.replace("    plain:\n", f"    plain: &one\n      {keys}\n")
    text = text.replace("    steady:\n", "    steady:\n      <<: *one\n").replace("market: on_demand", "market: spot")
    path.write_text(text)
    code, output = run("steady")
    assert code == 0, output
    assert "machines.zones: leave it out" in output
    assert "Note: --write cannot edit the file." in output
    code, output = run("steady", "--write")
    assert code == 2, output
    assert "anchor" in output
    assert path.read_text() == text


def test_a_file_that_somebody_else_has_written_meanwhile_stays_theirs(path, monkeypatch):
    write = stack_files.write

    def late(*arguments):
        path.write_text(AWS + "# theirs\n")
        write(*arguments)

    monkeypatch.setattr(stack_files, "write", late)
    code, output = run("cpu", "--write")
    assert code == 1
    assert "changed meanwhile" in output
    assert path.read_text() == AWS + "# theirs\n"


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
    code, output = run("cpu", "--write", "--live")
    assert code == 0, output
    assert "Spot in us-west-2 now: 3 of 10 (2026-11-22 18:00 UTC, ec2:GetSpotPlacementScores)." in output
    assert "With every family that could be named: 9 of 10" in output
    assert "Note: The account may run 32 vCPUs of class standard on Spot, and the queue asks for up to 64" in output
    queue = yaml.safe_load(path.read_text())["config"]["tidemill:queues"]["cpu"]
    assert queue["capacity"] == [{"market": "spot", "max_cpus": 64}, {"market": "on_demand", "max_cpus": 16}]
    assert len(queue["machines"]["families"]) == 10
    assert "All in one zone: us-west-2b 7, us-west-2a 2, us-west-2c 2, of 10 (2026-11-22 18:00 UTC" in output
    own, every, zoned = said.asked
    assert zoned.types == own.types
    assert own.types == ("c6i.large", "c6i.xlarge", "c7i.large", "c7i.xlarge")
    assert own.cpus == every.cpus == 64
    assert set(own.types) < set(every.types)
    written = path.read_text()
    assert "is unchanged" in run("cpu", "--write", "--live")[1]
    assert path.read_text() == written


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
