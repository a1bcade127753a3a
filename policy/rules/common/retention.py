"""Log retention: explicit, and no longer than the pack's config allows."""

from collections.abc import Iterator
from typing import Any

from pulumi_policy import ResourceValidationArgs

from tidemill.planned_fleet import whole

from .rule import parameter
from .values import UNKNOWN, look


def parameters(longest: int) -> dict[str, dict[str, Any]]:
    """The rule's parameter; `longest` is the cloud's maximum, in days."""
    return {
        "maxDays": {
            "type": "integer",
            "minimum": 1,
            "maximum": longest,
            "default": longest,
            "description": "Maximum number of days to keep log lines.",
        }
    }


def violations(args: ResourceValidationArgs, key: str, unset: str) -> Iterator[str]:
    """Yield what is wrong with a retention, with its fix.

    Args:
        key: its property, in days.
        unset: the consequence if it is 0 or not set.
    """
    given, most = look(args.props, key), parameter(args, "maxDays")
    if given is UNKNOWN:
        return
    days = whole(given)
    if not days:
        yield f"{key} is {'0' if days == 0 else 'not set'}: {unset}. Set it."
    elif days > most:
        yield f"{key} is {days}: lines may be kept for {most} days at most. Lower it."
