"""CI's identity to a cloud: the subjects of the GitHub workflows' tokens.

Source: https://docs.github.com/en/actions/reference/security/oidc
"""

import re
from typing import Annotated

from pydantic import Field

from .config.model import Model
from .config.types import Name, matching, unique

ISSUER = "token.actions.githubusercontent.com"

# Workload identity federation of Google takes subjects of at most 127 bytes:
# https://cloud.google.com/iam/docs/workload-identity-federation#mapping
_REPOSITORY = re.compile(r"[A-Za-z0-9-]{1,39}/[A-Za-z0-9._-]+")
_BRANCH = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")
_BUCKETS = re.compile(r"[a-z0-9][a-z0-9.-]+[a-z0-9*]")


class Ci(Model):
    """The repository whose workflows may log in, and the environments that they deploy."""

    repository: Annotated[str, matching(_REPOSITORY, "owner/name on GitHub, of at most 75 characters", 75)] = Field(
        description="The repository whose workflows may log in."
    )
    environments: Annotated[list[Name], unique] = Field(
        min_length=1, max_length=8, description="The environments whose stacks are deployed to this account or project."
    )
    branch: Annotated[str, matching(_BRANCH, "the name of a branch, of at most 30 characters", 30)] = Field(
        default="main", description="The branch of deploys and nightly runs."
    )

    @property
    def ref(self) -> str:
        """The branch, as tokens name it."""
        return f"refs/heads/{self.branch}"

    @property
    def preview_subjects(self) -> list[str]:
        """Subjects of runs for pull requests, and of runs of the branch outside an environment."""
        return [f"repo:{self.repository}:pull_request", f"repo:{self.repository}:ref:{self.ref}"]

    def deploy_subject(self, environment: str) -> str:
        """Subject of a job that GitHub lets into an environment, after any required approval; of any branch, unless the
        environment is limited to some."""
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
