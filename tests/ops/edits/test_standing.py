"""Findings that stood before a change are apart from what the change brings, in words of the real rules.

Previews are those of the edits' table (tests/ops/edits/preview.py); tests/engine/test_review.py runs one on the engine.
"""

import copy
import json
from typing import Any

import pytest

from ops import engine
from ops.review.build import build
from ops.review.document import parse
from ops.review.models import Finding
from policy.rules import POLICIES
from policy.rules.aws_any_data_protect import LOSSES
from tests.components.recording import ACCOUNT
from tests.components.stacks import settings
from tests.ops.edits.preview import document
from tests.ops.make_previews import TODAY
from tests.ops.review_steps import step, told, urn

FIRST, PRICE = "aws-batch-job-queue-spot-first", "aws-batch-compute-environment-price-known"
TAGS = {"aws:defaultTags": {"tags": {"CostCenter": "4711"}}}
"""A change of almost every resource that no rule minds."""


def config(**queue: Any) -> dict[str, Any]:
    """A stack's config with other keys of its queue `cpu`."""
    found = settings("vision-prod")
    found["tidemill:queues"]["cpu"].update(copy.deepcopy(queue))
    return found


def findings(before: dict[str, Any], after: dict[str, Any], **more: Any) -> list[Finding]:
    found = json.loads(json.dumps(document("vision-prod", before, after), default=str)) | more
    return list(build([parse(json.dumps(found), "vision-prod")], TODAY).stacks[0].findings)


def of(rule: str, found: list[Finding]) -> list[tuple[str, bool]]:
    """Severity, and whether it is as before, of a rule's findings."""
    return [(each.severity, "as before" in each.title) for each in found if each.title.startswith(rule)]


def test_a_violation_that_stood_is_as_before_though_almost_every_resource_changes():
    assert of(PRICE, findings(config(), config() | TAGS)) == [("low", True)]


def test_what_gets_worse_is_new_though_the_resource_that_is_named_stays():
    """The rule names one fleet for the whole stack, and which types have no price."""
    before, after = config(), config()
    after["tidemill:queues"]["gpu"]["machines"]["families"].append("g6e")
    fleets = {name: document("vision-prod", each, each)["policies"] for name, each in (("b", before), ("a", after))}
    (was, now) = ([each for each in fleets[name] if each["rule"] == PRICE] for name in ("b", "a"))
    assert was[0]["urn"] == now[0]["urn"]
    assert of(PRICE, findings(before, after)) == [("low", False)]


ENVIRONMENT, QUEUE = "aws:batch/computeEnvironment:ComputeEnvironment", "aws:batch/jobQueue:JobQueue"


@pytest.mark.parametrize(("market", "wanted"), [("EC2", ("low", True)), ("SPOT", ("medium", False))])
def test_a_rule_about_several_resources_sees_them_as_they_were(market, wanted):
    """The queue's environment is found by its ARN, which the cloud gave it."""
    arn = f"arn:aws:batch:us-west-2:{ACCOUNT}:compute-environment/e"
    orders = {"computeEnvironmentOrders": [{"order": 1, "computeEnvironment": arn}]}
    environment = changing(
        ENVIRONMENT, "e", {"computeResources": {"type": market}}, {"computeResources": {"type": "EC2"}}
    )
    environment["oldState"]["outputs"] = {"arn": arn}
    queue = changing(QUEUE, "q", {**orders, "priority": 1}, {**orders, "priority": 2})
    (sentence,) = [each.description for each in POLICIES if each.name == FIRST]
    message = (
        f"{sentence}\nits first compute environment is of type EC2: jobs start on On-Demand machines. Give an "
        "environment of type SPOT the lowest order."
    )
    said = {"rule": FIRST, "level": "advisory", "severity": "medium", "urn": urn(QUEUE, "q"), "message": message}
    found = told(environment, queue, policies=[said], kind="policy")
    assert of(FIRST, found) == [wanted]


def changing(kind: str, name: str, old: dict[str, Any], new: dict[str, Any], **more: Any) -> dict[str, Any]:
    """An update of a resource."""
    return step("update", kind, name, old=old, new=new, diff=dict.fromkeys({**old, **new}, "update"), **more)


def test_protection_that_the_change_lifts_is_new():
    kind, data = "aws:s3/bucket:Bucket", "aws-any-data-protect"
    said = {"rule": data, "level": "advisory", "severity": "critical", "urn": urn(kind, "b"), "message": message(kind)}
    (found,) = told(step("update", kind, "b", old={"a": 1}, new={"a": 2}), policies=[said], kind="policy")
    assert (found.severity, "as before" in found.title) == ("low", True)
    lifted = step("update", kind, "b", old={"a": 1}, new={"a": 2}, protect=(True, False))
    (found,) = told(lifted, policies=[said], kind="policy")
    assert (found.severity, "as before" in found.title) == ("medium", False)


def message(kind: str) -> str:
    (sentence,) = [each.description for each in POLICIES if each.name == "aws-any-data-protect"]
    return (
        f"{sentence}\nprotect is off: deleting or replacing it loses {LOSSES[kind]}. Set protect=True (in a Tidemill "
        "stack: remove purge from tidemill:allow), or waive this rule until the resource is gone."
    )


def test_a_mandatory_violation_stays_critical_or_high():
    kind = "aws:s3/bucket:Bucket"
    said = {"rule": "aws-any-data-protect", "level": "mandatory", "severity": "critical", "urn": urn(kind, "b")}
    told_of = [{**said, "message": message(kind)}]
    (found,) = told(step("same", kind, "b", old={}, new={}), policies=told_of, exit_code=1, kind="policy")
    assert found.severity == "critical"


WAIVER = {"rule": "aws-any-data-protect", "resource": "b", "reason": "The pilot ends", "until": "2027-11-21"}


@pytest.mark.parametrize(
    ("before", "until", "wanted"),
    [
        ([WAIVER], "2027-11-21", "low"),
        ([WAIVER], "2027-11-22", "medium"),
        ([{**WAIVER, "resource": "other"}], "2027-11-21", "medium"),
        ([], "2027-11-21", "medium"),
        ([{**WAIVER, "until": "2026-11-30"}], "2026-11-30", "medium"),  # it ends soon
        ([{**WAIVER, "until": "2026-11-20"}], "2026-11-20", "high"),  # it has ended
    ],
)
def test_a_waiver_of_the_base_is_as_before_until_it_ends(before, until, wanted):
    base = {"ref": "main", "commit": "0" * 40, "config": {"tidemill:waivers": before}}
    (found,) = told(waivers=[{**WAIVER, "until": until}], base=base, kind="waiver")
    assert found.severity == wanted


def test_an_override_of_the_base_is_as_before_though_its_resource_changes():
    kind, name = "aws:ec2/launchTemplate:LaunchTemplate", "machines"
    change = step("update", kind, name, old={"a": 1}, new={"a": 2}, diff={"a": "update"})
    given = {f"LaunchTemplate/{name}": {"monitoring": {"enabled": True}}}

    def severities(before: dict[str, Any]) -> list[str]:
        base = {"ref": "main", "commit": "0" * 40, "config": {"tidemill:overrides": before}}
        return [each.severity for each in told(change, overrides=given, base=base, kind="override")]

    assert severities(given) == ["low"]
    assert severities({}) == ["medium"]
    assert severities({f"LaunchTemplate/{name}": {"monitoring": {"enabled": False}}}) == ["medium"]
    assert [each.severity for each in told(change, overrides=given, kind="override")] == ["medium"], "without a base"


GROUP = {"machines": {"ingress": [{"fromPort": 22}], "tags": {"a": "b"}, "options": {"new": {"deep": 1}, "none": None}}}


def test_what_localcloud_left_out_of_a_preview_is_not_judged():
    made = step("create", "aws:ec2/securityGroup:SecurityGroup", "machines", new={"tags": {"a": "b"}, "options": {}})
    preview = {"overrides": GROUP, "preview": {"steps": [made]}}
    assert engine.overridden(GROUP) == {"machines": ["ingress", "tags.a", "options.new.deep"]}
    left = engine.not_judged(preview)
    assert left == {"machines": ["ingress", "options.new.deep"]}
    assert engine.not_judged({**preview, "overrides": {"Vpc/machines": GROUP["machines"]}}) == {}
    found = told(made, overrides=GROUP, not_judged=left, kind="override")
    assert [(each.severity, each.title) for each in found if "not judged" in each.title] == [
        ("high", "not judged: ingress, options.new.deep, which localcloud does not imitate")
    ]
