"""Parses Google's answers about machines: pure functions of their JSON."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any

from tidemill.fleet import MachineFailure

from .decide import Machine, is_stockout

_ERRORS_SHOWN = 5
_FAILURES_A_CODE = 3
_CREATING = frozenset({"CREATING", "RECREATING", "CREATING_WITHOUT_RETRIES"})


@dataclass(frozen=True)
class Notes:
    """Reports of machines in the store: times by machine."""

    broken: Mapping[str, float] = field(default_factory=dict)
    """When they reported that they cannot run their worker."""
    alive: Mapping[str, float] = field(default_factory=dict)
    """When their worker last reported that it is alive."""


def iso(seconds: float) -> str:
    """RFC 3339 in UTC, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def epoch(text: str) -> float:
    """Epoch seconds of RFC 3339."""
    return datetime.fromisoformat(text).timestamp()


def error_at(error: Mapping[str, Any]) -> float:
    """When an error of a group occurred."""
    return epoch(error["timestamp"])


def failing_since(errors: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The first failed attempt to create each machine, by the machine's URL."""
    first: dict[str, float] = {}
    for error in errors:
        details = error.get("instanceActionDetails", {})
        if details.get("action") in _CREATING and details.get("instance"):
            name = _partial(details["instance"])
            first[name] = min(first.get(name, error_at(error)), error_at(error))
    return first


def _partial(url: str) -> str:
    """``zones/<zone>/instances/<name>``, a machine's name in a regional group."""
    return url[url.index("zones/") :]


def machine_of(listed: Mapping[str, Any], failing: Mapping[str, float], notes: Notes) -> Machine:
    """A machine of a group's list."""
    name = _partial(listed["instance"])
    short = name.rpartition("/")[2]
    return Machine(
        name=name,
        status=listed.get("instanceStatus", ""),
        action=listed.get("currentAction", "NONE"),
        stockout=any(is_stockout(error.get("code", "")) for error in _attempt(listed)),
        failing_since=failing.get(name),
        broken_at=notes.broken.get(short),
        alive_at=notes.alive.get(short),
    )


def _attempt(listed: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return listed.get("lastAttempt", {}).get("errors", {}).get("errors", [])


def failures_of(errors: Sequence[Mapping[str, Any]], now: float) -> list[MachineFailure]:
    """The newest errors of each code within an hour."""
    by_code: dict[str, list[MachineFailure]] = {}
    for entry in _lately(errors, now):
        error, machine = entry.get("error", {}), entry.get("instanceActionDetails", {}).get("instance", "")
        code, zone = error.get("code", "UNKNOWN"), re.search(r"zones/([^/]+)/", machine)
        some = by_code.setdefault(code, [])
        if len(some) < _FAILURES_A_CODE:
            message = error.get("message", "")[:300]
            some.append(MachineFailure(code, message, zone[1] if zone else "", iso(error_at(entry))))
    return [one for some in by_code.values() for one in some]


def _lately(errors: Sequence[Mapping[str, Any]], now: float) -> list[Mapping[str, Any]]:
    """Those of the last hour, the newest first."""
    return sorted((each for each in errors if now - error_at(each) <= 3600), key=error_at, reverse=True)


def texts_of(errors: Sequence[Mapping[str, Any]], listed: Sequence[Mapping[str, Any]], now: float) -> dict[str, str]:
    """Errors of the last hour: each text once with its code, the newest first."""
    failures = [each.get("error", {}) for each in _lately(errors, now)] + [
        error for each in listed for error in _attempt(each)
    ]
    codes = [(error.get("code", "UNKNOWN"), error.get("message", "")) for error in failures]
    return dict(islice({f"{code}: {text}"[:300]: code for code, text in codes}.items(), _ERRORS_SHOWN))
