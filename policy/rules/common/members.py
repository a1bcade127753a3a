"""Grants on GCP: who gets which role, whatever the resource, and what a role allows."""

from collections.abc import Iterator, Sequence
from typing import Any

from pulumi_policy import PolicyResource, ResourceValidationArgs

from .kinds import CUSTOM_ROLE, GRANTS
from .rule import is_of
from .values import items, look


def members(resource: PolicyResource | ResourceValidationArgs) -> list[str]:
    """The known members of a grant."""
    found = [*items(look(resource.props, "member")), *items(look(resource.props, "members"))]
    return [member for member in found if isinstance(member, str)]


def role(resource: PolicyResource | ResourceValidationArgs) -> Any:
    """The role of a grant."""
    return look(resource.props, "role")


def grants(resources: Sequence[PolicyResource]) -> list[PolicyResource]:
    """Every grant of a stack."""
    return [r for r in resources if is_of(r.resource_type, GRANTS)]


def is_granted_to(grant: PolicyResource, account: PolicyResource | None, address: Any) -> bool:
    """Whether a grant is to a service account, by its address or, while that is unknown, by the output's source."""
    if isinstance(address, str) and f"serviceAccount:{address}" in members(grant):
        return True
    sources = [source for key in ("member", "members") for source in grant.property_dependencies.get(key, [])]
    return account is not None and account in sources


def permissions(resources: Sequence[PolicyResource], grant: PolicyResource) -> Iterator[str]:
    """The permissions of a grant's custom role, as far as the stack makes it."""
    named = role(grant)
    sources = grant.property_dependencies.get("role", [])
    for custom in (r for r in resources if r.resource_type == CUSTOM_ROLE):
        by_name = isinstance(named, str) and named in {look(custom.props, key) for key in ("name", "id")} - {None}
        if by_name or custom in sources:
            yield from (p for p in items(look(custom.props, "permissions")) if isinstance(p, str))
