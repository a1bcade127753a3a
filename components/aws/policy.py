"""IAM documents as plain data. Values may be outputs; actions are always listed in full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
import pulumi_aws as aws

from ..outputs import json_of

Statement = dict[str, Any]


def allow(
    actions: Sequence[str],
    resources: Sequence[pulumi.Input[str]],
    condition: Mapping[str, Mapping[str, Any]] | None = None,
) -> Statement:
    statement: Statement = {"Effect": "Allow", "Action": list(actions), "Resource": list(resources)}
    return {**statement, "Condition": condition} if condition else statement


def deny(actions: Sequence[str], resources: Sequence[pulumi.Input[str]]) -> Statement:
    return {**allow(actions, resources), "Effect": "Deny"}


def document(statements: pulumi.Input[Sequence[pulumi.Input[Statement]]]) -> pulumi.Output[str]:
    return json_of({"Version": "2012-10-17", "Statement": statements})


def trust(service: pulumi.Input[str], source_account: pulumi.Input[str] | None = None) -> pulumi.Output[str]:
    """A trust policy for one AWS service, limited to this account's resources if the service names them.

    Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/confused-deputy.html
    """
    statement: Statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    if source_account is not None:
        statement["Condition"] = {"StringEquals": {"aws:SourceAccount": source_account}}
    return document([statement])


def role_of(
    component: pulumi.Resource,
    suffix: str,
    assume: pulumi.Input[str],
    boundary: pulumi.Input[str] | None,
    tags: Mapping[str, str] | None,
) -> aws.iam.Role:
    """A role, child of the component that makes it, with the boundary and tags that all roles of a stack have."""
    return aws.iam.Role(
        f"{component.pulumi_resource_name}-{suffix}",
        assume_role_policy=assume,
        permissions_boundary=boundary,
        tags=tags,
        opts=pulumi.ResourceOptions(parent=component),
    )


def grant(
    component: pulumi.Resource,
    what: str,
    role: aws.iam.Role,
    statements: pulumi.Input[Sequence[pulumi.Input[Statement]]],
) -> aws.iam.RolePolicy:
    """An inline policy on a role, child of the granting component; its name says what and to whom."""
    name = f"{component.pulumi_resource_name}-{what}-{role.pulumi_resource_name}"
    return aws.iam.RolePolicy(
        name, role=role.name, policy=document(statements), opts=pulumi.ResourceOptions(parent=component)
    )
