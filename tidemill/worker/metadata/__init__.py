"""Reads a machine's own metadata: that it is being taken back, and who it is. One module per cloud."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Notice:
    """A notice that the machine is being taken back."""

    seconds_left: float | None
    """About when the machine goes; None when it does not say, or says what cannot be."""

    def until_not_placeable(self, at_most: float) -> float:
        """Seconds from the notice until its host is given no more work: an eighth of what was left (15 s of two
        minutes), because a notice that comes late leaves less to everybody."""
        return at_most if self.seconds_left is None else min(at_most, self.seconds_left / 8)


class Metadata(Protocol):
    """A machine's metadata."""

    def notice(self) -> Notice | None:
        """The notice that the machine is being taken back, or None. It may wait for one, within bounds.

        Raises:
            OSError: No answer.
        """
        ...

    def at_risk(self) -> bool:
        """True if a notice has become more likely than usual. Called often; it costs next to nothing.

        Raises:
            OSError: No answer.
        """
        ...
