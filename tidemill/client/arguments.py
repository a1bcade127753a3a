"""Checks the kinds of a Python caller's arguments, and names a mistake before it is an error somewhere inside."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any

from tidemill.errors import CallerError
from tidemill.figures import long_seconds_of, mebibytes_of, seconds_of
from tidemill.request import JobRequest

_SIZE = "a size such as 512M or 2G, or a number of MiB"
_TIME = "a time such as 90s or 2h, or a number of seconds"


def texts(key: str, given: Any, allowed: str, fix: str) -> list[str]:
    """A list of texts.

    Raises:
        CallerError: It is another thing, such as a single text; or one of its members is.
    """
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise CallerError.about(key, given, allowed, fix)
    words = list(given)
    for place, word in enumerate(words):
        if not isinstance(word, str):
            raise CallerError.about(f"{key}[{place}]", word, "a text", f"Write {str(word)!r}.")
    return words


def mapping(key: str, given: Any) -> dict[str, Any]:
    """A dict, or an empty one for None.

    Raises:
        CallerError: It is another thing.
    """
    if given is not None and not isinstance(given, Mapping):
        raise CallerError.about(key, given, "a dict", "Write {name: value}.")
    return dict(given or {})


def in_units(request: JobRequest) -> JobRequest:
    """A request whose sizes and times are numbers, whichever way they were given.

    Raises:
        CallerError: One of them is no size or time, or is given twice.
    """
    numbers = {
        "memory_mib": memory_mib_of(request.memory, request.memory_mib),
        "memory_max_mib": memory_mib_of(request.memory_max, request.memory_max_mib, "memory_max"),
        "timeout_seconds": _number(
            "timeout", request.timeout, "timeout_seconds", request.timeout_seconds, seconds_of, _TIME
        ),
        "item_seconds": _number(
            "item_time", request.item_time, "item_seconds", request.item_seconds, seconds_of, _TIME
        ),
        "start_within_seconds": _number(
            "start_within",
            request.start_within,
            "start_within_seconds",
            request.start_within_seconds,
            seconds_of,
            _TIME,
        ),
    }
    read = dict.fromkeys(("memory", "memory_max", "timeout", "item_time", "start_within"))
    return replace(request, **read, **numbers)


def age(key: str, given: Any) -> Any:
    """A time in seconds since something was last used; None where none is given.

    Raises:
        CallerError: It is no time, or a text without a unit.
    """
    return _number(key, None, key, given, long_seconds_of, "a time such as 30d or 12h, or a number of seconds")


def memory_mib_of(memory: Any, memory_mib: Any, keyword: str = "memory") -> Any:
    """Memory in MiB, from `keyword` or the one with its unit, whichever is given; None where neither is.

    Raises:
        CallerError: It is no size, or both are given.
    """
    return _number(keyword, memory, f"{keyword}_mib", memory_mib, mebibytes_of, _SIZE)


def _number(  # noqa: PLR0917 two keywords for one thing
    short: str, given: Any, keyword: str, value: Any, read: Callable[[str], float | None], allowed: str
) -> Any:
    if given is not None and value is not None:
        raise CallerError(f"{short} and {keyword} are both given.", "Leave one of the two out.", what=short)
    name, text = (short, given) if given is not None else (keyword, value)
    number = read(text) if isinstance(text, str) else text
    if text is not None and (number is None or isinstance(number, bool) or not isinstance(number, (int, float))):
        raise CallerError.about(name, text, allowed, "Write a number, or a text with its unit.")
    return number


def indexes(given: Any, total: int) -> list[int]:
    """Indexes of a job's items, each once, in their order. NumPy's numbers become Python's.

    Raises:
        CallerError: It is another thing, or the job has no such item.
    """
    if isinstance(given, (str, bytes)) or not isinstance(given, Collection):
        raise CallerError.about("items", given, "a list of indexes", "Write [0, 1].")
    for item in given:
        if isinstance(item, bool) or not isinstance(item, Integral) or not 0 <= int(item) < total:
            raise CallerError.about("items", item, f"from 0 to {total - 1}", "Give indexes of the job's items.")
    return sorted({int(item) for item in given})


def folder_path(given: Any) -> Path:
    """A folder that a caller names.

    Raises:
        CallerError: It is no path.
    """
    if not isinstance(given, (str, Path)) or not str(given):
        raise CallerError.about("folder", given, "the path of a folder", 'Write "results".')
    return Path(given)
