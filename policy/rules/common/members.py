"""Grants on GCP: who gets which role, whatever the resource, and what a role allows."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pulumi_policy import PolicyResource, ResourceValidationArgs

from .kinds import CUSTOM_ROLE, GRANTS
from .rule import is_of
from .values import items, look


class Grant(NamedTuple):
    """A role and its known members."""

    resource: PolicyResource | ResourceValidationArgs
    role: Any
    members: list[str]


def grants_of(resource: PolicyResource | ResourceValidationArgs) -> Iterator[Grant]:
    """The grants of a resource: one of a member or a binding, many of a whole policy."""
    policy = look(resource.props, "policyData")
    bindings = items(look(_parsed(policy), "bindings")) if policy is not None else [resource.props]
    for one in bindings:
        members = [*items(look(one, "member")), *items(look(one, "members"))]
        yield Grant(resource, look(one, "role"), [member for member in members if isinstance(member, str)])


def _parsed(policy: Any) -> Any:
    try:
        return json.loads(policy) if isinstance(policy, str) else policy
    except ValueError:
        return None  # the provider refuses it


def grants(resources: Sequence[PolicyResource]) -> list[Grant]:
    return [grant for r in resources if is_of(r.resource_type, GRANTS) for grant in grants_of(r)]


def is_granted_to(grant: Grant, account: PolicyResource | None, address: Any) -> bool:
    """True if a grant is to a service account, by its address or, while that is unknown, by the output's source."""
    if isinstance(address, str) and f"serviceAccount:{address}" in grant.members:
        return True
    sources = [source for key in ("member", "members") for source in _sources(grant, key)]
    return account is not None and account in sources


def permissions(resources: Sequence[PolicyResource], grant: Grant) -> Iterator[str]:
    """The permissions of a grant's custom role, as far as the stack makes it."""
    sources = _sources(grant, "role")
    for custom in (r for r in resources if r.resource_type == CUSTOM_ROLE):
        by_name = isinstance(grant.role, str) and grant.role in {look(custom.props, key) for key in ("name", "id")}
        if by_name or custom in sources:
            yield from (p for p in items(look(custom.props, "permissions")) if isinstance(p, str))


def _sources(grant: Grant, key: str) -> list[PolicyResource]:
    made = grant.resource
    return made.property_dependencies.get(key, []) if isinstance(made, PolicyResource) else []
