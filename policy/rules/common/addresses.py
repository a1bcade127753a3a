"""Addresses: which are outside, and who may have one that the world sees."""

import ipaddress
from collections.abc import Iterator
from typing import Any

from pulumi_policy import ResourceValidationArgs, StackValidationArgs

from .rule import parameter
from .settings import settings

FORBID = {
    "forbidPublic": {
        "type": "boolean",
        "default": False,
        "description": "Refuse public addresses even where the stack says egress: public.",
    }
}
"""The parameter of the rules on public addresses."""


def is_outside(block: Any) -> bool:
    """Whether an address range reaches beyond private networks. What is no range, such as a name, does not."""
    try:
        network = ipaddress.ip_network(str(block), strict=False)
    except ValueError:
        return False
    return not network.is_private or network.prefixlen == 0


def public_refused(args: ResourceValidationArgs | StackValidationArgs, where: str) -> Iterator[str]:
    """Yield why a resource may not give out public addresses, with the fix; nothing where it may.

    Args:
        args: what the rule was given; `forbidPublic` is its parameter.
        where: the property that gives them out and its value.
    """
    if parameter(args, "forbidPublic"):
        yield (
            f"{where}: machines would have public addresses, which the policy pack's config forbids here. "
            "Set tidemill:network to {create: {egress: nat}} or {create: {egress: endpoints}}."
        )
    elif settings().egress != "public":
        yield (
            f"{where}: machines would have public addresses, and the stack's egress is "
            f"{settings().egress or 'not set'}. Turn it off, or say tidemill:network {{create: {{egress: public}}}}."
        )
