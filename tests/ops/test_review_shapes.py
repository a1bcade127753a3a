"""A review of whatever a provider may put where a value is expected: unknown, secret, absent, of another type."""

import copy
import json
import random

import pytest

from ops.review.markdown import render
from tests.ops.make_previews import load
from tests.ops.review_steps import reviewed, stack, step

ODD = ("04da6b54-80e4-46f7-96ec-b56ff0331ba9", "[secret]", None, "", [], {}, 5, True, [None], ["x"], [["x"]], {"a": {}})
RECORDED = ("first-up", "gcp-pool-removed", "egress-opened", "way-in")
CASES = 700


def steps() -> dict[str, dict]:
    """One recorded resource of each type."""
    found = {}
    for name in RECORDED:
        for each in json.loads(load(name))["preview"]["steps"]:
            state = each.get("newState") or each.get("oldState")
            found[each["urn"].split("::")[2].rpartition("$")[2]] = state.get("inputs") or {}
    return {kind: inputs for kind, inputs in found.items() if not kind.startswith(("pulumi:", "tidemill:"))}


def places(value, path=()):
    """Every place in a value, the value itself left out."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        yield (*path, key)
        yield from places(each, (*path, key))


def replaced(inputs, path, odd):
    changed = copy.deepcopy(inputs)
    place = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = odd
    return changed


CHOICES = [(kind, path, odd) for kind, inputs in sorted(steps().items()) for path in places(inputs) for odd in ODD]


@pytest.mark.parametrize("op", ["update", "replace"])
def test_no_value_of_another_shape_stops_the_review(op):
    known = steps()
    for kind, path, odd in random.Random(6).sample(CHOICES, CASES):
        changed = replaced(known[kind], path, odd)
        diff = {str(path[0]): "update-replace" if op == "replace" else "update"}
        for old, new in ((known[kind], changed), (changed, known[kind])):
            try:
                text = render(reviewed(step(op, kind, old=old, new=new, diff=diff)))
            except Exception as error:
                raise AssertionError(f"{kind} {path} {odd!r}") from error
            assert text.startswith("## Tidemill: ")


@pytest.mark.parametrize("op", ["create", "delete", "same", "read", "refresh", "import", "discard", "diff"])
def test_every_operation_on_every_type_is_reviewed(op):
    found = [
        step(op, kind, f"it-{number}", old=inputs if op != "create" else None, new=inputs if op != "delete" else None)
        for number, (kind, inputs) in enumerate(sorted(steps().items()))
    ]
    assert len(found) > 50
    assert sum(reviewed(*found).stacks[0].counts.values()) == len(found)


# Shapes of previews by Google's provider 9.35, which a review of this project against that provider described; made by
# hand. They hold what localcloud's stand-in leaves out: `__defaults`, computed properties, conditions that are null.
AGE = {"age": 30, "createdBefore": None, "matchesPrefixes": ["jobs/"], "__defaults": []}
RULES = [{"action": {"type": "Delete", "__defaults": []}, "condition": AGE, "__defaults": []}]


def test_other_settings_of_a_bucket_are_not_told_as_another_expiry():
    old = {"name": "b", "lifecycleRules": RULES, "labels": {"a": "1"}, "__defaults": ["forceDestroy"]}
    without_nulls = [{"action": {"type": "Delete"}, "condition": {"age": 30, "matchesPrefixes": ["jobs/"]}}]
    new = {"name": "b", "lifecycleRules": without_nulls, "labels": {"a": "2"}, "__defaults": ["name"]}
    diff = {"lifecycleRules[0].condition.createdBefore": "delete", "lifecycleRules": "update", "labels.a": "update"}
    found = stack(step("update", "gcp:storage/bucket:Bucket", old=old, new=new, diff=diff))
    assert [finding.kind for finding in found.findings] == ["tags"]
    assert [row.path for row in found.changes[0].properties] == ["labels.a"]


def test_a_rule_that_does_change_is_told_alone():
    new = [{"action": {"type": "Delete"}, "condition": {"age": 7, "matchesPrefixes": ["jobs/"]}}]
    diff = {"lifecycleRules[0].condition.age": "update", "lifecycleRules[0].__defaults": "update"}
    found = stack(
        step(
            "update", "gcp:storage/bucket:Bucket", old={"lifecycleRules": RULES}, new={"lifecycleRules": new}, diff=diff
        )
    )
    (finding,) = found.findings
    assert (finding.kind, finding.severity) == ("state-expires", "high")
    assert finding.title == "deletes objects below jobs/ sooner: kept 7 days, was 30 days"


def test_what_the_cloud_works_out_is_no_row():
    disks = [{"sourceImage": "a", "__defaults": ["boot"]}]
    changed = {"disks": disks, "metadata": {"user-data": "b"}}
    diff = {"disks[0].resourceManagerTags": "add", "metadata": "update", "crc32c": "update"}
    kind = "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate"
    found = stack(step("update", kind, old={"disks": disks, "metadata": {"user-data": "a"}}, new=changed, diff=diff))
    assert {row.path.partition(".")[0].partition("[")[0] for row in found.changes[0].properties} == {"metadata"}


def test_defaults_are_no_content_of_a_policy():
    document = {
        "Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}],
        "__defaults": ["Version"],
    }
    other = {"Statement": document["Statement"], "__defaults": []}
    found = stack(step("update", "aws:iam/policy:Policy", old={"policy": document}, new={"policy": other}))
    assert [finding.kind for finding in found.findings] == []
