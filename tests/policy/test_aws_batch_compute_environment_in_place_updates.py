"""The rule on made-up inputs. It cannot prove that AWS Batch would update such an environment in place."""

import pytest

from policy.rules.aws_batch_compute_environment_in_place_updates import violations

LINKED = "arn:aws:iam::123456789012:role/aws-service-role/batch.amazonaws.com/AWSServiceRoleForBatch"
OWN = "arn:aws:iam::123456789012:role/batch-service"


def environment(role=None, **template):
    inputs = {"type": "MANAGED", "computeResources": {"type": "SPOT", "launchTemplate": template} if template else {}}
    return inputs if role is None else inputs | {"serviceRole": role}


@pytest.mark.parametrize(
    "inputs",
    [
        environment(launchTemplateId="lt-1", version="3"),
        environment(LINKED, launchTemplateId="lt-1", version="3"),
        environment(),
        {"type": "UNMANAGED"},
    ],
)
def test_an_environment_that_can_be_updated_passes(props, inputs):
    assert list(violations(props(inputs))) == []


@pytest.mark.parametrize(
    ("inputs", "named", "fix"),
    [
        (environment(OWN, launchTemplateId="lt-1", version="3"), OWN, "Remove service_role"),
        (environment(launchTemplateId="lt-1", version="$Latest"), "$Latest", "latest_version"),
        (environment(launchTemplateId="lt-1", version="$Default"), "$Default", "latest_version"),
        (environment(launchTemplateId="lt-1", version=""), "not set", "latest_version"),
        (environment(launchTemplateName="workers"), "not set", "latest_version"),
    ],
)
def test_an_environment_that_would_be_replaced_or_left_behind_fails(props, inputs, named, fix):
    (message,) = violations(props(inputs))
    assert named in message
    assert fix in message


def test_both_mistakes_are_told_at_once(props):
    assert len(list(violations(props(environment(OWN, launchTemplateId="lt-1", version="$Latest"))))) == 2


def test_what_a_preview_does_not_know_is_tolerated_and_the_rest_judged(props, unknown):
    assert list(violations(props(environment(unknown, launchTemplateId=unknown, version=unknown)))) == []
    assert list(violations(props({"computeResources": unknown}))) == []
    (message,) = violations(props(environment(unknown, launchTemplateId=unknown, version="$Latest")))
    assert "$Latest" in message
