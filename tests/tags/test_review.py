"""Findings about tags: a line for each key, as severe as the policies of the stack's environment make it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ops import project
from ops.review import guardrails
from tests.ops.review_steps import step, told

BUCKET = "aws:s3/bucket:Bucket"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
MACHINES = "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate"
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
RULE = {"required": ["tidemill:team", "CostCenter"], "allowed": {"Owner": ["a", "b"]}}


def changed(kind: str, old: dict[str, Any], new: dict[str, Any], name: str = "it") -> dict[str, Any]:
    return step("update", kind, name, old=old, new=new, diff=dict.fromkeys({**old, **new}, "update"))


def retagged(old: dict[str, Any], new: dict[str, Any], name: str = "it") -> dict[str, Any]:
    return changed(BUCKET, {"tags": old}, {"tags": new}, name)


def template(
    instance: dict[str, str], volume: dict[str, str], interface: dict[str, str] | None = None
) -> dict[str, Any]:
    kinds = {"instance": instance, "volume": volume, **({"network-interface": interface} if interface else {})}
    return {"tagSpecifications": [{"resourceType": kind, "tags": tags} for kind, tags in kinds.items()]}


def found(*steps: dict[str, Any], environment: str = "dev") -> list[tuple[str, str]]:
    listed = told(*steps, kind="tags", environment=environment)
    return [(each.severity, each.title) for each in listed]


@pytest.fixture
def demanding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Policies of prod that require a tag."""
    (tmp_path / "environments").mkdir()
    rules = {"aws-any-resource-tags": RULE, "gcp-any-resource-labels": {"required": ["cost-center"]}}
    (tmp_path / "environments" / "prod.json").write_text(json.dumps(rules))
    (tmp_path / "environments" / "default.json").write_text("{}")
    monkeypatch.setattr(project, "POLICY", tmp_path)


def test_many_resources_are_one_line() -> None:
    steps = [retagged({"CostCenter": "1", "tidemill:team": "a"}, {"tidemill:team": "a"}, f"b{n}") for n in range(64)]
    assert found(*steps) == [("medium", "64 resources lose the tag CostCenter")]
    (one,) = told(*steps, kind="tags")
    assert one.details[1:] == ("b0, b1, b10 and 61 more, listed under the changes",)


def test_a_value_that_changes_is_shown() -> None:
    steps = [retagged({"CostCenter": "4711"}, {"CostCenter": "4712"}, f"b{n}") for n in range(2)]
    assert found(*steps) == [("medium", "2 resources change the tag CostCenter: 4711 becomes 4712")]
    other = retagged({"CostCenter": "1"}, {"CostCenter": "4712"}, "c")
    (one,) = told(*steps, other, kind="tags")
    assert one.title == "3 resources change the tag CostCenter"
    assert one.details[1:3] == ("1 becomes 4712", "4711 becomes 4712")


@pytest.mark.usefixtures("demanding")
@pytest.mark.parametrize(
    ("old", "new", "severity"),
    [
        ({"CostCenter": "1"}, {}, "high"),
        ({"CostCenter": "1"}, {"CostCenter": "2"}, "high"),
        ({"Owner": "a"}, {"Owner": "b"}, "high"),
        ({"Other": "a"}, {}, "medium"),
        ({"tidemill:team": "a"}, {"tidemill:team": "b"}, "high"),
    ],
)
def test_what_the_policies_demand_is_high(old: dict[str, str], new: dict[str, str], severity: str) -> None:
    assert [each for each, _ in found(retagged(old, new), environment="prod")] == [severity]
    elsewhere = found(retagged(old, new))
    assert [each for each, _ in elsewhere] == ["high" if "tidemill:team" in old else "medium"]


@pytest.mark.usefixtures("demanding")
def test_machines_and_their_disks_count() -> None:
    full = {"CostCenter": "1", "Name": "a"}
    lost = changed(TEMPLATE, template(full, full), template(full, {"Name": "b"}))
    assert found(lost, environment="prod") == [("high", "1 resource loses the tag CostCenter")]
    one, two = ({"disks": [{"labels": {"owner": value}}, {"labels": {"owner": "a"}}]} for value in ("a", "b"))
    assert found(changed(MACHINES, one, two)) == [("medium", "1 resource changes the label owner: a becomes b")]


def test_the_default_tags_of_the_provider_count() -> None:
    lost = changed(BUCKET, {"tags": {}, "tagsAll": {"owner": "a"}}, {"tags": {}, "tagsAll": {}})
    assert found(lost) == [("medium", "1 resource loses the tag owner")]


@pytest.mark.parametrize(
    "quiet",
    [
        retagged({"a": "1"}, {"a": "1", "b": "2"}),
        retagged({"a": "1"}, {"a": UNKNOWN}),
        changed(BUCKET, {"tags": {"a": "1"}}, {"tags": UNKNOWN}),
        changed(BUCKET, {"tags": {"a": "1"}}, {"tags": {}, "tagsAll": UNKNOWN}),
        retagged({"Name": "a"}, {"Name": "b"}),
        changed(
            "gcp:monitoring/notificationChannel:NotificationChannel",
            {"labels": {"email_address": "a@b.c"}},
            {"labels": {"email_address": "d@b.c"}},
        ),
        # With a company's last tag, interfaces lose Tidemill's too, as they had none before the first.
        changed(TEMPLATE, template({"a": "1"}, {"a": "1"}, {"tidemill:team": "a"}), template({"a": "1"}, {"a": "1"})),
        step("delete", BUCKET, old={"tags": {"a": "1"}}),
    ],
)
def test_what_is_no_loss_is_not_told(quiet: dict[str, Any]) -> None:
    assert found(quiet) == []


@pytest.mark.parametrize(
    ("old", "new", "looser"),
    [
        ({}, {"required": ["tidemill:team", "CostCenter"]}, True),
        ({}, {"required": ["tidemill:team", "tidemill:environment", "CostCenter"]}, False),
        ({}, {"required": ["tidemill-team", "tidemill-environment"]}, False),
        ({"required": ["a", "b"]}, {"required": ["b", "a", "c"]}, False),
        ({"required": ["a", "b"]}, {"required": ["a"]}, True),
        ({"required": ["a"]}, {}, True),
        ({}, {"allowed": {"a": ["1"]}}, False),
        ({"allowed": {"a": ["1"]}}, {"allowed": {"a": ["1", "2"]}}, True),
        ({"allowed": {"a": ["1", "2"]}}, {"allowed": {"a": ["1"], "b": ["1"]}}, False),
        ({"allowed": {"a": ["1"]}}, {}, True),
    ],
)
def test_a_change_of_what_is_required_is_judged(old: dict[str, Any], new: dict[str, Any], looser: bool) -> None:
    path = "policy/environments/prod.json"
    texts = {before: json.dumps({"aws-any-resource-tags": side}) for before, side in ((True, old), (False, new))}
    listed = guardrails.findings([path], lambda asked, before: texts[before] if asked == path else "")
    assert {each.severity for each in listed} == {"high" if looser else "low"}
