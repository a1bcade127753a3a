"""KMS keys: an existing one, or a component's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pulumi
import pulumi_aws as aws

from .account import Account
from .policy import Statement, allow, document

CREATE = "create"
_LAUNCHING = ("autoscaling", "batch", "ec2fleet", "spot", "spotfleet")
"""Services whose roles start machines of Batch."""
_RENEW = ["kms:GenerateDataKeyWithoutPlaintext", "kms:ReEncryptFrom", "kms:ReEncryptTo"]
_USE = ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey"]


def key_arn(
    component: pulumi.Resource,
    wanted: pulumi.Input[str] | None,
    account: Account,
    tags: Mapping[str, pulumi.Input[str]] | None,
    more: Sequence[Statement] = (),
    *,
    purge: bool,
    what: str | None = None,
    region: str | None = None,
) -> pulumi.Output[str] | None:
    """The ARN of the key to encrypt with, or None for the service's own.

    Args:
        wanted: None, ``create``, or the ARN of a key.
        more: statements of a new key's policy in addition to "the account's IAM policies decide".
        purge: lift the protection of a new key; data encrypted with it is unreadable once the key is deleted.
        what: what it is for, if the component has several keys.
        region: another region than the provider's.
    """
    if wanted != CREATE:
        return None if wanted is None else pulumi.Output.from_input(wanted)
    decides = {
        "Effect": "Allow",
        "Principal": {"AWS": account.arn("iam", "root", regional=False)},
        "Action": "kms:*",
        "Resource": "*",
    }
    name = "-".join(filter(None, [component.pulumi_resource_name, what]))
    key = aws.kms.Key(
        f"{name}-key",
        region=region,
        description=f"Tidemill: {name}",
        enable_key_rotation=True,
        deletion_window_in_days=30,
        policy=document([decides, *more]),
        tags=tags,
        opts=pulumi.ResourceOptions(parent=component, protect=not purge),
    )
    aws.kms.Alias(
        f"{name}-key-alias", region=region, target_key_id=key.key_id, opts=pulumi.ResourceOptions(parent=component)
    )
    return key.arn


def launch_statements(account: Account) -> list[Statement]:
    """Statements of a key's policy by which EC2 can start machines with volumes that it encrypts.

    The roles that start machines have no permission for keys, and a policy that names one which the account does not
    have yet is refused: so the account's are named by a condition. Only services of AWS can be these roles.
    Source: https://docs.aws.amazon.com/autoscaling/ec2/userguide/key-policy-requirements-EBS-encryption.html
    """
    paths = [f"role/aws-service-role/{service}.amazonaws.com/*" for service in _LAUNCHING]
    roles = {
        "StringEquals": {"kms:CallerAccount": account.number},
        "ArnLike": {"aws:PrincipalArn": [account.arn("iam", path, regional=False) for path in paths]},
    }
    for_volumes = {**roles, "Bool": {"kms:GrantIsForAWSResource": "true"}}
    everybody = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Resource": "*"}
    return [
        {**everybody, "Sid": "StartMachines", "Action": [*_USE, *_RENEW], "Condition": roles},
        {**everybody, "Sid": "AttachVolumes", "Action": "kms:CreateGrant", "Condition": for_volumes},
    ]


def use_keys(keys: Sequence[pulumi.Input[str]]) -> list[Statement]:
    """Statements to read and write data that is encrypted with keys; none without any."""
    return [allow(_USE, keys)] if keys else []
