"""CI's identities in an account: a reader for previews, and a writer per environment for deploys."""

from dataclasses import dataclass, field

import pulumi
import pulumi_aws as aws

from ...base import as_args, token
from ...ci import AwsCiModel
from ...config import part
from ..account import account_of
from ..policy import Statement, document
from .boundary import boundary_statements
from .home import Home
from .policies import (
    deploy_statements,
    ground_statements,
    preview_statements,
    secret_statements,
    wall_statements,
)
from .sender_policy import sender_statements
from .tag_policies import file_statements, flow_statements, template_statements

_AUDIENCE = "sts.amazonaws.com"
_SESSION_SECONDS = 4 * 3600
"""A deploy waits for jobs on a compute environment that it replaces."""


@dataclass
class AwsCiArgs:
    """Arguments of `AwsCi`."""

    repository: str
    """The repository whose workflows may log in: `owner/name` on GitHub, `group/project` on GitLab."""
    state_arn: pulumi.Input[str]
    """ARN of the bucket with the state of the stacks."""
    key_arn: pulumi.Input[str]
    """ARN of the key of the state and of its secrets."""
    environments: list[str] = field(default_factory=list)
    """The environments with stacks in this account; at least one."""
    branch: str = "main"
    """The branch of deploys and nightly runs."""
    provider: str = "github"
    """The host of the code: `github` or `gitlab`."""
    host: str | None = None
    """GitLab: the name of the instance, `gitlab.com` unless set."""
    provider_arn: str | None = None
    """ARN of the host's identity provider if the account already has one: it can have only one."""
    buckets: list[str] = field(default_factory=list)
    """Names of the data buckets that stacks may use in addition to their own stores (`tidemill:data`), at most 10. A
    name may end with `*`."""
    tags: dict[str, str] | None = None
    """Tags of all taggable resources."""
    replica_arn: pulumi.Input[str] | None = None
    """ARN of the state's replica, if there is one; no role of a stack may use it."""


class AwsCi(pulumi.ComponentResource):
    """Roles that workflows of one repository assume with the tokens of GitHub or GitLab, without stored keys.

    Makes: an identity provider unless there is one; a read-only role for previews of pull requests and the branch; per
    environment a role for deploys, for jobs that GitHub lets into that environment; their policies; and per environment
    a permission boundary, which every role that its deploys create must have. The modules beside this one have their
    permissions; docs/access.md shows them call by call.

    Costs while idle: nothing.

    Example:
        ```python
        account = AwsBootstrap("tidemill", AwsBootstrapArgs())
        ci = AwsCi(
            "tidemill-ci",
            AwsCiArgs(
                repository="example/infra",
                environments=["dev", "prod"],
                state_arn=account.state_arn,
                key_arn=account.key_arn,
            ),
        )
        pulumi.export("preview_role", ci.preview_role_arn)
        ```
    """

    preview_role_arn: pulumi.Output[str]
    """The role of previews."""
    deploy_role_arns: dict[str, pulumi.Output[str]]
    """The roles of deploys, by environment."""
    boundary_arns: dict[str, pulumi.Output[str]]
    """The `tidemill:permission_boundary` of stacks that CI deploys, by environment."""

    def __init__(self, name: str, args: AwsCiArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        args = as_args(AwsCiArgs, args)
        super().__init__(token(AwsCi), name, None, opts)
        ci = part(AwsCiModel, {key: getattr(args, key) for key in AwsCiModel.model_fields}, "ci")
        self._args, self._ci, self._child = args, ci, pulumi.ResourceOptions(parent=self)
        self._issuer = pulumi.Output.from_input(args.provider_arn or self._identity_provider())
        home = Home(account_of(self), args.state_arn, args.key_arn, name, args.replica_arn)
        reads, ground = self._policy("reads", preview_statements(home)), self._policy("ground", ground_statements(home))
        preview = self._role("preview", ci.preview_subjects, {"reads": reads})
        self.preview_role_arn = preview.arn
        self.deploy_role_arns, self.boundary_arns = {}, {}
        for environment in ci.environments:
            boundary = self._policy(f"boundary-{environment}", boundary_statements(home, environment, ci.buckets))
            writes = self._policy(f"writes-{environment}", deploy_statements(home, environment, boundary.arn))
            others = [each for each in ci.environments if each != environment]
            wall = self._policy(f"wall-{environment}", wall_statements(home, environment, others))
            tagged = [
                each
                for made in (file_statements, template_statements, flow_statements, secret_statements)
                for each in made(home, environment)
            ]
            files = self._policy(f"files-{environment}", tagged)
            sender = self._policy(f"sender-{environment}", sender_statements(home, environment, boundary.arn))
            policies = {"reads": reads, "ground": ground, "writes": writes, "wall": wall, "files": files}
            policies |= {"sender": sender}
            subject = [ci.deploy_subject(environment)]
            ref = None if ci.on_gitlab else ci.ref
            role = self._role(f"deploy-{environment}", subject, policies, ref)
            self.deploy_role_arns[environment], self.boundary_arns[environment] = role.arn, boundary.arn
        self.register_outputs(
            {
                "preview_role_arn": self.preview_role_arn,
                "deploy_role_arns": self.deploy_role_arns,
                "boundary_arns": self.boundary_arns,
            }
        )

    def _identity_provider(self) -> pulumi.Output[str]:
        return aws.iam.OpenIdConnectProvider(
            f"{self.pulumi_resource_name}-{self._ci.provider}",
            url=f"https://{self._ci.issuer}",
            client_id_lists=[_AUDIENCE],
            tags=self._args.tags,
            opts=self._child,
        ).arn

    def _policy(self, suffix: str, statements: list[Statement]) -> aws.iam.Policy:
        return aws.iam.Policy(
            f"{self.pulumi_resource_name}-{suffix}",
            policy=document(statements),
            tags=self._args.tags,
            opts=self._child,
        )

    def _role(
        self, suffix: str, subjects: list[str], policies: dict[str, aws.iam.Policy], ref: str | None = None
    ) -> aws.iam.Role:
        """A role for workflows whose tokens have one of the subjects, and run for `ref` if that is given.

        Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_providers_create_oidc_verify-thumbprint.html,
        https://aws.amazon.com/about-aws/whats-new/2026/01/aws-sts-supports-validation-identity-provider-claims/ (ref)
        """
        told = {"aud": _AUDIENCE, "sub": subjects} | ({"ref": ref} if ref else {})
        # STS knows no claims of GitLab but these two; its readers are of every branch.
        liked = {"sub"} if any(subject.endswith("*") for subject in subjects) else set()
        named = {f"{self._ci.issuer}:{claim}": value for claim, value in told.items() if claim not in liked}
        conditions = {"StringEquals": named}
        if liked:
            conditions["StringLike"] = {f"{self._ci.issuer}:sub": subjects}
        name = f"{self.pulumi_resource_name}-{suffix}"
        statement: Statement = {
            "Effect": "Allow",
            "Principal": {"Federated": self._issuer},
            "Action": "sts:AssumeRoleWithWebIdentity",
            "Condition": conditions,
        }
        role = aws.iam.Role(
            name,
            assume_role_policy=document([statement]),
            max_session_duration=_SESSION_SECONDS,
            tags=self._args.tags,
            opts=self._child,
        )
        for what, policy in policies.items():
            aws.iam.RolePolicyAttachment(f"{name}-{what}", role=role.name, policy_arn=policy.arn, opts=self._child)
        return role
