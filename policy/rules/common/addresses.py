"""Addresses: which ones are public, and who may have one."""

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
    """True if an address range reaches beyond private networks. Anything else, such as a name, does not."""
    try:
        network = ipaddress.ip_network(str(block), strict=False)
    except ValueError:
        return False
    return network.is_global or network.prefixlen == 0


def public_refused(args: ResourceValidationArgs | StackValidationArgs, where: str) -> Iterator[str]:
    """Yield why a resource may not assign public addresses, with the fix; nothing if it may.

    Args:
        where: the property that assigns them and its value.
    """
    if parameter(args, "forbidPublic"):
        yield (
            f"{where}: machines would have public addresses, which the policy pack's config forbids here. "
            "Set tidemill:network to {create: {egress: nat}} or {create: {egress: endpoints}}."
        )
    elif settings().egress != "public":
        yield (
            f"{where}: machines would have public addresses, and the stack's egress is "
            f"{settings().egress or 'not set'}. Turn it off, or set tidemill:network {{create: {{egress: public}}}}."
        )
