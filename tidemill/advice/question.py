"""Questions to clouds about shapes, and their answers as one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields

from tidemill.advice.knowledge import Knowledge
from tidemill.advice.rank import Work, rank
from tidemill.advice.shapes import MachineShape, Need
from tidemill.advice.sources import LiveAnswer, Question

MOST_TYPES = 40
"""Types that a cloud is asked about, the cheapest of the table first: so many that its answer says something."""


def question_of(shapes: Sequence[MachineShape], need: Need, one_zone: bool) -> Question:
    """The question to a cloud about its shapes on Spot; there is at least one.

    It follows from the tables alone, not from what is known of own jobs or was said before: AWS limits how many
    different questions it scores in a day, and a repeated one must be the same.
    """
    spot = [shape for shape in shapes if shape.market == "spot"]
    ranked = rank(map(Knowledge().of, spot), Work(need.units))
    types = tuple(dict.fromkeys(row.facts.shape.type for row in ranked))[:MOST_TYPES]
    cpus = need.cpus or min(shape.cpus for shape in spot)
    return Question(tuple(dict.fromkeys(shape.region for shape in spot)), types, cpus, one_zone).normal


def joined(answers: Iterable[LiveAnswer]) -> LiveAnswer:
    """The answers of several clouds as one."""
    answers = list(answers)
    names = [field.name for field in fields(LiveAnswer)]
    return LiveAnswer(**{name: tuple(each for one in answers for each in getattr(one, name)) for name in names})
