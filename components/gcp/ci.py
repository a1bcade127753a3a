"""CI's identities in a project: a reader for previews, and a writer per environment for deploys."""

from dataclasses import dataclass, field

import pulumi
import pulumi_gcp as gcp

from ..base import as_args, token
from ..ci import Ci
from ..config import part
from .ci_permissions import READING, WRITING
from .member import account_id, role_id
from .project import Project

_AUDIENCE = "tidemill-ci"
"""Of GitLab's tokens; a job chooses it."""

# Objects that stacks write into their stores and previews read back; neither holds a secret.
_WRITTEN = (
    'resource.name.endsWith("/objects/pipeline.json") || '
    '(resource.name.contains("/objects/reconciler/") && resource.name.endsWith(".zip"))'
)


@dataclass
class GcpCiArgs:
    """Arguments of `GcpCi`."""

    repository: str
    """The repository whose workflows may log in: `owner/name` on GitHub, `group/project` on GitLab."""
    state_bucket: pulumi.Input[str]
    """Name of the bucket with the state of the stacks."""
    kms_key: pulumi.Input[str]
    """Full name of the key of the state and of its secrets."""
    environments: list[str] = field(default_factory=list)
    """The environments with stacks in this project; at least one."""
    branch: str = "main"
    """The branch of deploys and nightly runs."""
    provider: str = "github"
    """The host of the code: `github` or `gitlab`."""
    host: str | None = None
    """GitLab: the name of the instance, `gitlab.com` unless set."""


class GcpCi(pulumi.ComponentResource):
    """Service accounts that workflows of one repository use with the tokens of GitHub or GitLab, without stored keys.

    Makes: a workload identity pool with the host of the code as its provider, for one repository; a read-only service
    account for previews of pull requests and the branch; per environment an account for deploys, for jobs that the host
    lets into that environment; custom roles with their permissions (`components/gcp/ci_permissions.py`), and their
    bindings on the project, the state's bucket and its key.

    Costs while idle: nothing.

    Example:
        ```python
        project = GcpBootstrap("tidemill", GcpBootstrapArgs())
        ci = GcpCi(
            "tidemill-ci",
            GcpCiArgs(
                repository="example/infra",
                environments=["prod"],
                state_bucket=project.state_bucket,
                kms_key=project.kms_key,
            ),
        )
        pulumi.export("provider", ci.provider)
        ```
    """

    provider: pulumi.Output[str]
    """Full name of the workload identity provider."""
    preview_account: pulumi.Output[str]
    """Address of the previews' account."""
    deploy_accounts: dict[str, pulumi.Output[str]]
    """Addresses of the deploys' accounts, by environment."""

    def __init__(self, name: str, args: GcpCiArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        args = as_args(GcpCiArgs, args)
        super().__init__(token(GcpCi), name, None, opts)
        ci = part(Ci, {key: getattr(args, key) for key in Ci.model_fields}, "ci")
        self._name, self._args = name, args
        self._child = pulumi.ResourceOptions(parent=self)
        self._project = Project(self)
        self._pool = gcp.iam.WorkloadIdentityPool(
            f"{name}-pool", workload_identity_pool_id=name, display_name="Tidemill: CI", opts=self._child
        )
        self.provider = self._gitlab(ci) if ci.on_gitlab else self._github(ci)
        reads, writes = self._role("reader", READING), self._role("writer", WRITING)
        readers = [f"project:{ci.path}"] if ci.on_gitlab else ci.preview_subjects
        self.preview_account = self._account("preview", readers, [reads])
        self._state("preview", self.preview_account, "roles/storage.objectViewer", "roles/cloudkms.cryptoKeyDecrypter")
        self.deploy_accounts = {}
        for environment in ci.environments:
            what, subjects = f"deploy-{environment}", [ci.deploy_subject(environment)]
            if ci.on_gitlab:
                subjects = [f"project:{ci.path}:environment:{environment}"]
            account = self._account(what, subjects, [reads, writes])
            self._state(what, account, "roles/storage.objectUser", "roles/cloudkms.cryptoKeyEncrypterDecrypter")
            self.deploy_accounts[environment] = account
        self.register_outputs(
            {
                "provider": self.provider,
                "preview_account": self.preview_account,
                "deploy_accounts": self.deploy_accounts,
            }
        )

    def _github(self, ci: Ci) -> pulumi.Output[str]:
        """Source: https://cloud.google.com/iam/docs/workload-identity-federation-with-deployment-pipelines"""
        return gcp.iam.WorkloadIdentityPoolProvider(
            f"{self._name}-github",
            workload_identity_pool_id=self._pool.workload_identity_pool_id,
            workload_identity_pool_provider_id="github",
            attribute_mapping={"google.subject": "assertion.sub", "attribute.repository": "assertion.repository"},
            # GitHub gives everybody tokens: without this condition anybody's workflows could enter the pool.
            # Whoever may push a branch may write a workflow that names an environment.
            attribute_condition=f"{_told(ci, 'repository', 'repository_owner_id', 'repository_id')} && "
            f'(!assertion.sub.contains(":environment:") || assertion.ref == "{ci.ref}")',
            oidc=gcp.iam.WorkloadIdentityPoolProviderOidcArgs(issuer_uri=f"https://{ci.issuer}"),
            opts=self._child,
        ).name

    def _gitlab(self, ci: Ci) -> pulumi.Output[str]:
        """Two providers, because a token without an environment lacks the claim; returns the reader's. The writers'
        has the same name and `-deploy`.

        The pipeline of a merge request has the ref of its source: one from the branch into another may hold the other's
        code (merged results), so only pushes deploy.
        Source: https://docs.gitlab.com/ci/cloud_services/google_cloud/,
        https://gitlab.com/gitlab-org/gitlab/-/blob/master/lib/gitlab/ci/jwt.rb (source_ref, pipeline_source)
        """
        project = _told(ci, "project_path", "project_id")
        branch = (
            f'assertion.ref_type == "branch" && assertion.ref == "{ci.branch}" && assertion.ref_protected == "true"'
        )
        protected = 'assertion.environment_protected == "true" && assertion.pipeline_source == "push"'
        reads = self._oidc("gitlab", ci, '"project:" + assertion.project_path', project)
        subject = '"project:" + assertion.project_path + ":environment:" + assertion.environment'
        self._oidc("gitlab-deploy", ci, subject, f"{project} && {branch} && {protected}")
        return reads.name

    def _oidc(self, name: str, ci: Ci, subject: str, condition: str) -> gcp.iam.WorkloadIdentityPoolProvider:
        return gcp.iam.WorkloadIdentityPoolProvider(
            f"{self._name}-{name}",
            workload_identity_pool_id=self._pool.workload_identity_pool_id,
            workload_identity_pool_provider_id=name,
            attribute_mapping={"google.subject": subject},
            attribute_condition=condition,
            oidc=gcp.iam.WorkloadIdentityPoolProviderOidcArgs(
                issuer_uri=f"https://{ci.issuer}", allowed_audiences=[_AUDIENCE]
            ),
            opts=self._child,
        )

    def _role(self, what: str, permissions: list[str]) -> gcp.projects.IAMCustomRole:
        return gcp.projects.IAMCustomRole(
            f"{self._name}-{what}",
            role_id=role_id(self._name, what),
            title=f"Tidemill: CI, {what}",
            permissions=permissions,
            opts=self._child,
        )

    def _account(self, what: str, subjects: list[str], roles: list[gcp.projects.IAMCustomRole]) -> pulumi.Output[str]:
        """An account for workflows whose tokens have one of the subjects; returns its address."""
        kind, _, environment = what.partition("-")
        made = gcp.serviceaccount.Account(
            f"{self._name}-{what}",
            account_id=account_id("-".join(filter(None, [self._name, environment])), kind),
            display_name=f"Tidemill: CI, {what}",
            opts=self._child,
        )
        for subject in subjects:
            gcp.serviceaccount.IAMMember(
                f"{self._name}-{what}-{subject.rpartition(':')[2].replace('/', '-')}",
                service_account_id=made.name,
                role="roles/iam.workloadIdentityUser",
                member=pulumi.Output.concat("principal://iam.googleapis.com/", self._pool.name, "/subject/", subject),
                opts=self._child,
            )
        bind, name = self._project.bind, f"{self._name}-{what}"
        member = pulumi.Output.concat("serviceAccount:", made.email)
        for role in roles:
            bind(f"{name}-{role.pulumi_resource_name.rpartition('-')[2]}", role.name, member, self._child)
        condition = gcp.projects.IAMMemberConditionArgs(title="tidemill-written", expression=_WRITTEN)
        bind(f"{name}-written", "roles/storage.objectViewer", member, self._child, condition)
        return made.email

    def _state(self, what: str, email: pulumi.Input[str], objects: str, key: str) -> None:
        """Let an account use the state and its secrets."""
        member = pulumi.Output.concat("serviceAccount:", email)
        gcp.storage.BucketIAMMember(
            f"{self._name}-{what}-state", bucket=self._args.state_bucket, role=objects, member=member, opts=self._child
        )
        gcp.kms.CryptoKeyIAMMember(
            f"{self._name}-{what}-key", crypto_key_id=self._args.kms_key, role=key, member=member, opts=self._child
        )


def _told(ci: Ci, path: str, *numbers: str) -> str:
    """The demand that a token names the repository, and its numbers where they are given, in these claims."""
    told = [(path, ci.path), *zip(numbers, ci.numbers, strict=False)]
    return " && ".join(f'assertion.{claim} == "{value}"' for claim, value in told)
