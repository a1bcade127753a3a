"""Causes that a shelf tells."""

from collections.abc import Iterator

from tidemill.explain.cause_finding import CauseFinding
from tidemill.explain.causes import Cause
from tidemill.explain.facts import Facts
from toy_service.model import ToyFacts

CAUSES = (Cause("T1", "act", "no child plays", "the shelf", "call a child", page="toys.md"),)


def rules(facts: Facts, seen: ToyFacts) -> Iterator[CauseFinding]:
    if seen.waiting:
        yield CauseFinding("T1", f"{seen.waiting} chunks wait for a child")


def lost(facts: Facts, seen: ToyFacts) -> None:
    """A shelf does not tell."""
