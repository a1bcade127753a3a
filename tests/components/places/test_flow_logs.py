"""Flow logs of networks that a stack makes. Recording mocks prove what is requested, not what a cloud writes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.components.recording import Recorder
from tests.components.stacks import run_stack

KEY = "arn:aws:kms:us-west-2:123456789012:key/0a"
GOOGLE_KEY = "projects/p/locations/us-central1/keyRings/r/cryptoKeys/k"
GROUP = "arn:mock:LogGroup:vision-dev-network-flows"


def on_aws(**changes: Any) -> Recorder:
    return run_stack("vision-dev", network={"create": {"flow_logs_days": 30}}, **changes)


@pytest.mark.parametrize("key", [None, KEY])
def test_a_vpcs_traffic_is_logged_for_so_long_with_the_key_of_the_logs(key: str | None):
    made = on_aws(logs={"kms_key": key} if key else {})
    flows, group = made.one("ec2.FlowLog").inputs, made.one("cloudwatch.LogGroup", "vision-dev-network-flows")
    assert (flows["trafficType"], flows["logDestination"]) == ("ALL", GROUP)
    assert (group.inputs["retentionInDays"], group.inputs.get("kmsKeyId")) == (30, key)
    assert flows["tags"]["tidemill:environment"] == group.inputs["tags"]["tidemill:environment"] == "dev"


def test_the_role_writes_into_its_group_alone():
    made = on_aws(permission_boundary="arn:aws:iam::123456789012:policy/boundary")
    role = made.one("iam.Role", "vision-dev-network-flows")
    (trusted,) = role.document("assumeRolePolicy")["Statement"]
    assert trusted["Principal"] == {"Service": "vpc-flow-logs.amazonaws.com"}
    assert trusted["Condition"] == {"StringEquals": {"aws:SourceAccount": "123456789012"}}
    assert role.inputs["permissionsBoundary"] == "arn:aws:iam::123456789012:policy/boundary"
    policy = made.one("iam.RolePolicy", "vision-dev-network-flows-vision-dev-network-flows")
    write, look = policy.document("policy")["Statement"]
    assert write["Resource"] == [GROUP, f"{GROUP}:*"]
    assert look["Action"] == ["logs:DescribeLogGroups"]


def test_a_subnetworks_lines_have_a_bucket_of_their_own():
    network = {"create": {"flow_logs_days": 90}}
    made = run_stack("vision-gcp-dev", network=network, logs={"kms_key": GOOGLE_KEY})
    assert made.one("compute.Subnetwork").inputs["logConfig"]["flowSampling"] == 0.5
    bucket = made.one("logging.ProjectBucketConfig", "vision-dev-network-flows-bucket")
    assert bucket.inputs["retentionDays"] == 90
    assert bucket.inputs["cmekSettings"] == {"kmsKeyName": GOOGLE_KEY}
    assert bucket.options["protect"]
    sink = made.one("logging.ProjectSink", "vision-dev-network-flows").inputs
    assert sink["filter"] == made.one("logging.ProjectExclusion", "vision-dev-network-flows-default").inputs["filter"]
    assert "vpc_flows" in sink["filter"]


@pytest.mark.parametrize("stack", ["vision-dev", "vision-gcp-dev"])
def test_nothing_is_logged_unless_asked_for(stack: str):
    made = run_stack(stack)
    assert not made.of("ec2.FlowLog")
    assert not [each.name for each in made.resources if each.name.endswith("-flows")]
    assert all("logConfig" not in each.inputs for each in made.of("compute.Subnetwork"))
