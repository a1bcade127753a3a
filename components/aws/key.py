"""KMS keys: an existing one, or a component's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pulumi
import pulumi_aws as aws

from .account import Account
from .policy import Statement, allow, document

CREATE = "create"
_USE = ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey"]


def key_arn(
    component: pulumi.Resource,
    wanted: pulumi.Input[str] | None,
    account: Account,
    tags: Mapping[str, pulumi.Input[str]] | None,
    more: Sequence[Statement] = (),
    *,
    purge: bool,
) -> pulumi.Output[str] | None:
    """The ARN of the key to encrypt with, or None for the service's own.

    Args:
        wanted: None, ``create``, or the ARN of a key.
        more: statements of a new key's policy in addition to "the account's IAM policies decide".
        purge: lift the protection of a new key; data encrypted with it is unreadable once the key is deleted.
    """
    if wanted != CREATE:
        return None if wanted is None else pulumi.Output.from_input(wanted)
    decides = {
        "Effect": "Allow",
        "Principal": {"AWS": account.arn("iam", "root", regional=False)},
        "Action": "kms:*",
        "Resource": "*",
    }
    name = component.pulumi_resource_name
    key = aws.kms.Key(
        f"{name}-key",
        description=f"Tidemill: {name}",
        enable_key_rotation=True,
        deletion_window_in_days=30,
        policy=document([decides, *more]),
        tags=tags,
        opts=pulumi.ResourceOptions(parent=component, protect=not purge),
    )
    aws.kms.Alias(f"{name}-key-alias", target_key_id=key.key_id, opts=pulumi.ResourceOptions(parent=component))
    return key.arn


def use_keys(keys: Sequence[pulumi.Input[str]]) -> list[Statement]:
    """Statements to read and write data that is encrypted with keys; none without any."""
    return [allow(_USE, keys)] if keys else []
