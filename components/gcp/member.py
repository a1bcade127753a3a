"""Members of grants, and names that Compute Engine and IAM accept."""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import pulumi

_Grant = TypeVar("_Grant", bound=pulumi.Resource)

_LONGEST_ACCOUNT = 30
"""Source: https://cloud.google.com/iam/docs/service-accounts-create"""


@dataclass(frozen=True)
class Member:
    """A principal of IAM, with the name that its grants' resources contain."""

    name: str
    """Stable and suitable for a resource's name: `worker`."""
    principal: pulumi.Input[str]
    """As IAM writes it: `serviceAccount:...`, `user:...`, `group:...`."""


def person(principal: str) -> Member:
    """A member from a principal in a stack file, such as ``group:vision@example.com``.

    Two principals that differ only in punctuation get different names.
    """
    plain = re.sub(r"[^a-z0-9]+", "-", principal.lower()).strip("-")
    return Member(f"{plain[:40].rstrip('-')}-{_short(principal)}", principal)


def grant(
    component: pulumi.Resource, kind: Callable[..., _Grant], what: str, member: Member, role: str, **on: Any
) -> _Grant:
    """A grant of a role, child of the granting component; its name says what and to whom.

    Args:
        kind: the resource class, such as ``gcp.storage.BucketIAMMember``.
        on: the class's own arguments: the resource that the role is on, and the condition.
    """
    name = f"{component.pulumi_resource_name}-{what}-{member.name}"
    return kind(name, role=role, member=member.principal, opts=pulumi.ResourceOptions(parent=component), **on)


def account_id(name: str, suffix: str) -> str:
    """The id of a service account, which is never named automatically: 6 to 30 characters, ``vision-dev-worker``.

    A longer name is cut and ends with a few digits of its hash, so that two pipelines of a project never share one.
    """
    whole = f"{name}-{suffix}"
    if len(whole) <= _LONGEST_ACCOUNT:
        return whole
    kept = name[: _LONGEST_ACCOUNT - len(suffix) - 6].rstrip("-")
    return f"{kept}-{_short(name)}-{suffix}"


def role_id(name: str, suffix: str) -> str:
    """The id of a custom role, which allows no hyphens: ``vision_dev_submitter``.

    Source: https://cloud.google.com/iam/docs/creating-custom-roles
    """
    return f"{name}-{suffix}".replace("-", "_")[:64]


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:4]
