"""The time of a send in a template's texts: `{time:%Y/%m/%d}`, or `{time-1d:%Y/%m/%d}` for the day before."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from tidemill.errors import CallerError

_TIME = re.compile(r"\{time([^{}:]*)(?::([^{}]*))?\}")
_SHIFT = re.compile(r"([+-])(\d{1,4})([hd])")
_MISSPELT = re.compile(r"\{[^{}:]*:[^{}]*%[^{}]*\}")
_CODES = "YmdHMSjyGVu"
"""Format codes whose texts do not depend on a machine's language."""
_ALLOWED = "{time:FORMAT} or {time-1d:FORMAT}, with a format of " + ", ".join(f"%{code}" for code in _CODES)
_TIMED = ("items", "inputs", "output", "command", "env", "tags")
"""Settings whose texts may hold the time."""
_PLACES = ("items", "output")
"""Those in which braces with a format are a time that is misspelt, and not a text for the program."""
_FIX = "Write the time as in s3://raw/{time:%Y/%m/%d}/**.jpg."


def with_time(settings: Mapping[str, Any], time: datetime) -> dict[str, Any]:
    """Settings with a time put in, in the time's own zone.

    Raises:
        CallerError: A text names the time in a way that nobody can read.
    """
    return {key: _filled(key, value, time) if key in _TIMED else value for key, value in settings.items()}


def has_time(text: str) -> bool:
    return bool(_TIME.search(text))


def before_time(text: str) -> str:
    """The beginning of a text that is the same at any time."""
    found = _TIME.search(text)
    return text[: found.start()] if found else text


def _filled(key: str, value: Any, time: datetime) -> Any:
    if isinstance(value, str):
        if key in _PLACES and (other := _MISSPELT.search(_TIME.sub("", value))):
            raise CallerError.about(key, other[0], _ALLOWED, _FIX)
        return _TIME.sub(lambda found: _written(key, found, time), value)
    if isinstance(value, Mapping):
        return {name: _filled(f"{key}.{name}", each, time) for name, each in value.items()}
    return [_filled(key, each, time) for each in value] if isinstance(value, (list, tuple)) else value


def _written(key: str, found: re.Match[str], time: datetime) -> str:
    shift, form = found.groups()
    moved = _SHIFT.fullmatch(shift)
    codes = re.findall(r"%(.?)", form or "", re.DOTALL)
    if (shift and not moved) or not codes or any(code not in _CODES or not code for code in codes):
        raise CallerError.about(key, found[0], _ALLOWED, _FIX)
    return _moved(time, moved).strftime(form)


def _moved(time: datetime, shift: re.Match[str] | None) -> datetime:
    if shift is None:
        return time
    amount = int(shift[1] + shift[2])
    # A day is one of the calendar, which may have 23 or 25 hours.
    if shift[3] == "d":
        return time + timedelta(days=amount)
    return (time.astimezone(UTC) + timedelta(hours=amount)).astimezone(time.tzinfo)
