"""The stack itself as a resource."""

from collections.abc import Sequence

from pulumi_policy import PolicyResource

STACK = "pulumi:pulumi:Stack"


def urn_of_stack(resources: Sequence[PolicyResource]) -> str:
    """The URN of a stack, for what is said of no resource in particular; empty where the engine does not list it."""
    return next((r.urn for r in resources if r.resource_type == STACK), "")
