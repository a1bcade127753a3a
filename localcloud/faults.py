"""What a test requests of a cloud, or what its figures are: calls that fail, and numbers that are made up."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any


class DropConnectionError(Exception):
    """Closes the client's connection without an answer."""


@dataclass
class Fault:
    """Failures that remain: they apply to calls whose `METHOD name` matches the expression."""

    match: re.Pattern[str]
    answer: str
    left: int
    hits: int = 0


class Faults:
    """The requested faults; `answers` are the words that a store knows."""

    def __init__(self, answers: Collection[str]) -> None:
        self._answers = answers
        self._lock = threading.Lock()
        self._faults: list[Fault] = []

    def control(self, wanted: dict[str, Any]) -> list[dict[str, Any]]:
        """Add a fault or end them all, and return what each has done.

        Args:
            wanted: `match` (regular expression, searched in `METHOD name`), `answer` (one of `answers`) and `times`
                (default 1); or `{"clear": true}`; or nothing.
        """
        with self._lock:
            if wanted.get("clear"):
                self._faults.clear()
            elif wanted:
                if wanted["answer"] not in self._answers:
                    raise ValueError(f"answer {wanted['answer']!r} is none of {', '.join(self._answers)}")
                fault = Fault(re.compile(wanted["match"]), wanted["answer"], int(wanted.get("times", 1)))
                self._faults.append(fault)
            return [
                {"match": f.match.pattern, "answer": f.answer, "left": f.left, "hits": f.hits} for f in self._faults
            ]

    def take(self, method: str, name: str) -> str | None:
        """Return the answer with which this call must fail, and count it; None for most calls."""
        with self._lock:
            found = next((f for f in self._faults if f.left and f.match.search(f"{method} {name}")), None)
            if found:
                found.left -= 1
                found.hits += 1
        return found.answer if found else None


def chance(*words: object) -> float:
    """A number from 0 to 1 that follows from some words."""
    return int.from_bytes(hashlib.sha256(repr(words).encode()).digest()[:4], "big") / 2**32
