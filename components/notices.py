"""The messages that people on call read: how severe it is, what happens, when it is over, whose it is, what to type."""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["high", "medium", "low"]
"""High: work is lost or stands still, look now. Medium: look today. Low: money or patience, look this week."""


@dataclass(frozen=True)
class Notice:
    """A message.

    Attributes:
        severity: How soon somebody should look.
        what: What happens, as a sentence.
        over: When the notice of recovery comes, after "Over when"; empty where there is none.
        command: What to type next, as a sentence.
    """

    severity: Severity
    what: str
    over: str
    command: str

    def text(self, owner: str) -> str:
        """The message for the owner's people."""
        over = f" Over when {self.over}." if self.over else ""
        return f"{self.severity.upper()}: {self.what}{over} Owner: {owner}. Next: {self.command}"
