"""A probe: one call of one identity, whether it is allowed, and why that is right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Thing:
    """The target of a call.

    Attributes:
        text: As docs/access.md calls it.
        name: Its ARN, or its full name in localcloud's form on GCP.
        context: Condition keys in lower case, on GCP attributes of the call.
        admits: AWS: its own policy allows everybody everything, as a role's trust policy can.
    """

    text: str
    name: str
    context: Mapping[str, str] = field(default_factory=dict)
    admits: bool = False


@dataclass(frozen=True)
class Probe:
    """A question and its answer.

    Attributes:
        who: The identity, as `tests.access.stacks` has it.
        action: An action of AWS, or a permission of GCP.
        on: What it is done to.
        may: Whether it is allowed.
        why: One sentence.
    """

    who: str
    action: str
    on: Thing
    may: bool
    why: str


def of(who: str, *answers: tuple[str, Thing, bool, str]) -> list[Probe]:
    """The probes of one identity."""
    return [Probe(who, *answer) for answer in answers]


def yes(action: str, on: Thing, why: str) -> tuple[str, Thing, bool, str]:
    """An action that is allowed."""
    return action, on, True, why


def no(action: str, on: Thing, why: str) -> tuple[str, Thing, bool, str]:
    """An action that is refused."""
    return action, on, False, why
