"""A cause that holds, in words about one job: the result of a rule."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.explain.causes import Kind


@dataclass(frozen=True)
class CauseFinding:
    """A cause that holds.

    Attributes:
        code: Of the table.
        text: What it is about this job, in one line; the cloud's own words come last.
        since: Since when, in seconds since the epoch; None when that is unknown.
        evidence: Further facts, a line each.
        do: A command or a sentence, where this job needs another one than the table has.
        owner: Whether the stack's owner does it, where that differs from the table.
        kind: Its class, where it is milder than the table's.
        sure: Whether it counts at once, although the table says that such a cause may pass.
    """

    code: str
    text: str
    since: float | None = None
    evidence: tuple[str, ...] = ()
    do: str = ""
    owner: bool | None = None
    kind: Kind | None = None
    sure: bool = False


def said(who: str, words: str) -> str:
    """The cloud's own words, to follow ours: ` (Batch says: …)`."""
    plain = " ".join(words.split())
    return f" ({who} says: {plain})" if plain else ""
