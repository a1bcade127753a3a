"""The answer to why a job does not progress, as users see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tidemill.explain.causes import Kind


@dataclass(frozen=True)
class Unseen:
    """Something that this login may not see, or that did not answer.

    Attributes:
        what: The permission that the look needs: `batch:GetJobQueueSnapshot`.
        reason: The refusal, in one line.
        command: What its owner types to allow it; empty when the call failed for another reason.
    """

    what: str
    reason: str
    command: str = ""


@dataclass(frozen=True)
class Reason:
    """A cause that holds for a job.

    Attributes:
        code: Stable; docs/explain.md has all of them.
        kind: `well`, `turn` (no action is needed), `act`, or `never` (as it stands, it cannot run).
        title: The cause in a few words.
        text: What it is about this job. The cloud's own words come last.
        since: Since when, in seconds since the epoch; null when that is unknown.
        evidence: Further facts.
        do: What to do; empty when nothing has to be done.
        owner: Whether the stack's owner does it.
        docs: Where our documents describe it.
    """

    code: str
    kind: Kind
    title: str
    text: str
    since: float | None
    evidence: Sequence[str]
    do: str
    owner: bool
    docs: str

    @property
    def line(self) -> str:
        """One line: class, code, text."""
        return f"{self.kind} ({self.code}): {self.text}"


@dataclass(frozen=True)
class Explanation:
    """Why a job does not progress, or that it does.

    Attributes:
        job: Its id.
        kind: The class of the first cause.
        causes: The causes that hold, the headline first.
        unknown: What could not be seen.
    """

    job: str
    kind: Kind
    causes: Sequence[Reason]
    unknown: Sequence[Unseen] = field(default_factory=list)

    @property
    def headline(self) -> Reason:
        return self.causes[0]

    @property
    def exit_code(self) -> int:
        """1 when somebody must act."""
        return 1 if self.kind in ("act", "never") else 0

    def to_json(self) -> dict[str, Any]:
        """Stable keys."""
        return asdict(self)
