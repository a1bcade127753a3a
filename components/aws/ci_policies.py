"""What CI may do in an account: read what a preview asks for, write what a stack makes, and nothing for its own good.

Actions by resource type: https://docs.aws.amazon.com/service-authorization/latest/reference/reference.html. What the
provider calls to read a resource: https://github.com/hashicorp/terraform-provider-aws, `internal/service`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi

from components.aws.account import Place
from components.aws.policy import Statement, allow

_READ_ANY = {
    "batch": "DescribeComputeEnvironments DescribeJobDefinitions DescribeJobQueues DescribeSchedulingPolicies "
    "ListSchedulingPolicies ListTagsForResource",
    "budgets": "ListTagsForResource ViewBudget",
    "ec2": "DescribeAddresses DescribeAddressesAttribute DescribeAvailabilityZones DescribeInstanceTypes "
    "DescribeInternetGateways DescribeLaunchTemplateVersions DescribeLaunchTemplates DescribeManagedPrefixLists "
    "DescribeNatGateways DescribeNetworkAcls DescribeNetworkInterfaces DescribePlacementGroups DescribePrefixLists "
    "DescribeRouteTables DescribeSecurityGroupRules DescribeSecurityGroups DescribeSubnets DescribeTags "
    "DescribeVpcAttribute DescribeVpcEndpoints DescribeVpcs",
    "ecr": "DescribeRepositories GetLifecyclePolicy ListTagsForResource",
    "firehose": "DescribeDeliveryStream ListTagsForDeliveryStream",
    "iam": "GetInstanceProfile GetPolicy GetPolicyVersion GetRole GetRolePolicy ListAttachedRolePolicies "
    "ListInstanceProfileTags ListInstanceProfilesForRole ListPolicyTags ListPolicyVersions ListRolePolicies "
    "ListRoleTags",
    "kms": "DescribeKey GetKeyPolicy GetKeyRotationStatus ListAliases ListResourceTags",
    "logs": "DescribeLogGroups DescribeMetricFilters DescribeSubscriptionFilters ListTagsForResource ListTagsLogGroup",
    "s3": "GetAccelerateConfiguration GetBucketAcl GetBucketCORS GetBucketLocation GetBucketLogging "
    "GetBucketObjectLockConfiguration GetBucketOwnershipControls GetBucketPolicy GetBucketPublicAccessBlock "
    "GetBucketRequestPayment GetBucketTagging GetBucketVersioning GetBucketWebsite GetEncryptionConfiguration "
    "GetLifecycleConfiguration GetReplicationConfiguration ListBucket ListTagsForResource",
}
"""Of everything in the account: names and settings, no data, no log line and no secret."""

_WRITE_NAMED = {
    "batch": "CreateComputeEnvironment CreateJobQueue CreateSchedulingPolicy DeleteComputeEnvironment DeleteJobQueue "
    "DeleteSchedulingPolicy DeregisterJobDefinition RegisterJobDefinition TagResource UntagResource "
    "UpdateComputeEnvironment UpdateJobQueue UpdateSchedulingPolicy",
    "budgets": "ModifyBudget TagResource UntagResource",
    "ecr": "BatchDeleteImage CreateRepository DeleteLifecyclePolicy DeleteRepository ListImages "
    "PutImageScanningConfiguration PutImageTagMutability PutLifecyclePolicy TagResource UntagResource",
    "firehose": "CreateDeliveryStream DeleteDeliveryStream TagDeliveryStream UntagDeliveryStream UpdateDestination",
    "logs": "AssociateKmsKey CreateLogGroup DeleteLogGroup DeleteMetricFilter DeleteRetentionPolicy "
    "DeleteSubscriptionFilter DisassociateKmsKey PutMetricFilter PutRetentionPolicy PutSubscriptionFilter TagResource "
    "UntagResource",
    "s3": "CreateBucket DeleteBucket DeleteBucketPolicy ListBucketVersions PutBucketOwnershipControls PutBucketPolicy "
    "PutBucketPublicAccessBlock PutBucketTagging PutBucketVersioning PutEncryptionConfiguration "
    "PutLifecycleConfiguration",
}
_NAMED = {
    "batch": [
        f"batch:*:{{account}}:{kind}/*-{{environment}}-*"
        for kind in ("compute-environment", "job-definition", "job-queue", "scheduling-policy")
    ],
    "budgets": ["budgets::{account}:budget/*-{environment}-*"],
    "ecr": ["ecr:*:{account}:repository/*-{environment}/*"],
    "firehose": ["firehose:*:{account}:deliverystream/*-{environment}-*"],
    "logs": ["logs:*:{account}:log-group:*-{environment}-*"],
    "s3": ["s3:::*-{environment}-*"],
}
"""What a stack of an environment makes is called `<team>-<environment>-…`."""

_WRITE_ROLE = "PutRolePolicy DeleteRolePolicy AttachRolePolicy DetachRolePolicy CreateRole PutRolePermissionsBoundary"
_WRITE_IAM = (
    "AddRoleToInstanceProfile CreateInstanceProfile CreatePolicy CreatePolicyVersion DeleteInstanceProfile "
    "DeletePolicy DeletePolicyVersion DeleteRole RemoveRoleFromInstanceProfile TagInstanceProfile TagPolicy TagRole "
    "UntagInstanceProfile UntagPolicy UntagRole UpdateAssumeRolePolicy UpdateRole"
)
_PASSED_TO = ("batch", "ec2", "ecs-tasks", "firehose", "logs")

_WRITE_EC2 = (
    "AllocateAddress AssociateRouteTable AttachInternetGateway AuthorizeSecurityGroupEgress "
    "AuthorizeSecurityGroupIngress CreateInternetGateway CreateLaunchTemplate CreateLaunchTemplateVersion "
    "CreateNatGateway CreatePlacementGroup CreateRoute CreateRouteTable CreateSecurityGroup CreateSubnet CreateTags "
    "CreateVpc CreateVpcEndpoint DeleteInternetGateway DeleteLaunchTemplate DeleteNatGateway DeletePlacementGroup "
    "DeleteRoute DeleteRouteTable DeleteSecurityGroup DeleteSubnet DeleteTags DeleteVpc DeleteVpcEndpoints "
    "DetachInternetGateway DisassociateAddress DisassociateRouteTable ModifyLaunchTemplate ModifySecurityGroupRules "
    "ModifySubnetAttribute ModifyVpcAttribute ModifyVpcEndpoint ReleaseAddress RevokeSecurityGroupEgress "
    "RevokeSecurityGroupIngress"
)
_EC2_KINDS = (
    "elastic-ip", "internet-gateway", "launch-template", "natgateway", "network-interface", "placement-group",
    "route-table", "security-group", "security-group-rule", "subnet", "vpc", "vpc-endpoint",
)  # fmt: skip
"""No instance, image, snapshot or volume. Their names are ids, so this is of the whole account."""

_KEYS = "DisableKeyRotation EnableKeyRotation PutKeyPolicy ScheduleKeyDeletion UntagResource UpdateKeyDescription"
_ALIASES = "CreateAlias DeleteAlias UpdateAlias"
_TAG = "tidemill:environment"

_WORK = {
    "batch": "CancelJob SubmitJob TagResource TerminateJob",
    "ecr": "BatchCheckLayerAvailability BatchGetImage CompleteLayerUpload DescribeImages GetDownloadUrlForLayer "
    "InitiateLayerUpload PutImage UploadLayerPart",
    "ecs": "DeregisterContainerInstance Poll RegisterContainerInstance StartTelemetrySession "
    "SubmitAttachmentStateChanges SubmitContainerStateChange SubmitTaskStateChange TagResource "
    "UpdateContainerInstancesState",
    "firehose": "PutRecord PutRecordBatch",
    "kms": "Decrypt DescribeKey Encrypt GenerateDataKey ReEncryptFrom ReEncryptTo",
    "logs": "CreateLogStream DescribeLogStreams FilterLogEvents GetLogEvents PutLogEvents",
    "s3": "AbortMultipartUpload GetBucketLocation GetObject ListBucket ListBucketMultipartUploads PutObject",
    "secretsmanager": "GetSecretValue",
    "ssm": "GetParameters",
}
_LOOK = {
    "batch": "DescribeComputeEnvironments DescribeJobDefinitions DescribeJobQueues DescribeJobs GetJobQueueSnapshot "
    "ListJobs",
    "ecr": "GetAuthorizationToken",
    "ecs": "DiscoverPollEndpoint",
    "servicequotas": "GetServiceQuota",
}


@dataclass(frozen=True)
class Home:
    """Where an account keeps the state of its stacks, and what CI itself is called there."""

    place: Place
    state: pulumi.Input[str]
    """ARN of the state's bucket."""
    key: pulumi.Input[str]
    """ARN of the key of the state and its secrets."""
    name: str
    """How the names of CI's own roles and policies begin."""

    def arns(self, templates: Sequence[str], environment: str = "") -> list[pulumi.Output[str]]:
        """ARNs without ``arn:<partition>:``, with ``{account}`` and ``{environment}`` to be filled in."""
        made = [template.replace("{environment}", environment) for template in templates]
        place = self.place
        return [
            pulumi.Output.format("arn:{0}:" + t.replace("{account}", "{1}"), place.partition, place.account)
            for t in made
        ]


_WRITTEN = ("pipeline.json", "machines/*")
"""Objects of a job store that a stack makes."""


def preview_statements(home: Home) -> list[Statement]:
    """Read the state and its secrets, and what a stack is made of."""
    return [
        allow(_named(_READ_ANY), ["*"]),
        allow(["s3:GetObject"], [pulumi.Output.concat(home.state, "/*")]),
        # What a stack writes into its store: the contract, and which worker machines fetch. Neither holds a secret.
        allow(["s3:GetObject", "s3:GetObjectTagging"], home.arns([f"s3:::*/{key}" for key in _WRITTEN])),
        allow(["kms:Decrypt"], [home.key]),
        _through_s3(home, "kms:Decrypt"),
    ]


def deploy_statements(home: Home, environment: str, boundary: pulumi.Input[str]) -> list[Statement]:
    """Write the state, and what stacks of an environment are made of, network and keys aside (`ground_statements`)."""
    roles = home.arns(["iam::{account}:role/*-{environment}-*"], environment)
    passed = [f"{service}.amazonaws.com" for service in _PASSED_TO]
    iam = [f"iam::{{account}}:{kind}/*-{{environment}}-*" for kind in ("instance-profile", "policy", "role")]
    named = [
        allow(_actions(service, words), home.arns(_NAMED[service], environment))
        for service, words in _WRITE_NAMED.items()
    ]
    return [
        *named,
        allow(
            ["s3:PutObject", "s3:PutObjectTagging"],
            home.arns([f"s3:::*-{{environment}}-*/{key}" for key in _WRITTEN], environment),
        ),
        # A store that is purged is emptied.
        allow(["s3:DeleteObject", "s3:DeleteObjectVersion"], home.arns(["s3:::*-{environment}-*"], environment)),
        allow(_actions("iam", _WRITE_ROLE), roles, {"StringEquals": {"iam:PermissionsBoundary": boundary}}),
        allow(_actions("iam", _WRITE_IAM), home.arns(iam, environment)),
        allow(["iam:PassRole"], roles, {"StringEquals": {"iam:PassedToService": passed}}),
    ]


def ground_statements(home: Home) -> list[Statement]:
    """The network and keys of any stack, the state of every stack, and what CI may never do to itself."""
    own = home.arns([f"iam::{{account}}:{kind}/{home.name}-*" for kind in ("policy", "role")])
    objects = ["s3:DeleteObject", "s3:PutObject", "s3:PutObjectTagging"]
    return [
        allow(_actions("ec2", _WRITE_EC2), home.arns([f"ec2:*:{{account}}:{kind}/*" for kind in _EC2_KINDS])),
        # A key's name is an id: what stacks made is known by the tag that they give.
        allow(["kms:CreateKey", "kms:TagResource"], ["*"], {"Null": {f"aws:RequestTag/{_TAG}": "false"}}),
        allow(
            _actions("kms", f"{_KEYS} {_ALIASES}"),
            home.arns(["kms:*:{account}:key/*"]),
            {"Null": {f"aws:ResourceTag/{_TAG}": "false"}},
        ),
        allow(_actions("kms", _ALIASES), home.arns(["kms:*:{account}:alias/*"])),
        allow(objects, [pulumi.Output.concat(home.state, "/.pulumi/*")]),
        allow(["kms:Encrypt", "kms:GenerateDataKey"], [home.key]),
        _through_s3(home, "kms:GenerateDataKey"),
        _deny(_actions("iam", f"{_WRITE_ROLE} {_WRITE_IAM} PassRole"), own),
        _deny(_actions("kms", f"{_KEYS} DisableKey TagResource"), [home.key]),
        _deny(
            _actions("s3", "DeleteBucket DeleteBucketPolicy PutBucketPolicy PutLifecycleConfiguration"), [home.state]
        ),
    ]


def boundary_statements(home: Home) -> list[Statement]:
    """The most that a role of any stack may do: what machines, jobs, log delivery and submitters need.

    It grants nothing by itself. Without it, who may make roles may make one that may do anything.
    Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/access_policies_boundaries.html#access_policies_boundaries-delegate
    """
    # Buckets' ARNs have neither a region nor an account.
    work = [
        allow(_actions(service, words), home.arns([f"{service}:::*" if service == "s3" else f"{service}:*:*:*"]))
        for service, words in _WORK.items()
    ]
    return [*work, allow(_named(_LOOK), ["*"])]


def _through_s3(home: Home, action: str) -> Statement:
    """Use of keys by S3 alone: a store may have a key of its own, and which objects are reached S3's actions say.

    Source: https://docs.aws.amazon.com/kms/latest/developerguide/conditions-kms.html#conditions-kms-via-service
    """
    through = {"StringLike": {"kms:ViaService": "s3.*.amazonaws.com"}}
    return allow([action], home.arns(["kms:*:{account}:key/*"]), through)


def _deny(actions: Sequence[str], resources: Sequence[pulumi.Input[str]]) -> Statement:
    return {**allow(actions, resources), "Effect": "Deny"}


def _actions(service: str, words: str) -> list[str]:
    return [f"{service}:{word}" for word in sorted(set(words.split()))]


def _named(table: Mapping[str, str]) -> list[str]:
    return [action for service, words in table.items() for action in _actions(service, words)]
