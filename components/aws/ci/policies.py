"""CI's permissions in an account: reads for previews, writes for the resources of a stack, no changes to itself.

Actions by resource type: https://docs.aws.amazon.com/service-authorization/latest/reference/reference.html. What the
provider calls to read a resource: https://github.com/hashicorp/terraform-provider-aws, `internal/service`.
"""

from __future__ import annotations

from collections.abc import Sequence

import pulumi

from tidemill import layout

from ..policy import Statement, allow, deny
from .home import NAMED, TAG, Home, actions, all_actions

_READ_ANY = {
    "batch": "DescribeComputeEnvironments DescribeJobDefinitions DescribeJobQueues DescribeSchedulingPolicies "
    "ListSchedulingPolicies ListTagsForResource",
    "budgets": "ListTagsForResource ViewBudget",
    "cloudwatch": "DescribeAlarms GetDashboard ListTagsForResource",
    "ec2": "DescribeAddresses DescribeAddressesAttribute DescribeAvailabilityZones DescribeFlowLogs DescribeImages "
    "DescribeInstanceTypeOfferings DescribeInstanceTypes DescribeInternetGateways DescribeLaunchTemplateVersions "
    "DescribeLaunchTemplates DescribeManagedPrefixLists "
    "DescribeNatGateways DescribeNetworkAcls DescribeNetworkInterfaces DescribePlacementGroups DescribePrefixLists "
    "DescribeRouteTables DescribeSecurityGroupRules DescribeSecurityGroups DescribeSubnets DescribeTags "
    "DescribeVpcAttribute DescribeVpcEndpoints DescribeVpcs GetSpotPlacementScores",
    "ecr": "DescribeRepositories GetLifecyclePolicy GetRepositoryPolicy ListTagsForResource",
    "elasticfilesystem": "DescribeAccessPoints DescribeBackupPolicy DescribeFileSystemPolicy DescribeFileSystems "
    "DescribeLifecycleConfiguration DescribeMountTargetSecurityGroups DescribeMountTargets ListTagsForResource",
    "events": "DescribeRule ListTagsForResource ListTargetsByRule",
    "firehose": "DescribeDeliveryStream ListTagsForDeliveryStream",
    "iam": "GetInstanceProfile GetOpenIDConnectProvider GetPolicy GetPolicyVersion GetRole GetRolePolicy "
    "ListAttachedRolePolicies ListInstanceProfileTags ListInstanceProfilesForRole ListPolicyTags ListPolicyVersions "
    "ListRolePolicies ListRoleTags",
    "kms": "DescribeKey GetKeyPolicy GetKeyRotationStatus ListAliases ListResourceTags",
    "lambda": "GetFunction GetFunctionCodeSigningConfig GetFunctionConfiguration ListTags ListVersionsByFunction",
    "logs": "DescribeIndexPolicies DescribeLogGroups DescribeMetricFilters DescribeQueryDefinitions "
    "DescribeSubscriptionFilters "
    "ListTagsForResource ListTagsLogGroup",
    "s3": "GetAccelerateConfiguration GetBucketAcl GetBucketCORS GetBucketLocation GetBucketLogging "
    "GetBucketObjectLockConfiguration GetBucketOwnershipControls GetBucketPolicy GetBucketPublicAccessBlock "
    "GetBucketRequestPayment GetBucketTagging GetBucketVersioning GetBucketWebsite GetEncryptionConfiguration "
    "GetLifecycleConfiguration GetReplicationConfiguration ListBucket ListTagsForResource",
    "scheduler": "GetSchedule GetScheduleGroup ListTagsForResource",
    "secretsmanager": "DescribeSecret GetResourcePolicy",
    "sns": "GetSubscriptionAttributes GetTopicAttributes ListTagsForResource",
    "sqs": "GetQueueAttributes ListQueueTags",
}
"""Names and settings of everything in the account; no data, log lines or secrets."""

_WRITE_NAMED = {
    "batch": "CreateComputeEnvironment CreateJobQueue CreateSchedulingPolicy DeleteComputeEnvironment DeleteJobQueue "
    "DeleteSchedulingPolicy DeregisterJobDefinition RegisterJobDefinition TagResource UntagResource "
    "UpdateComputeEnvironment UpdateJobQueue UpdateSchedulingPolicy",
    "budgets": "ModifyBudget TagResource UntagResource",
    "cloudwatch": "DeleteAlarms DeleteDashboards PutDashboard PutMetricAlarm TagResource UntagResource",
    "ecr": "BatchDeleteImage CreateRepository DeleteLifecyclePolicy DeleteRepository ListImages "
    "PutImageScanningConfiguration PutImageTagMutability PutLifecyclePolicy TagResource UntagResource",
    "events": "DeleteRule PutRule PutTargets RemoveTargets TagResource UntagResource",
    "firehose": "CreateDeliveryStream DeleteDeliveryStream TagDeliveryStream UntagDeliveryStream UpdateDestination",
    "logs": "AssociateKmsKey CreateLogGroup DeleteIndexPolicy DeleteLogGroup DeleteMetricFilter DeleteRetentionPolicy "
    "DeleteSubscriptionFilter DisassociateKmsKey PutIndexPolicy PutMetricFilter PutRetentionPolicy "
    "PutSubscriptionFilter TagResource UntagResource",
    "s3": "CreateBucket DeleteBucket DeleteBucketPolicy ListBucketVersions PutBucketOwnershipControls PutBucketPolicy "
    "PutBucketPublicAccessBlock PutBucketTagging PutBucketVersioning PutEncryptionConfiguration "
    "PutLifecycleConfiguration TagResource UntagResource",
    "sns": "CreateTopic DeleteTopic SetSubscriptionAttributes SetTopicAttributes Subscribe TagResource Unsubscribe "
    "UntagResource",
}
_ROLES = [f"iam::{{account}}:role/*-{{environment}}-{part}-*" for part in ("identity", "logs-archive", "network-flows")]
"""Every role of a stack. With `*-{environment}-*` a writer could change who assumes a role of people's own."""
_IAM = [
    "iam::{account}:instance-profile/*-{environment}-identity-profile-*",
    "iam::{account}:policy/*-{environment}-identity-submitter-*",
    *_ROLES,
]
_ANY_NAMED = [
    *(f"{service}:*:*:*-{{environment}}-*" for service in ("batch", "firehose")),
    "budgets::*:budget/*-{environment}-*",
    "ecr:*:*:repository/*-{environment}/*",
    "logs:*:*:log-group:*-{environment}-*",
    *NAMED["s3"],
    *(f"iam::{{account}}:{kind}/*-{{environment}}-*" for kind in ("instance-profile", "policy", "role")),
]
"""The same names in fewer characters, for a Deny."""

WRITE_ROLE = "PutRolePolicy DeleteRolePolicy AttachRolePolicy DetachRolePolicy CreateRole PutRolePermissionsBoundary"
WRITE_IAM = (
    "AddRoleToInstanceProfile CreateInstanceProfile DeleteInstanceProfile DeletePolicy DeletePolicyVersion DeleteRole "
    "RemoveRoleFromInstanceProfile TagInstanceProfile TagRole UntagInstanceProfile UntagRole UpdateAssumeRolePolicy "
    "UpdateRole"
)
"""No policy is created or changed: people may have attached one of an earlier version to roles without a boundary. It
may be deleted, which AWS refuses while anything has it.
"""
_DENIED_IAM = f"{WRITE_IAM} CreatePolicy CreatePolicyVersion SetDefaultPolicyVersion TagPolicy UntagPolicy"
_PASSED_TO = ("batch", "ec2", "ecs-tasks", "firehose", "logs", "vpc-flow-logs")

_WRITE_EC2 = (
    "AllocateAddress AssociateRouteTable AttachInternetGateway AuthorizeSecurityGroupEgress "
    "AuthorizeSecurityGroupIngress CreateInternetGateway CreateNatGateway CreateNetworkInterface CreatePlacementGroup "
    "CreateRoute CreateRouteTable CreateSecurityGroup CreateSubnet CreateTags CreateVpc CreateVpcEndpoint "
    "DeleteInternetGateway DeleteNatGateway DeleteNetworkInterface DeletePlacementGroup DeleteRoute DeleteRouteTable "
    "DeleteSecurityGroup DeleteSubnet DeleteTags DeleteVpc DeleteVpcEndpoints DetachInternetGateway "
    "DisassociateAddress DisassociateRouteTable ModifyNetworkInterfaceAttribute ModifySecurityGroupRules "
    "ModifySubnetAttribute ModifyVpcAttribute ModifyVpcEndpoint ReleaseAddress ReplaceRouteTableAssociation "
    "RevokeSecurityGroupEgress RevokeSecurityGroupIngress"
)
_EC2_KINDS = (
    "elastic-ip", "internet-gateway", "natgateway", "network-interface", "placement-group", "route-table",
    "security-group", "security-group-rule", "subnet", "vpc", "vpc-endpoint",
)  # fmt: skip
"""No instances, images, snapshots or volumes. Their names are ids, so this covers the whole account;
`tag_policies.py` has launch templates."""

_STATE = [
    "stacks/*-{environment}.json*",
    "locks/*-{environment}/*",
    "history/*-{environment}/*",
    "backups/*-{environment}/*",
]
"""The engine's paths of a stack below `.pulumi/`, for any project: a stack's name ends with its environment.
Source: https://github.com/pulumi/pulumi/tree/master/pkg/backend/diy"""

_ADMINISTRATORS = [f"/.pulumi/*/tidemill-{each}/*" for each in ("bootstrap", "shared")]  # brought up by people

_KEYS = "DisableKeyRotation EnableKeyRotation PutKeyPolicy ScheduleKeyDeletion UntagResource UpdateKeyDescription"
_ALIASES = "CreateAlias DeleteAlias UpdateAlias"

_WRITTEN = (layout.DESCRIPTOR, f"{layout.MACHINES}/*/worker")
"""Objects of a job store that a stack makes. A wildcard matches slashes too, so that `machines/*` would match a job's
outputs in a folder of that name."""


def preview_statements(home: Home) -> list[Statement]:
    """Read the state, its secrets and a stack's resources."""
    return [
        allow(all_actions(_READ_ANY), ["*"]),
        allow(["s3:GetObject"], [pulumi.Output.concat(home.state, "/*")]),
        # A stack writes its descriptor and the name of the worker into its store. Neither holds a secret.
        allow(["s3:GetObject", "s3:GetObjectTagging"], home.arns([f"s3:::*/{key}" for key in _WRITTEN])),
        allow(["kms:Decrypt"], [home.key]),
        _through_s3(home, "kms:Decrypt"),
    ]


def deploy_statements(home: Home, environment: str, boundary: pulumi.Input[str]) -> list[Statement]:
    """Create the resources of an environment's stacks, except network, keys and state."""
    roles = home.arns(_ROLES, environment)
    stores = home.arns(NAMED["s3"], environment)
    passed = [home.account.principal(service) for service in _PASSED_TO]
    named = [
        allow(actions(service, words), home.arns(NAMED[service], environment))
        for service, words in _WRITE_NAMED.items()
    ]
    return [
        *named,
        allow(
            ["s3:PutObject", "s3:PutObjectTagging"],
            [pulumi.Output.concat(arn, "/", key) for arn in stores for key in _WRITTEN],
        ),
        # Purging a store empties it.
        allow(["s3:DeleteObject", "s3:DeleteObjectVersion"], stores),
        allow(actions("iam", WRITE_ROLE), roles, {"StringEquals": {"iam:PermissionsBoundary": boundary}}),
        allow(actions("iam", WRITE_IAM), home.arns(_IAM, environment)),
        allow(["iam:PassRole"], roles, {"StringEquals": {"iam:PassedToService": passed}}),
    ]


def secret_statements(home: Home, environment: str) -> list[Statement]:
    """Create and change the secret of a stack with personal secrets, without reading its value."""
    words = "CreateSecret DeleteSecret PutResourcePolicy TagResource UntagResource UpdateSecret"
    return [allow(actions("secretsmanager", words), home.arns(NAMED["secretsmanager"], environment))]


def wall_statements(home: Home, environment: str, others: Sequence[str]) -> list[Statement]:
    """The state and keys of an environment's stacks, and a denial of other environments' names.

    `*-dev-*` also matches a `prod` queue named `dev`.
    """
    objects = [pulumi.Output.concat(home.state, "/.pulumi/", path) for path in home.filled(_STATE, environment)]
    own = {f"aws:ResourceTag/{TAG}": environment}
    theirs = [arn for other in others for arn in home.arns(_ANY_NAMED, other)]
    asked = {"StringEquals": {f"aws:RequestTag/{TAG}": environment}}
    return [
        allow(["s3:DeleteObject", "s3:PutObject", "s3:PutObjectTagging"], objects),
        # A key's name is an id, so the tag identifies keys of stacks. A key that is being created has no tag yet.
        allow(["kms:CreateKey"], ["*"], asked),
        allow(["kms:TagResource"], ["*"], {**asked, "StringEqualsIfExists": own}),
        # A change of other tags names those alone.
        allow(["kms:TagResource"], ["*"], {"StringEquals": own, "StringEqualsIfExists": asked["StringEquals"]}),
        allow(actions("kms", f"{_KEYS} {_ALIASES}"), home.arns(["kms:*:{account}:key/*"]), {"StringEquals": own}),
        allow(actions("kms", _ALIASES), home.arns(["kms:*:{account}:alias/*-{environment}-*"], environment)),
        *([deny(["*"], theirs)] if theirs else []),
    ]


def ground_statements(home: Home) -> list[Statement]:
    """The network of any stack, the key of the state, and denials of changes to CI itself."""
    own = home.arns([f"iam::{{account}}:{kind}/{home.name}-*" for kind in ("policy", "role")])
    return [
        allow(actions("ec2", _WRITE_EC2), home.arns([f"ec2:*:{{account}}:{kind}/*" for kind in _EC2_KINDS])),
        allow(["ec2:CreateVpc"], home.arns(["ec2::*:ipam-pool/*"])),  # perhaps another account's, which shares it
        allow(["kms:Encrypt", "kms:GenerateDataKey"], [home.key]),
        _through_s3(home, "kms:GenerateDataKey"),
        # Anyone who creates roles can create one that trusts its creator, who then needs no permission of its own.
        deny(["sts:AssumeRole"], ["*"]),
        deny(actions("iam", f"{WRITE_ROLE} {_DENIED_IAM} PassRole"), own),
        deny(actions("kms", f"{_KEYS} DisableKey TagResource"), [home.key]),
        deny(["s3:DeleteObject", "s3:PutObject"], [pulumi.Output.concat(home.state, at) for at in _ADMINISTRATORS]),
        deny(actions("s3", "DeleteBucket DeleteBucketPolicy PutBucketPolicy PutLifecycleConfiguration"), [home.state]),
    ]


def _through_s3(home: Home, action: str) -> Statement:
    """Use of keys only through S3: a store may have its own key, and S3's actions limit the objects.

    Source: https://docs.aws.amazon.com/kms/latest/developerguide/conditions-kms.html#conditions-kms-via-service
    """
    return allow([action], home.arns(["kms:*:{account}:key/*"]), {"StringLike": home.via_s3})
