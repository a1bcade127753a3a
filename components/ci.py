"""CI's identity to a cloud: the subjects of the tokens of GitHub's workflows and GitLab's pipelines.

Sources: https://docs.github.com/en/actions/reference/security/oidc,
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
_GITHUB = re.compile(r"[A-Za-z0-9-]{1,39}/[A-Za-z0-9._-]+")
_REPOSITORY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)+")
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
        str, matching(_REPOSITORY, "owner/name on GitHub, group/project on GitLab, of at most 75 characters", 75)
    ] = Field(description="The repository whose workflows may log in.")
    environments: Annotated[list[Name], unique] = Field(
        min_length=1, max_length=8, description="The environments whose stacks are deployed to this account or project."
    )
    branch: Annotated[str, matching(_BRANCH, "the name of a branch, of at most 30 characters", 30)] = Field(
        default="main", description="The branch of deploys and nightly runs."
    )

    @field_validator("repository")
    @classmethod
    def _on_its_host(cls, value: str, info: ValidationInfo) -> str:
        if info.data.get("provider") == "github" and not _GITHUB.fullmatch(value):
            raise ValueError("owner/name on GitHub; with provider: gitlab, group/project")
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
            return [f"project_path:{self.repository}:ref_type:branch:ref:*"]
        return [f"repo:{self.repository}:pull_request", f"repo:{self.repository}:ref:{self.ref}"]

    def deploy_subject(self, environment: str) -> str:
        """Subject of a job that GitHub lets into an environment, after any required approval; of any branch, unless the
        environment is limited to some. GitLab's subject has a branch and no environment."""
        if self.on_gitlab:
            return f"project_path:{self.repository}:ref_type:branch:ref:{self.branch}"
        return f"repo:{self.repository}:environment:{environment}"


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
