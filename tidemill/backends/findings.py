"""What a check of a pipeline found, and what to type when it is at fault."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from tidemill.errors import CallerError

UP = "pulumi up"
Verdict = Literal["ok", "warning", "fault", "unknown"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        check: `login`, `descriptor`, `store`, `queue cpu`, `image cpu/default`, `quota`, `fleet`.
        verdict: `warning`: works, but less than was asked for. `unknown`: it cannot be seen with this login.
        detail: What was found, in one line.
        command: One command that mends it, or that shows what must be mended; empty where nothing is wrong.
        owner: Whether the stack's owner types it.
    """

    check: str
    verdict: Verdict
    detail: str
    command: str = ""
    owner: bool = False

    def to_json(self) -> dict[str, Any]:
        """Stable keys."""
        return asdict(self)


def login_fault(error: CallerError) -> Finding:
    return Finding("login", "fault", str(error), error.command)


def access_command(uri: str) -> str:
    """What the stack's owner types to see how a person gets the right to submit."""
    return "pulumi stack output submitters" if uri.startswith("gs://") else "pulumi stack output submitter_policy_arn"
