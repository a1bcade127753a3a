"""Every stack of stacks/ obeys the rules of its environment, with everything known and with what a preview knows.

Under Pulumi's mocks: the inputs are the program's own, the outputs made up. tests/engine previews them too.
"""

import json
import runpy
from functools import partial
from typing import Any

import pytest

from components.machines import families
from policy.judging import Found
from tests.components.recording import ACCOUNT, Recorder, run_with
from tests.components.stacks import (
    FAMILY_STACK,
    QUEUES,
    ROOT,
    STACKS,
    queue_of,
    recorder,
    run_program,
    run_stack,
    settings,
)
from tests.policy.judging import environment, judge, resources_of


@pytest.mark.parametrize(
    ("stack", "preview"), [*((stack, True) for stack in STACKS), ("vision-prod", False), ("vision-gcp-prod", False)]
)
def test_a_stack_of_ours_obeys_every_rule_of_its_environment(stack, preview):
    resources = resources_of(run_stack(stack, preview=preview))
    found = judge(resources, settings(stack))
    assert [one for one in found if one.level == "mandatory"] == []
    # The dated table lacks the price of some types, and our stacks have no recipient of alarms.
    assert {one.rule for one in found} <= {
        "aws-batch-compute-environment-price-known",
        "aws-cloudwatch-metric-alarm-exists",
        "gcp-monitoring-alert-policy-exists",
    }


@pytest.mark.parametrize(
    ("stack", "who"), [("vision-prod", f"arn:aws:iam::{ACCOUNT}:root"), ("vision-gcp-prod", "user:a@b.com")]
)
def test_advice_may_be_granted_in_production(stack, who):
    access = {"submitters": [who], "advise": True}
    found = judge(resources_of(run_stack(stack, access=access)), settings(stack) | {"tidemill:access": access})
    assert [one for one in found if one.level == "mandatory"] == []


BATCH = 25
"""Queues of one stack: what submitters of more may do fits no policy."""
GROUPS = [
    (cloud, names[start : start + BATCH])
    for cloud, names in ((cloud, [*families(cloud)]) for cloud in ("aws", "gcp"))
    for start in range(0, len(names), BATCH)
]
MONEY = {"unknownUsdPerCpuHour": 0.1, "maxUsdPerHour": 100_000}
LARGE = {
    "aws-batch-compute-environment-money-cap": MONEY,
    "gcp-compute-autoscaler-money-cap": MONEY,
    "aws-batch-compute-environment-cpu-cap": {"maxCpus": 100_000},
}
"""Caps for as many queues, and for machines with hundreds of vCPUs."""


@pytest.mark.parametrize(("cloud", "names"), GROUPS, ids=[f"{names[0]}..{names[-1]}" for _, names in GROUPS])
def test_a_queue_of_every_family_obeys_too(cloud, names):
    assert broken_by(cloud, {name: queue_of(cloud, name) for name in names}) == []


@pytest.mark.parametrize("cloud", QUEUES)
def test_a_preview_of_a_queue_of_each_kind_of_family_obeys_too(cloud):
    """What a preview does not know is the same for all families of a kind."""
    assert broken_by(cloud, QUEUES[cloud], preview=True) == []


def broken_by(cloud: str, queues: dict[str, dict[str, Any]], *, preview: bool = False) -> list[Found]:
    """Mandatory rules that a stack with these queues breaks."""
    values = settings(FAMILY_STACK[cloud]) | {"tidemill:queues": queues}
    made = run_program(values, preview=preview, recorder=recorder())
    found = judge(resources_of(made), values, environment("dev") | LARGE)
    return [one for one in found if one.level == "mandatory"]


def test_a_stack_without_its_protection_does_not():
    resources = resources_of(run_stack("vision-prod", preview=True, allow=["purge"]))
    found = judge(resources, settings("vision-prod") | {"tidemill:allow": ["purge"]})
    assert {(one.rule, one.level) for one in found if one.level == "mandatory"} == {
        ("aws-any-data-protect", "mandatory"),
        ("aws-batch-compute-environment-protect", "mandatory"),
        ("aws-batch-job-queue-protect", "mandatory"),
    }


@pytest.mark.parametrize("stack", ["vision-prod", "vision-gcp-prod"])
def test_production_refuses_the_public_egress_that_development_has(stack):
    changes = {"network": {"create": {"egress": "public"}}}
    resources = resources_of(run_stack(stack, preview=True, **changes))
    config = settings(stack) | {"tidemill:network": changes["network"]}
    refused = {one.rule for one in judge(resources, config) if one.level == "mandatory"}
    assert refused
    assert all(rule.endswith("-public-address") for rule in refused)
    allowed = judge(resources, config, {})
    assert [one for one in allowed if one.level == "mandatory"] == []


@pytest.mark.parametrize("preview", [False, True], ids=["known", "preview"])
@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_the_stack_of_an_account_obeys_too_with_the_identities_of_ci(cloud, preview):
    ci = {"repository": "example/infra", "environments": ["dev", "prod"]}
    if cloud == "aws":
        ci["provider_arn"] = f"arn:aws:iam::{ACCOUNT}:oidc-provider/token.actions.githubusercontent.com"
    keys = {"replica": "us-east-1"} if cloud == "aws" else {}
    keys |= {"cloud": cloud, "service_linked_roles": ["batch.amazonaws.com"], "services": ["pubsub.googleapis.com"]}
    given = {**keys, "ci": ci}
    # The mocks call every project tidemill.
    config = {f"tidemill:{name}": one if isinstance(one, str) else json.dumps(one) for name, one in given.items()}
    program = partial(runpy.run_path, str(ROOT / "bootstrap" / "__main__.py"), run_name="__main__")
    made = run_with(Recorder(), program, preview=preview, config=config)
    assert judge(resources_of(made), {}, environment("account")) == []
