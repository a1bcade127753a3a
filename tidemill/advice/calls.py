"""Makes several calls to a cloud side by side, within a time limit; each has a reply or a gap."""

from __future__ import annotations

import datetime
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidemill.advice.cache import Cache
from tidemill.advice.sources import Gap, NoAnswerError, ThrottledError
from tidemill.errors import CallerError, CloudError, one_line

SECONDS = 10.0
"""How long all calls of a question together may take."""
OLD_SECONDS = 86_400.0
"""How old an answer may be that is shown because the cloud gives no new one."""


@dataclass(frozen=True)
class Call:
    """One thing to ask.

    Attributes:
        source: Its name for people: the permission that it needs.
        region: Where.
        key: What decides its answer, as JSON; equal ones share an answer.
        fresh: For how many seconds an answer is as good as new.
        fetch: Asks. What it returns is JSON. It raises CloudError.
    """

    source: str
    region: str
    key: object
    fresh: float
    fetch: Callable[[], Any]


@dataclass(frozen=True)
class Reply:
    """Result of a call: data with its time, or a gap, or both where the data is old."""

    call: Call
    data: Any = None
    at: datetime.datetime | None = None
    gap: Gap | None = None


def ask_all(calls: Sequence[Call], cache: Cache, seconds: float = SECONDS) -> list[Reply]:
    """Ask everything at once. Replies are in the order of the calls.

    Raises:
        CallerError: Nothing can be asked: a library is missing.
    """
    replies: dict[int, Reply] = {}
    told: queue.SimpleQueue[tuple[int, Any, Exception | None]] = queue.SimpleQueue()
    for number, call in enumerate(calls):
        if kept := cache.find(_key(call), call.fresh):
            replies[number] = Reply(call, kept[1], _utc(kept[0]))
        else:
            # A daemon: a cloud that never answers does not keep the program from ending.
            threading.Thread(target=_fetch, args=(number, call, told), name=call.source, daemon=True).start()
    end = time.monotonic() + seconds
    while len(replies) < len(calls):
        try:
            number, data, error = told.get(timeout=max(0.0, end - time.monotonic()))
        except queue.Empty:
            break
        call = calls[number]
        if isinstance(error, CallerError):
            raise error
        replies[number] = (
            _failed(call, error, cache) if error else Reply(call, data, _utc(cache.keep(_key(call), data)))
        )
    for number, call in enumerate(calls):
        if number not in replies:
            late = NoAnswerError(f"{call.source}: no answer within {seconds:g} s.", "Try again later.")
            replies[number] = _failed(call, late, cache)
    return [replies[number] for number in range(len(calls))]


def distinct(gaps: Iterable[Gap]) -> tuple[Gap, ...]:
    """Gaps with the same reason as one: the first of them, about all regions if they are in several."""
    by_source: dict[tuple[str, str], list[Gap]] = {}
    for gap in gaps:
        reason = gap.error.problem.replace(gap.region, "") if gap.region else gap.error.problem
        by_source.setdefault((gap.source, reason), []).append(gap)
    return tuple(
        replace(same[0], region=same[0].region if len({each.region for each in same}) == 1 else "")
        for same in by_source.values()
    )


def _fetch(number: int, call: Call, told: queue.SimpleQueue[tuple[int, Any, Exception | None]]) -> None:
    try:
        told.put((number, call.fetch(), None))
    except Exception as error:
        told.put((number, None, error))


def _failed(call: Call, error: Exception, cache: Cache) -> Reply:
    if not isinstance(error, CloudError):
        problem = f"{call.source}: the answer cannot be read ({type(error).__name__}: {one_line(error)})."
        error = NoAnswerError(problem, "Ask again; if it stays so, report it.")
    # Old data does not replace a refusal on purpose.
    old = cache.find(_key(call), OLD_SECONDS) if isinstance(error, (ThrottledError, NoAnswerError)) else None
    at = _utc(old[0]) if old else None
    return Reply(call, old[1] if old else None, at, Gap(call.source, call.region, error, at))


def _key(call: Call) -> object:
    return [call.source, call.region, call.key]


def _utc(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)
