"""CI's permissions for what only tags tell apart: the file systems and launch templates of an environment's stacks."""

from typing import Any

import pulumi

from ..policy import Statement, allow
from .home import TAG, Home

_CHANGE = (
    "CreateAccessPoint CreateMountTarget DeleteAccessPoint DeleteFileSystem DeleteFileSystemPolicy DeleteMountTarget "
    "ModifyMountTargetSecurityGroups PutBackupPolicy PutFileSystemPolicy PutLifecycleConfiguration UntagResource "
    "UpdateFileSystem"
)
_KINDS = [f"elasticfilesystem:*:{{account}}:{kind}/*" for kind in ("access-point", "file-system")]
_TEMPLATES = ["ec2:*:{account}:launch-template/*"]
_FLOWS = ["ec2:*:{account}:vpc-flow-log/*"]
_CHANGE_TEMPLATE = "CreateLaunchTemplateVersion CreateTags DeleteLaunchTemplate DeleteTags ModifyLaunchTemplate"
_SERVICES = [f"{service}.amazonaws.com" for service in ("backup", "elasticfilesystem")]


def file_statements(home: Home, environment: str) -> list[Statement]:
    """Create and change file systems, without mounting any. Their names are ids, so tags tell them apart, as with keys.

    Source: https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonelasticfilesystem.html
    """
    asked, own = ({f"aws:{kind}Tag/{TAG}": environment} for kind in ("Request", "Resource"))
    made = home.arns(_KINDS)
    roles = home.arns([f"iam::{{account}}:role/aws-service-role/{service}/*" for service in _SERVICES])
    return [
        allow(["elasticfilesystem:CreateFileSystem"], made, {"StringEquals": asked}),
        # A resource that is being created has no tag yet.
        allow(["elasticfilesystem:TagResource"], made, {"StringEquals": asked, "StringEqualsIfExists": own}),
        # A change of other tags names those alone.
        allow(["elasticfilesystem:TagResource"], made, {"StringEquals": own, "StringEqualsIfExists": asked}),
        allow([f"elasticfilesystem:{action}" for action in _CHANGE.split()], made, {"StringEquals": own}),
        # EFS and ECR use a key by a grant, which they give themselves as whoever makes the resource.
        allow(["kms:CreateGrant"], home.arns(["kms:*:{account}:key/*"]), {"StringEquals": own, **_by_storage(home)}),
        # The first file system of an account, and the first with backups, bring the service its own role.
        # Source: https://docs.aws.amazon.com/efs/latest/ug/using-service-linked-roles.html
        allow(["iam:CreateServiceLinkedRole"], roles, {"StringEquals": {"iam:AWSServiceName": _SERVICES}}),
    ]


def _by_storage(home: Home) -> dict[str, dict[str, Any]]:
    """Source: https://docs.aws.amazon.com/AmazonECR/latest/userguide/encryption-at-rest.html"""
    services = [pulumi.Output.concat(f"{each}.*.", home.account.dns_suffix) for each in ("ecr", "elasticfilesystem")]
    return {"StringLike": {"kms:ViaService": services}, "Bool": {"kms:GrantIsForAWSResource": "true"}}


def template_statements(home: Home, environment: str) -> list[Statement]:
    """Create and change launch templates of the environment, and no others: a new version may decide what the machines
    of another environment, or of people's own groups, run with their roles.

    Only a template that is being created can get the tag, so that no other can be claimed.
    Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/supported-iam-actions-tagging.html and
    https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html
    """
    asked, own = ({f"aws:{kind}Tag/{TAG}": environment} for kind in ("Request", "Resource"))
    templates = home.arns(_TEMPLATES)
    return [
        allow(["ec2:CreateLaunchTemplate"], templates, {"StringEquals": asked}),
        allow(["ec2:CreateTags"], templates, {"StringEquals": {**asked, "ec2:CreateAction": "CreateLaunchTemplate"}}),
        allow([f"ec2:{action}" for action in _CHANGE_TEMPLATE.split()], templates, {"StringEquals": own}),
    ]


def flow_statements(home: Home, environment: str) -> list[Statement]:
    """Create and delete flow logs of the environment's networks, and no others: those of an account may be a security
    team's. A VPC's name is an id, so a flow log of any may be added.

    Source: https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html (CreateFlowLogs)
    """
    asked, own = ({f"aws:{kind}Tag/{TAG}": environment} for kind in ("Request", "Resource"))
    flows = home.arns(_FLOWS)
    return [
        allow(["ec2:CreateFlowLogs"], home.arns(["ec2:*:{account}:vpc/*"])),
        allow(["ec2:CreateFlowLogs"], flows, {"StringEquals": asked}),
        allow(["ec2:CreateTags"], flows, {"StringEquals": {**asked, "ec2:CreateAction": "CreateFlowLogs"}}),
        allow(["ec2:CreateTags", "ec2:DeleteFlowLogs", "ec2:DeleteTags"], flows, {"StringEquals": own}),
    ]
