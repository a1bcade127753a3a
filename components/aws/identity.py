"""The roles of machines and jobs, and the permissions of submitters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pulumi
import pulumi_aws as aws

from ..base import as_args, token
from ..config.later import is_plain, plain
from ..outputs import whole
from .account import Account, account_of
from .key import use_keys
from .policy import Statement, allow, deny, document, grant, role_of, trust

_TASKS = "ecs-tasks.amazonaws.com"
_READ_SECRET, _WRITE_SECRET = "secretsmanager:GetSecretValue", "secretsmanager:PutSecretValue"


@dataclass
class AwsIdentityArgs:
    """Arguments of `AwsIdentity`."""

    permission_boundary: pulumi.Input[str] | None = None
    """ARN of a policy that bounds every role."""
    tags: dict[str, str] | None = None
    """Tags of all taggable resources."""
    submitters: Sequence[pulumi.Input[str]] = field(default_factory=list)
    """ARNs of users, roles or accounts that may assume the submitter role."""


class AwsIdentity(pulumi.ComponentResource):
    """The instance, execution and job roles of a pipeline, and its submitter policy.

    Makes: instance role with the ECS agent's permissions and its instance profile, execution role, job role; the latter
    two have no permissions until another component grants some. `grant_submitters` adds the submitter policy and, if it
    has principals, the submitter role; with a boundary the role alone. `keep_secrets` adds a secret and the role.
    The component's name without `-identity` is the prefix of the names of the queues whose machines use the instance
    role.

    Costs while idle: nothing; with `keep_secrets` about $0.40 per month.

    Example:
        ```python
        identity = AwsIdentity("vision-dev-identity", AwsIdentityArgs())
        AwsStore("vision-dev-store", AwsStoreArgs()).grant_work(identity.job_role)
        ```
    """

    instance_role: aws.iam.Role
    """The machines' role. Jobs on EC2 share the machine's network, so machines block user code's access to it."""
    execution_role: aws.iam.Role
    """The ECS agent's role when it starts a container: image pull, secrets, log streams."""
    job_role: aws.iam.Role
    """The role of the worker and the user's code."""
    instance_profile_arn: pulumi.Output[str]
    """The instance role's profile; known once the role has its permissions."""
    submitter_policy_arns: list[pulumi.Output[str]]
    """The submitter policy, after `grant_submitters`, and further ones for queues that do not fit into it, and for
    advice; none with a boundary."""
    submitter_role_arn: pulumi.Output[str] | None
    """The submitter role, after `grant_submitters`, if there are principals for it."""

    def __init__(self, name: str, args: AwsIdentityArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        args = as_args(AwsIdentityArgs, args)
        super().__init__(token(AwsIdentity), name, None, opts)
        self._args = args
        self._account = account = account_of(self)
        self._child = pulumi.ResourceOptions(parent=self)
        self.instance_role = self._role("instance", trust(account.principal("ec2")))
        self.execution_role = self._role("execution", trust(_TASKS, account.number))
        self.job_role = self._role("job", trust(_TASKS, account.number))
        agent = grant(self, "agent", self.instance_role, _agent_statements(account, name.removesuffix("-identity")))
        profile = aws.iam.InstanceProfile(
            f"{name}-profile", role=self.instance_role.name, tags=args.tags, opts=self._child
        )
        # Resources that start or stop machines with the profile must wait for the permissions and be deleted before
        # them.
        self.instance_profile_arn = pulumi.Output.all(profile.arn, agent.id).apply(lambda both: both[0])
        self.submitter_policy_arns = []
        self.submitter_role_arn = None
        self._submitter: aws.iam.Role | None = None
        self.register_outputs(
            {
                "instance_role_arn": self.instance_role.arn,
                "execution_role_arn": self.execution_role.arn,
                "job_role_arn": self.job_role.arn,
                "instance_profile_arn": self.instance_profile_arn,
            }
        )

    def _role(self, suffix: str, assume: pulumi.Input[str]) -> aws.iam.Role:
        return role_of(self, suffix, assume, self._args.permission_boundary, self._args.tags)

    def grant_data(
        self,
        role: aws.iam.Role,
        read: Sequence[pulumi.Input[str]],
        write: Sequence[pulumi.Input[str]],
        kms_keys: Sequence[pulumi.Input[str]],
    ) -> None:
        """Let a role use the team's declared data: ``s3://bucket/prefix`` URIs to read, or to read and write."""
        if not read and not write:
            return
        # Buckets are put together, so all names must be known.
        statements = whole([read, write]).apply(
            lambda it: whole(data_statements(self._account, it[0], it[1], kms_keys))
        )
        grant(self, "data", role, statements)

    def grant_secrets(self, role: aws.iam.Role, arns: Sequence[pulumi.Input[str]]) -> None:
        """Let a role read Secrets Manager secrets and SSM parameters, by the references of a job definition."""
        statements = secret_statements(arns)
        if statements:
            grant(self, "secrets", role, statements)

    def keep_secrets(self, *, purge: bool) -> tuple[pulumi.Output[str], list[Statement]]:
        """Make the secret that holds the personal secrets of the only submitter, and let jobs read it.

        From now on nothing but the submitter role gets a submitter's permissions: a policy could be attached to others.
        The secret's own policy denies its value to whoever is neither that role nor the jobs' role, whatever else they
        may do in the account.

        Returns:
            Its ARN, and the submitter's permissions on it.
        """
        name = self.pulumi_resource_name
        self._submitter = self._submitter_role()
        closed: Statement = {
            **deny([_READ_SECRET, _WRITE_SECRET], ["*"]),
            "Principal": "*",
            "Condition": {"ArnNotEquals": {"aws:PrincipalArn": [self._submitter.arn, self.job_role.arn]}},
        }
        secret = aws.secretsmanager.Secret(
            f"{name}-secrets",
            description="Personal secrets of the submitter (tidemill secret)",
            policy=document([closed]),
            recovery_window_in_days=0 if purge else 7,
            tags=self._args.tags,
            opts=self._child,
        )
        grant(self, "personal-secrets", self.job_role, [allow([_READ_SECRET], [secret.arn])])
        return secret.arn, [allow([_READ_SECRET, _WRITE_SECRET], [secret.arn])]

    def grant_publish(self, role: aws.iam.Role, topics: Sequence[pulumi.Input[str]]) -> None:
        """Let a role publish to topics, by ARN."""
        if topics:
            grant(self, "channels", role, publish_statements(topics))

    def grant_external_pull(self, role: aws.iam.Role, repositories: Sequence[str]) -> None:
        """Let a role pull from ECR repositories outside the stack's registry, by ARN."""
        if not repositories:
            return
        layers = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
        grant(self, "external-pull", role, [allow(["ecr:GetAuthorizationToken"], ["*"]), allow(layers, repositories)])

    def grant_import(self, role: aws.iam.Role, repositories: Sequence[str]) -> None:
        """Let a role make a pull-through cache fetch images into existing repositories, by ARN.

        Making a repository would be another right, which no machine has (ADR 114).
        Source: https://docs.aws.amazon.com/AmazonECR/latest/userguide/pull-through-cache-iam.html
        """
        if repositories:
            grant(self, "import", role, [allow(["ecr:BatchImportUpstreamImage"], repositories)])

    def grant_worker(self, role: aws.iam.Role, repositories: Sequence[pulumi.Input[str]]) -> None:
        """Let machines fetch the worker's image, by its repository's ARN. They need no registry login."""
        grant(self, "worker", role, [allow(["ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"], repositories)])

    def grant_submitters(
        self,
        statements: Sequence[pulumi.Input[Statement]],
        *more: Sequence[pulumi.Input[Statement]],
        advise: Sequence[pulumi.Input[Statement]] = (),
    ) -> None:
        """Create the submitter policy and, if it has principals, the submitter role.

        With a boundary or personal secrets the role holds the permissions itself, and there is no policy: anyone who
        may write a policy may change what those have who attach it to roles of their own, which no boundary bounds
        (ADR 93).

        Args:
            statements: The submitter's permissions.
            more: Further statements that do not fit into one policy, one policy each; submitters need them all.
            advise: Permissions to ask for advice, in a policy of their own.
        """
        name = self.pulumi_resource_name
        if self._args.permission_boundary is not None or self._submitter is not None:
            if self._args.submitters:
                role = self._submitter or self._submitter_role()
                written = grant(self, "submit", role, [*statements, *(each for part in more for each in part), *advise])
                self.submitter_role_arn = pulumi.Output.all(role.arn, written.id).apply(lambda both: both[0])
            return
        numbers = range(2, len(more) + 2)
        granted = {"": statements, **{f"-{number}": each for number, each in zip(numbers, more, strict=True)}}
        granted |= {"-advise": advise} if advise else {}
        policies = {
            suffix: aws.iam.Policy(
                f"{name}-submitter{suffix}",
                description="Submit to, watch and cancel jobs of this pipeline",
                policy=document(allowed),
                tags=self._args.tags,
                opts=self._child,
            )
            for suffix, allowed in granted.items()
        }
        self.submitter_policy_arns = [policy.arn for policy in policies.values()]
        if not self._args.submitters:
            return
        role = self._submitter_role()
        attached = [
            aws.iam.RolePolicyAttachment(
                f"{name}-submitter-policy{suffix}", role=role.name, policy_arn=policy.arn, opts=self._child
            ).id
            for suffix, policy in policies.items()
        ]
        self.submitter_role_arn = pulumi.Output.all(role.arn, *attached).apply(lambda all_of: all_of[0])

    def _submitter_role(self) -> aws.iam.Role:
        assume: Statement = {
            "Effect": "Allow",
            "Principal": {"AWS": list(self._args.submitters)},
            "Action": "sts:AssumeRole",
        }
        return self._role("submitter", document([assume]))


def _agent_statements(account: Account, stem: str) -> list[Statement]:
    """The ECS agent's own calls in the clusters of this stack's compute environments: no images, logs or store.

    Batch creates a cluster per environment and names it after the environment, in one of two forms seen in accounts:
    ``AWSBatch-<environment>-<uuid>`` and ``<environment>_Batch_<uuid>``
    (https://github.com/hashicorp/terraform-provider-aws/pull/38050). With a third form no machine would join.

    Source: https://docs.aws.amazon.com/AmazonECS/latest/developerguide/security-iam-awsmanpol.html
    (AmazonEC2ContainerServiceforEC2Role, without what the execution role does instead)

    Args:
        stem: prefix of the names of the stack's queues, ``vision-dev``.
    """
    kinds = ("cluster", "container-instance")
    own = [account.arn("ecs", f"{kind}/{prefix}{stem}-*") for kind in kinds for prefix in ("AWSBatch-", "")]
    return [
        allow(["ecs:DiscoverPollEndpoint"], ["*"]),
        allow(
            [
                "ecs:DeregisterContainerInstance",
                "ecs:Poll",
                "ecs:RegisterContainerInstance",
                "ecs:StartTelemetrySession",
                "ecs:SubmitAttachmentStateChanges",
                "ecs:SubmitContainerStateChange",
                "ecs:SubmitTaskStateChange",
                "ecs:UpdateContainerInstancesState",
            ],
            own,
        ),
        allow(["ecs:TagResource"], own, {"StringEquals": {"ecs:CreateAction": "RegisterContainerInstance"}}),
    ]


def data_statements(
    account: Account, read: Sequence[str], write: Sequence[str], kms_keys: Sequence[pulumi.Input[str]]
) -> list[Statement]:
    """Statements for ``s3://bucket/prefix`` URIs; write includes read."""
    statements = []
    if write:
        actions = ["s3:AbortMultipartUpload", "s3:GetObject", "s3:PutObject"]
        statements.append(allow(actions, [_objects(account, uri) for uri in write]))
    if read:
        statements.append(allow(["s3:GetObject"], [_objects(account, uri) for uri in read]))
    for bucket, prefixes in _prefixes([*read, *write]).items():
        condition = None if "*" in prefixes else {"StringLike": {"s3:prefix": prefixes}}
        statements.append(
            allow(["s3:ListBucket"], [pulumi.Output.format("arn:{0}:s3:::{1}", account.partition, bucket)], condition)
        )
    return [*statements, *use_keys(kms_keys)]


def publish_statements(topics: Sequence[pulumi.Input[str]]) -> list[Statement]:
    """Statements for messages to topics, by ARN; none without any."""
    return [allow(["sns:Publish"], topics)] if topics else []


def _objects(account: Account, uri: str) -> pulumi.Output[str]:
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    return pulumi.Output.format("arn:{0}:s3:::{1}/{2}*", account.partition, bucket, prefix)


def _prefixes(uris: Sequence[str]) -> Mapping[str, list[str]]:
    by_bucket: dict[str, list[str]] = {}
    for uri in uris:
        bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        by_bucket.setdefault(bucket, []).append(f"{prefix}*")
    return {bucket: sorted(set(prefixes)) for bucket, prefixes in by_bucket.items()}


def secret_statements(arns: Sequence[pulumi.Input[str]]) -> list[Statement]:
    """Statements for the ``valueFrom`` references of a job definition.

    A Secrets Manager reference may have a JSON key, stage and version after the ARN; IAM knows only the secret. An
    output is a secret of Secrets Manager.
    Source: https://docs.aws.amazon.com/batch/latest/userguide/specifying-sensitive-data-secrets.html
    """
    known = plain(arns)
    secrets: list[pulumi.Input[str]] = [*sorted({_secret(arn) for arn in known if ":secretsmanager:" in arn})]
    secrets += [pulumi.Output.from_input(arn).apply(_secret) for arn in arns if not is_plain(arn)]
    parameters = sorted({arn for arn in known if ":ssm:" in arn})
    statements = []
    if secrets:
        # A reference may omit the six random characters that Secrets Manager appends.
        either = [resource for arn in secrets for resource in (arn, _and(arn, "-??????"))]
        statements.append(allow(["secretsmanager:GetSecretValue"], either))
    if parameters:
        statements.append(allow(["ssm:GetParameters"], parameters))
    return statements


def _secret(reference: str) -> str:
    return ":".join(reference.split(":")[:7])


def _and(arn: pulumi.Input[str], ending: str) -> pulumi.Input[str]:
    return f"{arn}{ending}" if is_plain(arn) else pulumi.Output.concat(arn, ending)
