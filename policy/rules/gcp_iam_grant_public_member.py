"""No grant is to everybody or to every identity of a workload identity pool.

Source: https://cloud.google.com/iam/docs/principal-identifiers
"""

from collections.abc import Iterator
from typing import Any

from .common.kinds import ACCESS_LISTS, GRANTS
from .common.members import grants_of
from .common.rule import CRITICAL, Resource, Violations, is_of, resource_rule
from .common.values import items, look

EVERYBODY = ("allUsers", "allAuthenticatedUsers")


PREDEFINED = {
    "publicRead": "allUsers", "publicReadWrite": "allUsers", "authenticatedRead": "allAuthenticatedUsers",
}  # fmt: skip
"""Whom an access list of Cloud Storage's own admits."""


@resource_rule("No grant is to everybody.", CRITICAL, *GRANTS, *ACCESS_LISTS)
def violations(args: Resource) -> Violations:
    listed = list(_listed(args)) if is_of(args.resource_type, ACCESS_LISTS) else []
    for role, member in [*((grant.role, member) for grant in grants_of(args) for member in grant.members), *listed]:
        if member in EVERYBODY:
            yield f"{member} would get {role or 'a role'}. Name users, groups or service accounts."
        elif member.startswith("principalSet:") and member.endswith("/*"):
            yield (
                f"{member} would get {role or 'a role'}: every identity of the pool. Name an attribute of the "
                "repository or the environment."
            )


def _listed(args: Resource) -> Iterator[tuple[Any, str]]:
    """The roles and entities of an access list."""
    predefined = look(args.props, "predefinedAcl")
    if isinstance(predefined, str) and predefined in PREDEFINED:
        yield predefined, PREDEFINED[predefined]
    for entry in items(look(args.props, "roleEntities")):
        role, _, entity = str(entry).partition(":")
        yield role, entity
    for key in ("entity", "iamMember", "specialGroup"):
        yield look(args.props, "role"), str(look(args.props, key))
