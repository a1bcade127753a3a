"""Resources that an AWS account needs once, before the first team's stack."""

from dataclasses import dataclass, field

import pulumi
import pulumi_aws as aws

from ..base import as_args, token
from ..protection import Protection, ProtectionArgs
from .account import Account, account_of
from .policy import Statement, allow, document, grant
from .store import AwsStore, AwsStoreArgs

SERVICES = ("batch.amazonaws.com", "spot.amazonaws.com")
"""Source: https://docs.aws.amazon.com/batch/latest/userguide/using-service-linked-roles-batch-general.html and
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/service-linked-roles-spot-instance-requests.html"""

_REPLICATED = {"format": ".pulumi/meta.yaml", "states": ".pulumi/stacks/", "history": ".pulumi/history/"}
"""What a replica needs of the engine's folder. Without the locks: their end would not be replicated, so that each run
would leave its stack locked in the replica.
Source: https://github.com/pulumi/pulumi/tree/master/pkg/backend/diy"""


@dataclass
class AwsBootstrapArgs:
    """Arguments of `AwsBootstrap`."""

    service_linked_roles: list[str] = field(default_factory=lambda: list(SERVICES))
    """Services to create a service-linked role for; leave out those that the account already has."""
    purge: bool = False
    """Lift the protection, and delete the bucket with the state of every stack in it."""
    tags: dict[str, str] | None = None
    """Tags of all taggable resources."""
    replica: str | None = None
    """Region of a replica of the state bucket; None for no replica."""
    purge_replica: bool = False
    """Lift the protection of the replica alone, and delete it with its copies once `replica` names it no more."""


class AwsBootstrap(pulumi.ComponentResource):
    """The service-linked roles for Batch and Spot, and a bucket and key for the state of the teams' stacks.

    Makes: a service-linked role per service, and an `AwsStore` with a KMS key and versioning for the state; with
    `replica` a second one in that region, and the replication with its role.

    Costs while idle: the KMS key, about $1 per month, and the state's storage; with `replica` twice as much, and about
    $0.02 per GB that goes to the other region.

    Example:
        ```python
        account = AwsBootstrap("tidemill", AwsBootstrapArgs(tags={"owner": "ml-platform"}))
        pulumi.export("backend_url", account.backend_url)
        pulumi.export("secrets_provider", account.secrets_provider)
        ```
    """

    backend_url: pulumi.Output[str]
    """The argument of `pulumi login`."""
    secrets_provider: pulumi.Output[str]
    """The argument of `pulumi stack init --secrets-provider`."""
    state_arn: pulumi.Output[str]
    """ARN of the bucket with the state."""
    key_arn: pulumi.Output[str]
    """ARN of the key of the state and of its secrets."""
    replica_url: pulumi.Output[str] | None
    """The argument of `pulumi login` where the replica takes the bucket's place; None without a replica."""
    replica_arn: pulumi.Output[str] | None
    """ARN of the replica; None without one."""

    def __init__(self, name: str, args: AwsBootstrapArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        args = as_args(AwsBootstrapArgs, args)
        super().__init__(token(AwsBootstrap), name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        for service in args.service_linked_roles:
            aws.iam.ServiceLinkedRole(
                f"{name}-{service.split('.')[0]}", aws_service_name=service, tags=args.tags, opts=child
            )
        state = AwsStore(
            f"{name}-state", AwsStoreArgs(kms_key="create", versioning=True, purge=args.purge, tags=args.tags), child
        )
        assert state.key_arn is not None
        self.backend_url, self.state_arn, self.key_arn = state.uri, state.arn, state.key_arn
        self.secrets_provider = pulumi.Output.concat("awskms:///", state.key_arn)
        self.replica_url = self.replica_arn = None
        if args.replica:
            replica = self._replicate(name, state, args, args.replica)
            self.replica_url = pulumi.Output.concat(replica.uri, "?region=", args.replica)
            self.replica_arn = replica.arn
        outputs = {"backend_url": self.backend_url, "secrets_provider": self.secrets_provider}
        self.register_outputs({**outputs, "replica_url": self.replica_url, "replica_arn": self.replica_arn})

    def _replicate(self, name: str, state: AwsStore, args: AwsBootstrapArgs, region: str) -> AwsStore:
        """Copy what is written from now on to a bucket in another region; returns it."""
        purge = args.purge or args.purge_replica
        settings = AwsStoreArgs(kms_key="create", versioning=True, purge=purge, tags=args.tags, region=region)
        replica = AwsStore(f"{name}-replica", settings, pulumi.ResourceOptions(parent=self))
        assert replica.key_arn is not None
        role = aws.iam.Role(
            f"{name}-replication",
            assume_role_policy=document([_s3_of(account_of(self))]),
            tags=args.tags,
            opts=pulumi.ResourceOptions(parent=self),
        )
        granted = grant(self, "copy", role, _copy_statements(state, replica, account_of(self).number))
        destination = aws.s3.BucketReplicationConfigRuleDestinationArgs(
            bucket=replica.arn,
            encryption_configuration=aws.s3.BucketReplicationConfigRuleDestinationEncryptionConfigurationArgs(
                replica_kms_key_id=replica.key_arn
            ),
        )
        rules = aws.s3.BucketReplicationConfig(
            f"{name}-replication-rules",
            bucket=state.bucket,
            role=role.arn,
            rules=[
                _rule(what, prefix, priority, destination)
                for priority, (what, prefix) in enumerate(_REPLICATED.items(), start=1)
            ],
            # S3 refuses it while one of the buckets has no versions.
            opts=pulumi.ResourceOptions(parent=self, depends_on=[state, replica, granted]),
        )
        # Named by its region: a replica that goes, or moves, stops here before the first of its parts is deleted.
        last = pulumi.ResourceOptions(parent=self, depends_on=[replica, rules])
        Protection(f"{name}-replica-{region}", ProtectionArgs(purge=purge, key="purge_replica"), last)
        return replica


def _s3_of(account: Account) -> Statement:
    """Trust in S3, on behalf of this account where S3 names one.

    AWS documents the role's trust without a condition, and not whether S3 names the account: `IfExists` is right
    either way. Nobody of another account can name the role in a replication, as that takes `iam:PassRole`.
    Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/setting-repl-config-perm-overview.html
    """
    return {
        "Effect": "Allow",
        "Principal": {"Service": account.principal("s3")},
        "Action": "sts:AssumeRole",
        "Condition": {"StringEqualsIfExists": {"aws:SourceAccount": account.number}},
    }


def _copy_statements(state: AwsStore, replica: AwsStore, account: pulumi.Input[str]) -> list[Statement]:
    """Read versions of the state and write them to the replica, where it is this account's; no delete.

    Source: as above, and https://docs.aws.amazon.com/AmazonS3/latest/userguide/replication-config-for-kms-objects.html
    """
    assert state.key_arn is not None
    assert replica.key_arn is not None
    ours = {"StringEqualsIfExists": {"aws:ResourceAccount": account}}
    read = ["s3:GetObjectVersionAcl", "s3:GetObjectVersionForReplication", "s3:GetObjectVersionTagging"]
    return [
        allow(["s3:GetReplicationConfiguration", "s3:ListBucket"], [state.arn]),
        allow(read, [state.objects(".pulumi/*")]),
        # A stranger may take the name of a replica that somebody deleted by hand.
        allow(["s3:ReplicateObject", "s3:ReplicateTags"], [replica.objects(".pulumi/*")], ours),
        allow(["kms:Decrypt"], [state.key_arn]),
        allow(["kms:Encrypt", "kms:GenerateDataKey"], [replica.key_arn]),
    ]


def _rule(
    what: str, prefix: str, priority: int, destination: aws.s3.BucketReplicationConfigRuleDestinationArgs
) -> aws.s3.BucketReplicationConfigRuleArgs:
    """Copy what is encrypted with the state's key, and no deletion: a state that is deleted can be restored."""
    encrypted = aws.s3.BucketReplicationConfigRuleSourceSelectionCriteriaSseKmsEncryptedObjectsArgs(status="Enabled")
    return aws.s3.BucketReplicationConfigRuleArgs(
        id=what,
        status="Enabled",
        priority=priority,
        filter=aws.s3.BucketReplicationConfigRuleFilterArgs(prefix=prefix),
        delete_marker_replication=aws.s3.BucketReplicationConfigRuleDeleteMarkerReplicationArgs(status="Disabled"),
        source_selection_criteria=aws.s3.BucketReplicationConfigRuleSourceSelectionCriteriaArgs(
            sse_kms_encrypted_objects=encrypted
        ),
        destination=destination,
    )
