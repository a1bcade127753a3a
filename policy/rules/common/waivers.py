"""Waivers: which rule a stack may violate, on which resource, why, and until when."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .settings import Settings

KEY = "tidemill:waivers"
UNWAIVABLE = "any-tidemill-waiver-"
_KEYS = {"rule", "resource", "reason", "until"}


@dataclass(frozen=True)
class Waiver:
    """One entry of ``tidemill:waivers``."""

    at: str
    """Where it is in the stack file."""
    rule: str
    reason: str
    until: datetime.date
    resource: str | None = None

    def covers(self, rule: str, urn: str) -> bool:
        return rule == self.rule and self.resource in (None, urn.rpartition("::")[2])

    def in_force(self, today: datetime.date) -> bool:
        """True if its last day is today or later."""
        return today <= self.until

    def __str__(self) -> str:
        of = f" for {self.resource}" if self.resource else ""
        return f"{self.at} ({self.rule}{of}, until {self.until})"


def today() -> datetime.date:
    """Today in UTC; waivers end by UTC days."""
    return datetime.datetime.now(datetime.UTC).date()


def read(settings: Settings) -> tuple[list[Waiver], list[str]]:
    """Read a stack's waivers: the valid ones, and what is wrong with the others."""
    given = settings.data(KEY)
    if given is None:
        missing = settings.text(KEY) is None
        return [], [] if missing else [f"{KEY} is not a list. Write [{{rule, reason, until}}]."]
    if not isinstance(given, list):
        return [], [f"{KEY} is not a list. Write [{{rule, reason, until}}]."]
    waivers, wrong = [], []
    for index, entry in enumerate(given):
        try:
            waivers.append(_one(f"{KEY}[{index}]", entry))
        except ValueError as error:
            wrong.append(f"{KEY}[{index}]: {error}. It waives nothing until you fix it.")
    return waivers, wrong


def _one(at: str, entry: Any) -> Waiver:
    if not isinstance(entry, Mapping) or set(entry) - _KEYS:
        raise ValueError("a waiver has the keys rule, reason, until and, to cover a single resource, resource")
    for key in ("rule", "reason", "until"):
        if not isinstance(entry.get(key), str) or not entry[key].strip():
            raise ValueError(f"{key} is missing")
    try:
        # The engine reads an unquoted day as a time and passes it in Go's format.
        until = datetime.date.fromisoformat(entry["until"].removesuffix(" 00:00:00 +0000 UTC"))
    except ValueError:
        raise ValueError(f"until is {entry['until']}, not a day such as 2027-01-31") from None
    return Waiver(at, entry["rule"], entry["reason"], until, entry.get("resource"))


def covering(waivers: Sequence[Waiver], rule: str, urn: str, day: datetime.date) -> Waiver | None:
    if rule.startswith(UNWAIVABLE):
        return None
    return next((waiver for waiver in waivers if waiver.covers(rule, urn) and waiver.in_force(day)), None)


used: set[Waiver] = set()
"""The waivers in force that covered a violation of the checked stack."""
