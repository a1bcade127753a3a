"""The permission boundaries of roles that CI makes.

Actions by resource type: https://docs.aws.amazon.com/service-authorization/latest/reference/reference.html.
"""

from __future__ import annotations

from collections.abc import Sequence

import pulumi

from ..policy import Statement, allow, deny
from .home import FUNCTION, NAMED, QUEUE, TAG, Home, actions, all_actions

_JOBS = "CancelJob TagResource TerminateJob"
_PULL = "BatchCheckLayerAvailability BatchGetImage BatchImportUpstreamImage DescribeImages GetDownloadUrlForLayer"
_WORK = {
    "batch": "SubmitJob TagResource",
    "ecr": "CompleteLayerUpload InitiateLayerUpload PutImage UploadLayerPart",
    "ecs": "DeregisterContainerInstance Poll RegisterContainerInstance StartTelemetrySession "
    "SubmitAttachmentStateChanges SubmitContainerStateChange SubmitTaskStateChange TagResource "
    "UpdateContainerInstancesState",
    "firehose": "PutRecord PutRecordBatch",
    "logs": "CreateLogStream DescribeLogStreams FilterLogEvents GetLogEvents PutLogEvents StartQuery",
    "s3": "AbortMultipartUpload GetBucketLocation GetObject ListBucket ListBucketMultipartUploads PutObject",
}
"""Actions of machines, jobs, log delivery, submitters and the sender on the resources of their environment's stacks."""
_CLUSTERS = [f"ecs:*:{{account}}:{kind}/*-{{environment}}-*" for kind in ("cluster", "container-instance")]
_KEY_USE = "Decrypt DescribeKey Encrypt GenerateDataKey ReEncryptFrom ReEncryptTo"
_LOOK = {
    "batch": "DescribeComputeEnvironments DescribeJobDefinitions DescribeJobQueues DescribeJobs GetJobQueueSnapshot "
    "ListJobs",
    "ec2": "DescribeAvailabilityZones DescribeInstanceTypeOfferings DescribeSpotPriceHistory GetSpotPlacementScores",
    "ecr": "GetAuthorizationToken",
    "ecs": "DiscoverPollEndpoint",
    "logs": "DescribeLogGroups GetQueryResults StopQuery",
    "servicequotas": "GetServiceQuota",
}


def boundary_statements(home: Home, environment: str, buckets: Sequence[str]) -> list[Statement]:
    """The maximum for a role of an environment's stacks: for machines, jobs, log delivery, submitters and the sender.

    It grants nothing by itself. Without it, anyone who may create roles could create one that may do anything.
    Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/access_policies_boundaries.html#access_policies_boundaries-delegate

    Args:
        buckets: names of the data buckets that stacks of every environment may be granted.
    """
    named = {
        **NAMED,
        "ecs": _CLUSTERS,
        "batch": [f"batch:*:{{account}}:{kind}/*-{{environment}}-*" for kind in ("job-definition", "job-queue")],
        "s3": [*NAMED["s3"], *(f"s3:::{b}{end}" for b in buckets for end in ("", "/*"))],
    }
    tagged = {f"aws:ResourceTag/{TAG}": environment}
    replica = [pulumi.Output.concat(home.replica, "*")] if home.replica else []
    secrets = ["secretsmanager:*:{account}:secret:*", "ssm:*:{account}:parameter/*"]
    return [
        *(allow(actions(service, words), home.arns(named[service], environment)) for service, words in _WORK.items()),
        # A job that SubmitJob is creating has no tags yet.
        allow(actions("batch", _JOBS), home.arns(["batch:*:{account}:job/*"]), {"StringEqualsIfExists": tagged}),
        allow(actions("ecr", _PULL), home.arns(["ecr:*:*:repository/*"])),
        allow(actions("kms", _KEY_USE), home.arns(["kms:*:{account}:key/*"]), {"StringEquals": tagged}),
        # Data buckets have keys of their own, in this account or another.
        allow(
            actions("kms", "Decrypt DescribeKey GenerateDataKey"),
            home.arns(["kms:*:*:key/*"]),
            {"StringLike": home.via_s3},
        ),
        allow(
            ["secretsmanager:GetSecretValue", "secretsmanager:PutSecretValue", "ssm:GetParameters"],
            home.arns(secrets),
            {"StringEquals": tagged},
        ),
        # Clients are told apart by nothing but access points, whose names are ids (ADR 76).
        allow(
            actions("elasticfilesystem", "ClientMount ClientWrite"),
            home.arns(["elasticfilesystem:*:{account}:file-system/*"]),
        ),
        # Topics that tell a job's end belong to people, and have names of their own.
        allow(
            ["lambda:InvokeFunction", "sns:Publish", "sqs:DeleteMessage", "sqs:ReceiveMessage"],
            [*home.arns(["sns:*:{account}:*"]), *home.arns([FUNCTION, QUEUE], environment)],
        ),
        allow(all_actions(_LOOK), ["*"]),
        # A `*` of `buckets` may cover them.
        deny(["s3:*"], [home.state, pulumi.Output.concat(home.state, "/*"), *replica]),
        deny(["kms:*"], [home.key]),
        # No role of a stack trusts an identity provider; only a rogue workflow would create one that does.
        {**deny(["*"], ["*"]), "Condition": {"Null": {"aws:FederatedProvider": "false"}}},
    ]
