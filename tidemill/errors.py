"""Errors that a caller sees, with their fields and the exit code of each.

A message is one line: what is wrong with which value, what is allowed, what to do. This module is a leaf of the
standard library alone: components use it too.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

VALUE_SHOWN = 80


def shown(value: object) -> str:
    """A value as an error shows it: its repr, cut to a length that stays readable; its type where that has none."""
    try:
        text = repr(value)
    except Exception:  # whatever a class of the caller raises; int, for one of more digits than Python writes
        text = f"<{type(value).__name__}>"
    return text if len(text) <= VALUE_SHOWN else f"{text[: VALUE_SHOWN - 3]}..."


def closest(word: str, known: Iterable[str]) -> str | None:
    """The name that is probably meant, if any. Among three-letter words one letter is too much to guess."""
    return next(iter(difflib.get_close_matches(word, list(known), n=1, cutoff=0.7)), None)


def nearest(word: str, known: Iterable[str]) -> str:
    """` Did you mean …?`, or nothing."""
    close = closest(word, known)
    return "" if close is None else f" Did you mean {close!r}?"


def one_line(error: object) -> str:
    """A text without line breaks and without its full stop, to put into a sentence."""
    return " ".join(str(error).split()).rstrip(".:")


class TidemillError(Exception):
    """Base of every error that the command line prints without a traceback.

    Its fields are what `doctor`, `--json` and tests read; ``str()`` renders them for people.

    Args:
        problem: What is wrong, as a sentence.
        fix: What to do, as a sentence.
        what: The key, option, argument or thing that is wrong.
        value: What was given, as shown.
        allowed: What is allowed, as a phrase.
        command: One command that fixes the problem, or shows what must be fixed.
        owner: Whether the stack's owner runs that command.
    """

    exit_code = 1

    def __init__(
        self,
        problem: str,
        fix: str = "",
        *,
        what: str = "",
        value: str = "",
        allowed: str = "",
        command: str = "",
        owner: bool = False,
    ) -> None:
        super().__init__(*((problem, fix) if fix else (problem,)))
        self.problem = problem
        self.fix = fix
        self.what = what
        self.value = value
        self.allowed = allowed
        self.command = command
        self.owner = owner

    def __str__(self) -> str:
        fix = self.fix or (f"Run `{self.command}`." if self.command else "")
        return f"{self.problem} {fix}".rstrip()

    def to_json(self) -> dict[str, Any]:
        """Stable keys; null for a field that this error does not have."""
        fields = {name: getattr(self, name) or None for name in ("what", "value", "allowed", "fix", "command")}
        return {"message": str(self), **fields}


class CallerError(TidemillError):
    """The caller's mistake; exit code 2."""

    exit_code = 2

    @classmethod
    def about(cls, what: str, value: object, allowed: str, fix: str) -> CallerError:
        """An error about one value; `allowed` is a phrase that follows "it must be"."""
        problem = f"{what} is {shown(value)}; it must be {allowed}."
        return cls(problem, fix, what=what, value=shown(value), allowed=allowed)

    @classmethod
    def unknown(cls, kind: str, name: str, place: str, known: Iterable[str]) -> CallerError:
        """An error about a name that does not exist, such as a `queue` in `this pipeline`; `known` names do."""
        names = ", ".join(sorted(known))
        problem = f"There is no {kind} {shown(name)} in {place}, which has: {names}."
        return cls(problem, nearest(str(name), names.split(", ")).strip(), what=kind, value=shown(name), allowed=names)


class ObjectNameError(CallerError):
    """A listing has an object whose name cannot be read. It tells nothing of the other objects."""


class CloudError(TidemillError):
    """The cloud refused or did not answer; exit code 3. `code` is its own name of the refusal, as `AccessDenied`."""

    exit_code = 3
    denied = False
    """True if the login in use may not do it."""

    def __init__(self, problem: str, fix: str = "", *, code: str = "", **fields: Any) -> None:
        super().__init__(problem, fix, **fields)
        self.code = code


class ItemFailedError(TidemillError):
    """An item of a job failed. The traceback of a function is its cause (`__cause__`).

    Attributes:
        job: The job's id.
        index: The item's index.
        item: The item: a URI, a path or any text.
        reason: See `Outcome.reason`.
        traceback: The end of what it wrote to stderr, which for a function is its traceback.
    """

    def __init__(self, job: str, index: int, item: str, *, reason: str, traceback: str, command: str) -> None:
        lines = traceback.strip().splitlines()
        detail = f": {one_line(lines[-1])}" if lines else ""
        super().__init__(
            f"Item {index} of {job}, {shown(item)}, failed ({reason}){detail}.",
            command=command,
            what="item",
            value=item,
        )
        self.job, self.index, self.item, self.reason, self.traceback = job, index, item, reason, traceback

    def __reduce__(self) -> tuple[Any, ...]:
        fields = {"reason": self.reason, "traceback": self.traceback, "command": self.command}
        return partial(type(self), self.job, self.index, self.item, **fields), ()


class RemoteTraceback(Exception):  # noqa: N818 - what it says is no error of its own
    """A traceback of a function on a machine, as the cause of an `ItemFailedError`: people see both."""

    def __str__(self) -> str:
        return f"on the machine:\n{self.args[0]}"


class JobEndedError(TidemillError):
    """A job ended before each of its items had an outcome: it was cancelled, or the cloud lost what was left.

    Attributes:
        job: The job's id.
        state: `cancelled` or `lost`.
    """

    def __init__(self, job: str, state: str, note: str, command: str) -> None:
        detail = f": {one_line(note)}" if note else ""
        super().__init__(f"Not all items of {job} have an outcome, and it is {state}{detail}.", command=command)
        self.job, self.state, self.note = job, state, note

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.job, self.state, self.note, self.command)


class StoreError(CloudError):
    """An object store refused or did not answer within its bounds."""


class StoreMissingError(StoreError):
    """The object is not there."""


class StoreDeniedError(StoreError):
    """The credentials in use may not do this."""

    denied = True


class StoreUnavailableError(StoreError):
    """The store takes nothing more (its disk is full, it is over its quota), or does not answer at all: no item is to
    blame, and a later attempt may succeed."""


class FileChangedError(StoreError):
    """A file changed while it was sent: something still writes to it."""


class DamagedError(StoreError):
    """An object of a job does not hold what Tidemill writes there. Trying again is useless. It ends that job, never the
    worker."""


@contextmanager
def decoding(what: str) -> Iterator[None]:
    """Decode an object in this block: an error there says that the object is damaged.

    Args:
        what: Names the object for people, usually by its URI.

    Raises:
        DamagedError: Its bytes cannot be decoded.
    """
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedError(f"{what} is damaged: {type(error).__name__}: {error}.") from None
