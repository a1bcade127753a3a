"""Which resources of a stack belong to which other one."""

from collections.abc import Iterator, Sequence

from pulumi_policy import PolicyResource

from .values import look


def companions(
    resources: Sequence[PolicyResource], kind: str, key: str, owner: PolicyResource, identities: tuple[str, ...]
) -> list[PolicyResource]:
    """List the resources of a type whose property names an owner.

    Args:
        key: Their property that names the owner.
        identities: The owner's properties that a name may repeat, in case no dependency is recorded.
    """
    names = {name for identity in identities if isinstance(name := look(owner.props, identity), str)}

    def speaks(resource: PolicyResource) -> bool:
        if owner in resource.property_dependencies.get(key, []):
            return True
        named = look(resource.props, key)
        return isinstance(named, str) and named in names

    return [r for r in resources if r.resource_type == kind and speaks(r)]


def machines_without(resources: Sequence[PolicyResource], machines: Sequence[str], kind: str) -> Iterator[str]:
    """Yield the URN to name when a stack has resources of the types that start machines, and none of `kind`."""
    found = [r.urn for r in resources if r.resource_type in machines]
    if found and not any(r.resource_type == kind for r in resources):
        yield min(found)
