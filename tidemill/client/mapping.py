"""`pipeline.map`: a job that is read while it runs, and that ends when its reader stops early."""

from __future__ import annotations

import atexit
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from inspect import signature
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self
from weakref import WeakSet

from tidemill.client.job import Job
from tidemill.errors import CallerError, CloudError, JobEndedError, nearest
from tidemill.job import Item

if TYPE_CHECKING:
    from tidemill.client.frames import DataFrameLike


class Mapper:
    """The part of a `Pipeline` that takes Python functions."""

    submit: ClassVar[Callable[..., Job]]

    def map(
        self,
        function: Callable[..., Any] | str,
        items: str | Path | Iterable[str | Path | Item] | DataFrameLike,
        *,
        queue: str | None = None,
        name: str | None = None,
        code: str | Path | None = None,
        return_exceptions: bool = False,
        progress: bool | None = None,
        **settings: Any,
    ) -> Mapped:
        """Call a function once for each item, and yield what it returns in the order of the items.

        The job is sent at once; each value comes as soon as it and those before it are committed. The function is
        called with the item, or with those of `uri`, `input`, `output`, `output_uri`, `index` and `meta` that its
        parameters name. The folder of its module travels with the job; of an installed module nothing does.

        A value is JSON (tuples come back as lists), bytes or a NumPy array, of at most 64 MiB. The `pathlib.Path` of a
        file in the item's output folder comes back as its URI.

        When its reader stops early (a break, Ctrl-C, a failed item), a job without a name is cancelled. A job with a
        name goes on in a cloud, and pauses on this machine; the same call reads and continues it.

        Args:
            function: A function of a module, or `module:function`. Not of the program itself or of a notebook's cell,
                no lambda and no function made inside another: machines import it by its name.
            items: See `submit`.
            queue: See `submit`.
            name: See `submit`. With one, the same call (function's folder, items and settings) is the same job.
            code: The folder that travels with the job, in place of the function's own.
            return_exceptions: Yield the failure of an item in place of its value; otherwise the first one is raised.
            progress: Show how the job goes; by default in a notebook and on a terminal.
            settings: Others of `submit`, such as `memory_mib`, `attempts` or `max_usd`.

        Raises:
            CallerError: As `submit`, or a function that machines cannot import.
            ItemFailedError: An item failed; its cause is the traceback on the machine.
            JobEndedError: The job was cancelled, or its rest is lost.

        Example:
            >>> values = pipeline.map(os.path.basename, ["a/1.jpg", "a/2.jpg"], queue="cpu")
            >>> values.job.spec.function
            'posixpath:basename'
        """
        _check_settings(settings, signature(self.submit).parameters)
        if settings.get("longest_first"):
            fix = "Use `submit`, whose results say which item each is of."
            raise CallerError("longest_first changes the order of the values that `map` yields.", fix)
        from tidemill.client.shipped import shipped

        named, folder = (function, None) if isinstance(function, str) else shipped(function)
        code = code or folder
        job = self.submit(None, items, function=named, queue=queue, name=name, code=code, **settings)
        if "log" not in settings:
            # Nothing else is said of a job of functions; outcomes that may be stale are.
            for words in job.stale():
                print(words, file=sys.stderr)
        values = job.values(return_exceptions=return_exceptions, progress=progress)
        return Mapped(job, values, named=name is not None)


_OTHER_NAMES = {
    "memory": "memory_mib",
    "timeout": "timeout_seconds",
    "n_jobs": "max_parallel",
    "workers": "max_parallel",
}
"""What settings are called on the command line and in other libraries."""


def _check_settings(settings: Iterable[str], known: Iterable[str]) -> None:
    names = sorted({*known} - {"self", "command", "items", "function"})
    for name in settings:
        if name in names:
            continue
        near = f" Did you mean {_OTHER_NAMES[name]!r}?" if name in _OTHER_NAMES else nearest(name, names)
        raise CallerError(
            f"`map` has no setting {name!r}.{near}", f"It has: {', '.join(names)}.", what=name, allowed=", ".join(names)
        )


class Mapped(Iterator[Any]):
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


_open = WeakSet[Mapped]()
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
    """What becomes of a job whose values are no longer read."""
    if not named:
        if job.cancel("its values are no longer read"):
            print(f"{job.id} is cancelled; what is finished stays.", file=sys.stderr)
        job.pause()
    elif not job.pause() and not job.progress().finished:
        print(f"{job.id} goes on; `tidemill cancel {job.id}` ends it.", file=sys.stderr)
