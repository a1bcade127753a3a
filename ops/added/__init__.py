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


def states(document: Mapping[str, Any]) -> list[Known]:
    """The resources that a preview document found in the state; those that it would create are not there yet."""
    found = []
    for step in (document["preview"] or {}).get("steps", ()):
        state = step.get("oldState") or (step.get("newState") if step["op"] in ("same", "refresh") else None)
        if state:
            kind, name = step["urn"].split("::")[2].rpartition("$")[2], step["urn"].rpartition("::")[2]
            found.append(Known(kind, name, {"id": state.get("id"), **_values(state)}))
    return list({(each.type, each.name): each for each in found}.values())


def exported(deployment: Mapping[str, Any]) -> list[Known]:
    """The resources of an exported stack, as `pulumi stack export` prints it."""
    return [
        Known(each["type"], each["urn"].rpartition("::")[2], {"id": each.get("id"), **_values(each)})
        for each in (deployment.get("deployment") or {}).get("resources") or ()
    ]


def _values(state: Mapping[str, Any]) -> dict[str, Any]:
    return {**(state.get("inputs") or {}), **(state.get("outputs") or {})}


def of(found: list[Known], kind: str) -> Iterator[Known]:
    """The resources of a type."""
    return (each for each in found if each.type == kind)
