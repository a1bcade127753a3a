"""Reads a resource's properties when a preview does not know all of them yet.

pulumi-policy raises ``UnknownValueError`` on access, which skips the whole rule with a remark. The rules judge what is
known, so they read through ``look`` and get ``UNKNOWN`` instead.
"""

from collections.abc import Mapping
from typing import Any, Final

from pulumi_policy.proxy import UnknownValueError


class _Unknown:
    """A value that only ``up`` will know. It is neither present nor absent, so it is falsy and equals nothing else."""

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()


def look(value: Any, *path: str | int) -> Any:
    """Follow keys and indices into nested properties.

    Args:
        value: A mapping or a sequence of provider inputs (camelCase keys).
        path: The keys and indices to follow.

    Returns:
        The value; ``None`` if a step of the path is absent, ``UNKNOWN`` if one is not known at preview.
    """
    for step in path:
        if value is None or value is UNKNOWN:
            return value
        try:
            value = value[step]
        except UnknownValueError:
            return UNKNOWN
        except (KeyError, IndexError, TypeError):
            return None
    return value


def items(value: Any) -> list[Any]:
    """List what a property holds; a single value counts as a list of one, unknown elements stay ``UNKNOWN``."""
    if value is None or value is UNKNOWN:
        return []
    if isinstance(value, str | Mapping) or not hasattr(value, "__len__"):
        return [value]
    return [look(value, index) for index in range(len(value))]


def flag(value: Any) -> Any:
    """A switch, which a program may give as the text `true` or `false`; anything else stays."""
    return {"true": True, "false": False}.get(value.lower(), value) if isinstance(value, str) else value


def plain(value: Any) -> Any:
    """A property as plain maps and lists, ``UNKNOWN`` where only `up` will know."""
    if isinstance(value, Mapping):
        return {key: plain(look(value, key)) for key in value}
    return value if isinstance(value, str) or not hasattr(value, "__len__") else [plain(one) for one in items(value)]
