"""The stack itself as a resource."""

from collections.abc import Sequence

from pulumi_policy import PolicyResource

STACK = "pulumi:pulumi:Stack"


def urn_of_stack(resources: Sequence[PolicyResource]) -> str:
    """The URN of a stack, for findings about no single resource; empty if the engine does not list it."""
    return next((r.urn for r in resources if r.resource_type == STACK), "")
