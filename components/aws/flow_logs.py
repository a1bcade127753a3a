"""Flow logs: a line for the traffic of each network interface of a VPC, in a log group."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi
import pulumi_aws as aws

from .account import Account
from .policy import allow, grant, trust

_WRITE = ["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"]
_INTERVAL_SECONDS = 600
"""The longest, which makes the fewest lines."""


def flow_log(
    component: pulumi.Resource,
    vpc_id: pulumi.Input[str],
    retention_days: int,
    account: Account,
    *,
    kms_key: pulumi.Input[str] | None,
    permission_boundary: pulumi.Input[str] | None,
    tags: Mapping[str, pulumi.Input[str]] | None,
) -> aws.ec2.FlowLog:
    """Log a VPC's traffic, accepted and refused, with a role that may write into this log group alone.

    Args:
        kms_key: ARN of a key that admits CloudWatch Logs; None for AWS's own encryption.

    Source: https://docs.aws.amazon.com/vpc/latest/userguide/flow-logs-iam-role.html
    """
    name, child = f"{component.pulumi_resource_name}-flows", pulumi.ResourceOptions(parent=component)
    group = aws.cloudwatch.LogGroup(name, retention_in_days=retention_days, kms_key_id=kms_key, tags=tags, opts=child)
    role = aws.iam.Role(
        name,
        assume_role_policy=trust(account.principal("vpc-flow-logs"), account.number),
        permissions_boundary=permission_boundary,
        tags=tags,
        opts=child,
    )
    # It looks whether the group is there; the call lists groups, and no more.
    listing = allow(["logs:DescribeLogGroups"], [account.arn("logs", "log-group:*")])
    written = grant(
        component, "flows", role, [allow(_WRITE, [group.arn, pulumi.Output.concat(group.arn, ":*")]), listing]
    )
    return aws.ec2.FlowLog(
        name,
        vpc_id=vpc_id,
        traffic_type="ALL",
        log_destination_type="cloud-watch-logs",
        log_destination=group.arn,
        iam_role_arn=role.arn,
        max_aggregation_interval=_INTERVAL_SECONDS,
        tags=tags,
        opts=pulumi.ResourceOptions(parent=component, depends_on=[written]),
    )
