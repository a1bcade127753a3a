"""What somebody added to a stack's resources by hand, which neither a refresh nor `up` sees.

The engine compares the properties that a program sets. A policy on a role, a rule of a security group or a binding that
another hand made is a resource of its own, in no state. These are asked of the cloud and compared with the state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Addition:
    """Something of a stack's resource that is in the cloud and in no state."""

    resource: str
    """The logical name."""
    what: str
    """In words, with its name, but without its content."""


@dataclass(frozen=True)
class Known:
    """A resource of the state."""

    type: str
    name: str
    values: Mapping[str, Any]
    """Its inputs, and over them what the cloud answered."""


def exported(deployment: Mapping[str, Any]) -> list[Known]:
    """The resources of an exported stack, as `pulumi stack export` prints it."""
    return [
        Known(
            each["type"],
            each["urn"].rpartition("::")[2],
            {"id": each.get("id"), **(each.get("inputs") or {}), **(each.get("outputs") or {})},
        )
        for each in (deployment.get("deployment") or {}).get("resources") or ()
    ]


def of(found: list[Known], kind: str) -> Iterator[Known]:
    """The resources of a type."""
    return (each for each in found if each.type == kind)
