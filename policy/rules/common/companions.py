"""Resources of a stack: the stack itself, and which of them belong to which other one."""

from collections.abc import Iterator, Sequence

from pulumi_policy import PolicyResource

from .values import UNKNOWN, items, look

STACK = "pulumi:pulumi:Stack"


def urn_of_stack(resources: Sequence[PolicyResource]) -> str:
    """The URN of a stack, for findings about no single resource; empty if the engine does not list it."""
    return next((r.urn for r in resources if r.resource_type == STACK), "")


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
        return not names.isdisjoint(named for named in items(look(resource.props, key)) if isinstance(named, str))

    return [r for r in resources if r.resource_type == kind and speaks(r)]


def machines_without(
    message: str, resources: Sequence[PolicyResource], machines: Sequence[str], kind: str, *recipients: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    """Yield a message when a stack has resources of the types that start machines, and none of `kind` that tells.

    Args:
        recipients: Paths in the properties of `kind`; one that holds something, known or not, tells people.
    """
    urns = [r.urn for r in resources if r.resource_type in machines]
    told = [look(r.props, *path) for r in resources if r.resource_type == kind for path in recipients]
    if urns and not any(one or one is UNKNOWN for one in told):
        yield message, min(urns)
