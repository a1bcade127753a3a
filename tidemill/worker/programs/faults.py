"""The line between an item's fault and the worker's.

Whatever goes wrong in a step of an item (fetch, fill in, start, read, upload) is the outcome of that item: `item_step`
turns it into an `ItemError`, which both kinds of runners turn into a failed outcome. A store that takes nothing more,
or does not answer, is no item's fault: its `StoreUnavailableError` passes, and ends the worker. What is left is a
mistake of the worker's own.
"""

from __future__ import annotations

import errno
from concurrent.futures import CancelledError

from obstore.exceptions import BaseError

from tidemill import layout
from tidemill.errors import CallerError, StoreDeniedError, StoreError, StoreMissingError, StoreUnavailableError, shown
from tidemill.store import Store

ERROR_CHARACTERS = 4096
"""Length of an error in an outcome: an item's URI can be arbitrarily long."""
_WHAT_CHARACTERS = 1000
FAULTS = (
    OSError,
    ValueError,  # UnicodeError is one: a name that no system call takes, a URI that cannot be parsed
    RuntimeError,  # RecursionError is one
    MemoryError,
    ArithmeticError,
    CancelledError,  # a transfer that the end of the worker cancelled
    BaseError,  # an answer of obstore that `Store` has not translated
    StoreError,
    CallerError,
)
_FULL = (errno.ENOSPC, errno.EDQUOT)
_SHORT = (errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE)
"""A machine without memory, processes or descriptors: neither the item nor its program is to blame."""
_LASTING = frozenset(
    {
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.EACCES,
        errno.EPERM,
        errno.ENOEXEC,
        errno.ENXIO,
    }
)
"""Another attempt meets these again."""


class ItemError(Exception):
    """A step of an item failed, so the item fails, with an outcome's `reason`. `final`: another attempt is useless."""

    def __init__(self, reason: str, text: str, *, final: bool = False) -> None:
        super().__init__(text if len(text) <= ERROR_CHARACTERS else f"{text[: ERROR_CHARACTERS - 3]}...")
        self.reason, self.final = reason, final


class item_step:  # noqa: N801, used like a function; a generator costs twice as much
    """Run a step of an item: what it raises becomes an `ItemError` that says `what` could not be done.

    An error of a store is the item's only if the `job_store` answers, for a step that has one.
    """

    __slots__ = ("_job_store", "_reason", "_what")

    def __init__(self, reason: str, what: str, job_store: Store | None = None) -> None:
        self._reason, self._what, self._job_store = reason, what, job_store

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if type(error) is StoreError and self._job_store is not None:
            check_answers(self._job_store)
        if isinstance(error, FAULTS) and not isinstance(error, StoreUnavailableError):
            raise item_error(self._reason, self._what, error) from error


def check_answers(job_store: Store) -> None:
    """Raise `StoreUnavailableError` if a job store does not answer; a refusal is an answer."""
    try:
        job_store.size(layout.DESCRIPTOR)
    except StoreError as error:
        if type(error) is StoreError:
            raise StoreUnavailableError(f"the job store does not answer: {error}") from error


def item_error(reason: str, what: str, error: BaseException) -> ItemError:
    """The `ItemError` for a fault. A machine that has run out of something changes the reason to ``scratch`` or
    ``memory``."""
    number = error.errno if isinstance(error, OSError) else None
    what = what if len(what) <= _WHAT_CHARACTERS else f"{what[:_WHAT_CHARACTERS]}...{what[-40:]}"
    if number in _FULL:
        return ItemError("scratch", f"the scratch volume is full: {what}: {_said(error, what)}")
    if number in _SHORT or isinstance(error, MemoryError):
        return ItemError("memory", f"the machine is short of memory, processes or files: {what}: {_said(error, what)}")
    return ItemError(reason, f"{what}: {_said(error, what)}", final=_lasts(error, reason))


def _said(error: BaseException, what: str) -> str:
    """The text of an error in one line: without its number, and with a file's name unless that is known already."""
    if isinstance(error, OSError) and error.strerror:
        name = error.filename
        return error.strerror if name is None or str(name) in what else f"{error.strerror}: {shown(name)}"
    return str(error) or type(error).__name__


def _lasts(error: BaseException, reason: str) -> bool:
    """True if another attempt would fail in the same way."""
    if isinstance(error, (StoreMissingError, StoreDeniedError)):
        # A missing input stays missing. A refused write may have met a login that was being renewed.
        return reason == "input"
    if isinstance(error, OSError):
        return error.errno in _LASTING
    return isinstance(error, (CallerError, ValueError))
