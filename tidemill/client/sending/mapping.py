"""`pipeline.map`: a job that is read while it runs, and that ends when its reader stops early."""

from __future__ import annotations

import atexit
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Self
from weakref import WeakSet

from tidemill.client.job import Job
from tidemill.client.keywords import KEYWORDS, check_keywords
from tidemill.client.site import Site
from tidemill.errors import CallerError, CloudError, JobEndedError
from tidemill.figures import origins_words
from tidemill.request import JobRequest


def call_for_each(
    site: Site,
    function: Callable[..., Any] | str,
    items: Any,
    settings: dict[str, Any],
    *,
    return_exceptions: bool,
    progress: bool | None,
) -> MappedValues:
    """See `Pipeline.map`. `settings` are keywords of a request."""
    check_keywords("map", settings, KEYWORDS - {"command", "items", "function"})
    if function is None:  # a cell whose function was not kept: f = decorate(f)
        fix = "Give the function itself, or the name of one that machines can import."
        raise CallerError.about("function", function, "a function, or 'module:function'", fix)
    if settings.get("longest_first"):
        fix = "Use `submit`, whose results say which item each is of."
        raise CallerError("longest_first changes the order of the values that `map` yields.", fix)
    from tidemill.client.sending.submit import submitted

    request = JobRequest(None, items, function=function, **settings)
    job, difference = submitted(site, request)
    if "log" not in settings:
        # Of a job of functions, only outcomes that may be stale and another job than before need a remark.
        if difference:
            goes_on = f"pipeline.job({difference.job!r}).values()"
            print(difference.words(job.id, goes_on), file=sys.stderr)
        for words in job.stale():
            print(words, file=sys.stderr)
        if shared := job.spec.shared:
            print(f"{job.id}: {origins_words(shared.jobs, job.spec.items_total)}.", file=sys.stderr)
    values = job.values(return_exceptions=return_exceptions, progress=progress)
    return MappedValues(job, values, named=request.name is not None)


class MappedValues(Iterator[Any]):
    """The values of a job, in the order of its items. Made by `Pipeline.map`.

    Attributes:
        job: The job, which is sent when this is made.
    """

    def __init__(self, job: Job, values: Iterator[Any], *, named: bool) -> None:
        self.job, self._named = job, named
        self._values = _ending(job, values, named)
        self._begun = False
        _open.add(self)

    def __next__(self) -> Any:
        self._begun = True
        return next(self._values)

    def close(self) -> None:
        """Read no more. A job without a name is cancelled; one with a name can be read on by the same call."""
        if not self._begun:
            # A generator that has not begun runs none of its code when it is closed.
            self._begun = True
            with suppress(CloudError):
                _leave(self.job, self._named)
        self._values.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<values of {self.job!r}>"


_open = WeakSet[MappedValues]()
"""Those that a program may still hold when it ends."""


def _close_all() -> None:
    for mapped in list(_open):
        # Another thread is reading it.
        with suppress(ValueError):
            mapped.close()


# To end a job takes thread pools, which take no work any more when `atexit` calls.
getattr(threading, "_register_atexit", atexit.register)(_close_all)


def _ending(job: Job, values: Iterator[Any], named: bool) -> Generator[Any]:
    complete = False
    try:
        yield from values
        complete = True
    except JobEndedError:
        complete = True
        raise
    finally:
        if not complete:
            with suppress(CloudError):
                _leave(job, named)


def _leave(job: Job, named: bool) -> None:
    """Cancel a job whose values are no longer read, or leave a named one running."""
    if not named:
        if job.cancel("its values are no longer read"):
            print(f"{job.id} is cancelled; what is finished stays.", file=sys.stderr)
        job.pause()
    elif not job.pause() and not job.progress().finished:
        print(f"{job.id} goes on; `tidemill cancel {job.id}` ends it.", file=sys.stderr)
