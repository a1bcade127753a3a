"""CI's identity to a cloud: the subjects of the tokens of GitHub's workflows and GitLab's pipelines.

Others can use a repository's name again, but not its number. GitHub's subjects have both since 2026-07-15, for
repositories that are new, renamed or transferred; GitLab's have what a setting of the project says.

Sources: https://docs.github.com/en/actions/reference/security/oidc,
https://github.blog/changelog/2026-04-23-immutable-subject-claims-for-github-actions-oidc-tokens/,
https://docs.gitlab.com/ci/secrets/id_token_authentication/
"""

import re
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from .config.model import Model
from .config.types import Name, matching, unique

ISSUER = "token.actions.githubusercontent.com"

# Workload identity federation of Google takes subjects of at most 127 bytes:
# https://cloud.google.com/iam/docs/workload-identity-federation#mapping
_GITHUB = re.compile(r"[A-Za-z0-9-]{1,39}/[A-Za-z0-9._-]+|[A-Za-z0-9-]{1,39}@\d+/[A-Za-z0-9._-]+@\d+")
_GITLAB = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)+(@\d+)?")
_REPOSITORY = re.compile(f"{_GITHUB.pattern}|{_GITLAB.pattern}")
_HOST = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+")
_BRANCH = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")
_BUCKETS = re.compile(r"[a-z0-9][a-z0-9.-]+[a-z0-9*]")


class Ci(Model):
    """The repository whose workflows may log in, and the environments that they deploy."""

    provider: Literal["github", "gitlab"] = Field(default="github", description="The host of the code.")
    host: Annotated[str, matching(_HOST, "the name of a host, such as gitlab.example.com", 63)] | None = Field(
        default=None, description="GitLab: the instance, which the cloud must reach; gitlab.com unless set."
    )
    repository: Annotated[
        str,
        matching(
            _REPOSITORY,
            "owner/name or owner@1/name@2 on GitHub, group/project or group/project@3 on GitLab, at most 75 characters",
            75,
        ),
    ] = Field(
        description="The repository whose workflows may log in, best with its numbers: owner@1/name@2, project@3."
    )
    environments: Annotated[list[Name], unique] = Field(
        min_length=1, max_length=8, description="The environments whose stacks are deployed to this account or project."
    )
    branch: Annotated[str, matching(_BRANCH, "the name of a branch, of at most 30 characters", 30)] = Field(
        default="main", description="The branch of deploys and nightly runs."
    )

    @field_validator("repository")
    @classmethod
    def _on_its_host(cls, value: str, info: ValidationInfo) -> str:
        on_github = info.data.get("provider") == "github"
        if on_github and not _GITHUB.fullmatch(value):
            raise ValueError("owner/name or owner@1/name@2 on GitHub; with provider: gitlab, group/project")
        if not on_github and not _GITLAB.fullmatch(value):
            raise ValueError("group/project or group/project@3, the project's own number alone, on GitLab")
        return value

    @field_validator("host")
    @classmethod
    def _of_gitlab(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value and info.data.get("provider") == "github":
            raise ValueError("no host for GitHub; only with provider: gitlab")
        return value

    @property
    def on_gitlab(self) -> bool:
        return self.provider == "gitlab"

    @property
    def path(self) -> str:
        """The repository without its numbers."""
        return re.sub(r"@\d+", "", self.repository)

    @property
    def numbers(self) -> list[str]:
        """On GitHub of the owner and of the repository, on GitLab of the project; empty where they are not given."""
        return re.findall(r"@(\d+)", self.repository)

    @property
    def issuer(self) -> str:
        """The issuer of tokens, without https://."""
        return (self.host or "gitlab.com") if self.on_gitlab else ISSUER

    @property
    def ref(self) -> str:
        """The branch, as tokens name it."""
        return self.branch if self.on_gitlab else f"refs/heads/{self.branch}"

    @property
    def preview_subjects(self) -> list[str]:
        """Subjects of runs for pull requests, and of runs of the branch outside an environment. GitLab's pipelines for
        merge requests have the subject of their branch, so every branch of the project reads."""
        if self.on_gitlab:
            return [f"{self._project}:ref_type:branch:ref:*"]
        return [f"repo:{self.repository}:pull_request", f"repo:{self.repository}:ref:{self.ref}"]

    def deploy_subject(self, environment: str) -> str:
        """Subject of a job that GitHub lets into an environment, after any required approval; of any branch, unless the
        environment is limited to some. GitLab's subject has a branch and no environment; with a number also whether
        the branch is protected."""
        if self.on_gitlab:
            protected = ":ref_protected:true" if self.numbers else ""
            return f"{self._project}:ref_type:branch:ref:{self.branch}{protected}"
        return f"repo:{self.repository}:environment:{environment}"

    @property
    def _project(self) -> str:
        """How GitLab's subjects begin. With a number, of a project whose `ci_id_token_sub_claim_components` are
        project_id, ref_type, ref and ref_protected."""
        return f"project_id:{self.numbers[0]}" if self.numbers else f"project_path:{self.path}"


class AwsCiModel(Ci):
    """CI's settings on AWS."""

    # They share an IAM policy, which has 6,144 characters.
    buckets: Annotated[
        list[Annotated[str, matching(_BUCKETS, "the name of a bucket, or its beginning and *, without s3://", 63)]],
        unique,
    ] = Field(
        default=[],
        max_length=10,
        description="Data buckets that stacks may be granted in addition to their stores.",
    )
