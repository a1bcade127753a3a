"""The rule on made-up inputs. It cannot prove that AWS refuses to add a policy later."""

import pytest

from policy.rules.aws_batch_job_queue_scheduling_policy import violations

ARN = "arn:aws:batch:us-west-2:123456789012:scheduling-policy/fair"


def test_a_queue_with_a_scheduling_policy_passes(resource):
    assert list(violations(resource({"priority": 1, "schedulingPolicyArn": ARN}))) == []


@pytest.mark.parametrize("inputs", [{"priority": 1}, {"schedulingPolicyArn": ""}, {"schedulingPolicyArn": None}])
def test_a_queue_without_one_fails(resource, inputs):
    (message,) = violations(resource(inputs))
    assert "schedulingPolicyArn is not set" in message
    assert "aws.batch.SchedulingPolicy" in message


def test_an_arn_that_only_up_will_know_passes(resource, unknown):
    assert list(violations(resource({"schedulingPolicyArn": unknown}))) == []
