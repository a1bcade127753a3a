"""A check: one thing that localcloud cannot tell."""

from collections.abc import Callable
from dataclasses import dataclass

from components.rooms import CLOUDS
from ops.first_account.account import Account


@dataclass(frozen=True)
class Check:
    """One thing that localcloud cannot tell.

    Attributes:
        clouds: Where it is asked.
        name: What is asked.
        command: What to type, with $STACK, $QUEUE and names from `pulumi stack output`.
        expect: The answer that the design counts on.
        otherwise: What to change when the answer differs.
        probe: Asks it and returns what was seen; None for what a hand has to do.
    """

    clouds: tuple[str, ...]
    name: str
    command: str
    expect: str
    otherwise: str
    probe: Callable[[Account], str] | None = None


BOTH: tuple[str, ...] = CLOUDS
AWS, GCP = ((cloud,) for cloud in CLOUDS)
