"""A file system that jobs share: EFS."""

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from ..base import as_args, named, token
from ..config import FileSystem, FileSystemKeys, part
from .account import account_of
from .key import key_arn
from .policy import Statement, document

_PORT = 2049
_USER = 1000
_ROOT = "/tidemill"


@dataclass
class AwsFileSystemArgs:
    """Arguments of `AwsFileSystem`."""

    vpc_id: pulumi.Input[str]
    """The machines' VPC."""
    subnet_ids: pulumi.Input[list[str]]
    """The machines' subnets."""
    zones: list[str]
    """Zones of `subnet_ids`, one each, in their order: a zone can have only one mount target."""
    client_group_id: pulumi.Input[str]
    """Security group of the machines, the only one that is let in."""
    client_role_arn: pulumi.Input[str]
    """Role of the jobs, the only one that may mount it."""
    file_system: str = "shared"
    """Its name as mounts give it."""
    settings: FileSystemKeys | None = None
    """Its keys as under `tidemill:file_systems.<name>` in a stack file; all have defaults."""
    writable: bool = True
    """True if jobs may write."""
    purge: bool = False
    """Lift the protection."""
    tags: dict[str, str] | None = None
    """Tags of all taggable resources."""


class AwsFileSystem(pulumi.ComponentResource):
    """An encrypted, protected EFS file system that only the machines reach and only the jobs' role may mount.

    Makes: file system (protected), its policy, an access point, a security group that admits NFS from the machines, a
    mount target per zone; with `backup` its backup policy; with `kms_key` of `create` a KMS key and an alias.

    Costs while idle: what it holds, about $0.30 per GB and month (list price of us-east-1, without warranty).

    Example:
        ```python
        network = AwsNetwork("vision-dev-network", AwsNetworkArgs(zones=2))
        identity = AwsIdentity("vision-dev-identity", AwsIdentityArgs())
        shared = AwsFileSystem(
            "vision-dev-fs-shared",
            AwsFileSystemArgs(
                vpc_id=network.vpc_id,
                subnet_ids=network.subnet_ids,
                zones=["us-west-2a", "us-west-2b"],
                client_group_id=network.security_group_id,
                client_role_arn=identity.job_role.arn,
            ),
        )
        pulumi.export("shared", shared.source)
        ```
    """

    arn: pulumi.Output[str]
    """The file system's ARN."""
    source: pulumi.Output[str]
    """The source of a queue's mount, ``<file system>/<access point>``; known once there are mount targets."""

    def __init__(self, name: str, args: AwsFileSystemArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        args = as_args(AwsFileSystemArgs, args)
        super().__init__(token(AwsFileSystem), name, None, opts)
        self._args = args
        self._child = pulumi.ResourceOptions(parent=self)
        settings = part(FileSystem, args.settings or {}, "file_systems", args.file_system)
        key = key_arn(self, settings.kms_key, account_of(self), args.tags, purge=args.purge)
        made = self._file_system(name, settings, key)
        point = self._access_point(name, made)
        self.arn = made.arn
        policy = self._policy(name, made, point)
        if settings.backup:
            aws.efs.BackupPolicy(
                f"{name}-backup",
                file_system_id=made.id,
                backup_policy=aws.efs.BackupPolicyBackupPolicyArgs(status="ENABLED"),
                opts=self._child,
            )
        ready = [policy.id, *(target.id for target in self._targets(name, made))]
        self.source = pulumi.Output.all(made.id, point.id, *ready).apply(lambda ids: f"{ids[0]}/{ids[1]}")
        self.register_outputs({"arn": self.arn, "source": self.source})

    def _file_system(self, name: str, settings: FileSystem, key: pulumi.Output[str] | None) -> "aws.efs.FileSystem":
        # Its name is an id, so that a file system of another name never takes its place.
        return aws.efs.FileSystem(
            f"{name}-files",
            encrypted=True,
            kms_key_id=key,
            performance_mode="generalPurpose",
            throughput_mode=settings.throughput,
            lifecycle_policies=_lifecycle(settings.infrequent_after_days),
            tags=named(self._args.tags, name),
            # EFS deletes one with everything in it, without a question.
            opts=pulumi.ResourceOptions(parent=self, protect=not self._args.purge),
        )

    def _access_point(self, name: str, made: "aws.efs.FileSystem") -> "aws.efs.AccessPoint":
        """Every job is one user in one folder, whatever user its container runs as."""
        return aws.efs.AccessPoint(
            f"{name}-access",
            file_system_id=made.id,
            posix_user=aws.efs.AccessPointPosixUserArgs(uid=_USER, gid=_USER),
            root_directory=aws.efs.AccessPointRootDirectoryArgs(
                path=_ROOT,
                creation_info=aws.efs.AccessPointRootDirectoryCreationInfoArgs(
                    owner_uid=_USER, owner_gid=_USER, permissions="0770"
                ),
            ),
            tags=named(self._args.tags, name),
            opts=self._child,
        )

    def _policy(
        self, name: str, made: "aws.efs.FileSystem", point: "aws.efs.AccessPoint"
    ) -> "aws.efs.FileSystemPolicy":
        """Without a policy, EFS admits every client that reaches a mount target. With one, IAM must allow each client.

        Source: https://docs.aws.amazon.com/efs/latest/ug/iam-access-control-nfs-efs.html
        """
        # A client's role, the access point and the transport are all that EFS looks at.
        actions = ["ClientMount", "ClientWrite"] if self._args.writable else ["ClientMount"]
        jobs: Statement = {
            "Sid": "JobsThroughTheAccessPoint",
            "Effect": "Allow",
            "Principal": {"AWS": self._args.client_role_arn},
            "Action": [f"elasticfilesystem:{action}" for action in actions],
            "Resource": made.arn,
            "Condition": {
                "Bool": {"elasticfilesystem:AccessedViaMountTarget": "true"},
                "StringEquals": {"elasticfilesystem:AccessPointArn": point.arn},
            },
        }
        encrypted: Statement = {
            "Sid": "TlsOnly",
            "Effect": "Deny",
            "Principal": {"AWS": "*"},
            "Action": "*",
            "Resource": made.arn,
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        }
        return aws.efs.FileSystemPolicy(
            f"{name}-policy", file_system_id=made.id, policy=document([jobs, encrypted]), opts=self._child
        )

    def _targets(self, name: str, made: "aws.efs.FileSystem") -> "list[aws.efs.MountTarget]":
        tags = named(self._args.tags, name)
        group = aws.ec2.SecurityGroup(
            f"{name}-targets",
            description="File system: NFS from the machines",
            vpc_id=self._args.vpc_id,
            tags=tags,
            opts=self._child,
        )
        admitted = aws.vpc.SecurityGroupIngressRule(
            f"{name}-targets-in",
            security_group_id=group.id,
            ip_protocol="tcp",
            from_port=_PORT,
            to_port=_PORT,
            referenced_security_group_id=self._args.client_group_id,
            description="NFS from the machines",
            tags=tags,
            opts=self._child,
        )
        subnets = pulumi.Output.from_input(self._args.subnet_ids)
        firsts = {zone: self._args.zones.index(zone) for zone in self._args.zones}
        return [
            aws.efs.MountTarget(
                f"{name}-target-{zone}",
                file_system_id=made.id,
                subnet_id=subnets.apply(lambda ids, index=index: ids[index]),
                security_groups=[group.id],
                opts=pulumi.ResourceOptions(parent=self, depends_on=[admitted]),
            )
            for zone, index in firsts.items()
        ]


def _lifecycle(days: int | None) -> "list[aws.efs.FileSystemLifecyclePolicyArgs] | None":
    """Each transition is a policy of its own: EFS refuses two in one."""
    if days is None:
        return None
    rule = aws.efs.FileSystemLifecyclePolicyArgs
    after = f"AFTER_{days}_DAY{'S' if days > 1 else ''}"
    return [rule(transition_to_ia=after), rule(transition_to_primary_storage_class="AFTER_1_ACCESS")]
