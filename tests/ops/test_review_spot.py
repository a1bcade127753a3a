"""What the review says of a Spot fleet's choice: types, zones, and how often machines are reclaimed."""

import datetime

import pytest

from ops import scores
from tests.ops.review_steps import document, step, told, urn
from tidemill.advice.sources import LiveAnswer, PlacementScore
from tidemill.errors import CallerError

ENVIRONMENT = "aws:batch/computeEnvironment:ComputeEnvironment"
GROUP = "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager"
TEMPLATE = "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate"
SUBNET = "aws:ec2/subnet:Subnet"
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
MANY = ["c6i.large", "m6i.large", "c6i.xlarge"]


def fleet(types, subnets=("a", "b"), market="SPOT"):
    given = [*subnets] if isinstance(subnets, tuple) else subnets
    return {"computeResources": {"type": market, "maxVcpus": 64, "instanceTypes": types, "subnets": given}}


def titles(*steps, **other):
    return [(finding.severity, finding.title) for finding in told(*steps, kind="spot", **other)]


ONE_TYPE = ("low", "Spot has no choice: one machine type (g5.xlarge)")
ONE_ZONE = ("low", "Spot has no choice: machines start in one zone")


@pytest.mark.parametrize(
    ("new", "found"),
    [
        (fleet(MANY), []),
        (fleet(["g5.xlarge"]), [ONE_TYPE]),
        (fleet(MANY, ("a",)), [ONE_ZONE]),
        (fleet(["g5.xlarge"], ("a",)), [ONE_ZONE, ONE_TYPE]),
        (fleet(["g5.xlarge"], ("a",), "EC2"), []),
        (fleet(MANY, UNKNOWN), []),
    ],
    ids=["many", "type", "zone", "both", "On-Demand", "zones unknown"],
)
def test_a_fleet_without_a_choice_is_told(new, found):
    assert titles(step("create", ENVIRONMENT, new=new)) == found


def test_of_a_new_network_the_engine_knows_the_subnets():
    needs = {"computeResources": [urn(SUBNET, "a")]}
    assert titles(step("create", ENVIRONMENT, new=fleet(MANY, UNKNOWN), needs=needs)) == [ONE_ZONE]
    needs["computeResources"].append(urn(SUBNET, "b"))
    assert titles(step("create", ENVIRONMENT, new=fleet(MANY, UNKNOWN), needs=needs)) == []


def test_what_was_so_before_is_not_told_again():
    one = fleet(["g5.xlarge"], ("a",))
    assert titles(step("same", ENVIRONMENT, old=one, new=one)) == []
    other = {**one, "tags": {"a": "b"}}
    assert titles(step("update", ENVIRONMENT, old=one, new=other, diff={"tags.a": "add"})) == []
    narrower = {"computeResources.subnets[1]": "delete"}
    assert titles(step("update", ENVIRONMENT, old=fleet(MANY), new=fleet(MANY, ("a",)), diff=narrower)) == [ONE_ZONE]
    assert titles(step("delete", ENVIRONMENT, old=one)) == []


@pytest.mark.parametrize(
    ("types", "share"),
    [
        (["c7i.large", "m7i.large"], "its 2 types"),
        (["c7i.large", "m7i.large", "c6i.large"], "2 of its 3 types"),
        (["c7i.large", "c6i.large"], None),
        (["c7i.large", "r5.large"], None),
        (["g5.large", "g6.large"], None),
    ],
    ids=["all", "most", "half", "the rest is unknown", "nothing is known"],
)
def test_types_that_are_often_reclaimed_are_told_with_date_and_source(types, share):
    found = told(step("create", ENVIRONMENT, new=fleet(types)), kind="spot")
    if share is None:
        assert found == []
        return
    (one,) = found
    assert (one.severity, one.title) == (
        "medium",
        f"Spot machines are often reclaimed: more than 20 % in a month for {share}",
    )
    assert one.details[:2] == ("Types: c7i.large, m7i.large.", "Of 2026-11-21, from tests.")


@pytest.mark.parametrize(
    ("zones", "found"), [(["us-central1-a"], True), (["us-central1-a", "us-central1-b"], False), (None, False)]
)
def test_a_group_in_one_zone_is_told(zones, found):
    machine = {"machineType": "n2-standard-16", "scheduling": {"provisioningModel": "SPOT"}}
    kinds = [{"machineTypes": ["n2-standard-16"]}, {"machineTypes": ["c3d-standard-16"]}]
    group = {"instanceFlexibilityPolicy": {"instanceSelections": kinds}}
    group |= {"distributionPolicyZones": zones} if zones else {}
    steps = [
        step("create", TEMPLATE, "t", new=machine),
        step("create", GROUP, "g", new=group, needs={"versions": [urn(TEMPLATE, "t")]}),
    ]
    assert titles(*steps, cloud="gcp", region="us-central1") == ([ONE_ZONE] if found else [])


NOW = datetime.datetime(2026, 11, 22, 18, 0, tzinfo=datetime.UTC)


@pytest.fixture
def cloud(monkeypatch):
    """A cloud with the same score for every question; a text instead of a score is its refusal."""
    asked = []

    def says(value):
        class Source:
            def ask(self, question):
                asked.append(question)
                if isinstance(value, str):
                    raise CallerError(value)
                score = PlacementScore("us-west-2", None, NOW, "ec2:GetSpotPlacementScores", None, value)
                return LiveAnswer(scores=(score,) if value else ())

        monkeypatch.setattr(scores, "open_source", lambda *_: Source())
        return asked

    return says


def test_a_preview_asks_for_the_spot_fleets_that_change(cloud):
    asked = cloud(3)
    kept = step("same", ENVIRONMENT, "kept", old=fleet(MANY), new=fleet(MANY))
    steps = [kept, step("create", ENVIRONMENT, "new", new=fleet(MANY)),
             step("create", ENVIRONMENT, "fixed", new=fleet(MANY, market="EC2"))]  # fmt: skip
    rows = scores.spot_scores(document(*steps))
    assert [row["fleet"] for row in rows] == ["new"]
    assert [(question.types, question.cpus) for question in asked] == [(tuple(sorted(MANY)), 64)]


@pytest.mark.parametrize(("value", "found"), [(3, 1), (4, 0), (0, 0), ("boto3 is missing", 0)])
def test_a_low_score_at_the_preview_is_told_with_date_and_source(cloud, value, found):
    cloud(value)
    new = step("create", ENVIRONMENT, new=fleet(MANY))
    rows = scores.spot_scores(document(new))
    assert bool(rows) is (value in (3, 4)), "what could not be asked is no row"
    findings = told(new, kind="spot", spot=rows)
    assert len(findings) == found
    if found:
        assert (findings[0].severity, findings[0].title) == (
            "medium",
            "Spot machines were scarce at the preview: 3 of 10",
        )
        assert findings[0].details[0] == "Of 2026-11-22 18:00 UTC, from ec2:GetSpotPlacementScores."


def test_a_preview_that_failed_or_has_no_region_asks_nothing(cloud):
    asked = cloud(3)
    new = step("create", ENVIRONMENT, new=fleet(MANY))
    assert scores.spot_scores({**document(new), "preview": None}) == []
    assert scores.spot_scores(document(new, region=None)) == []
    assert asked == []
