"""Finds additions to a stack's resources by hand, which neither a refresh nor `up` sees.

The engine compares the properties that a program sets. A policy on a role, a rule of a security group or a binding that
another hand made is a resource of its own, in no state. These are asked of the cloud and compared with the state.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Addition:
    """Something of a stack's resource that is in the cloud and in no state."""

    resource: str
    """The logical name."""
    what: str
    """In words, with its name, but without its content."""


@dataclass(frozen=True)
class Resource:
    """A resource of the state."""

    type: str
    name: str
    values: Mapping[str, Any]
    """Its inputs, and over them what the cloud answered."""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """What the program gave. The cloud answers more: every policy of a role and every rule of a group."""


def exported(deployment: Mapping[str, Any]) -> list[Resource]:
    """The resources of an exported stack, as `pulumi stack export` prints it."""
    return [
        Resource(
            each["type"],
            each["urn"].rpartition("::")[2],
            {"id": each.get("id"), **(each.get("inputs") or {}), **(each.get("outputs") or {})},
            each.get("inputs") or {},
        )
        for each in (deployment.get("deployment") or {}).get("resources") or ()
    ]


def of(state: list[Resource], kind: str) -> Iterator[Resource]:
    return (each for each in state if each.type == kind)
