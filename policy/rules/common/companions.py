"""Which resources of a stack configure which other one."""

from collections.abc import Sequence

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
