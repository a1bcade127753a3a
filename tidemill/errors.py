"""Errors that a caller sees, and the exit code of each.

A message is one line: what is wrong with which value, what is allowed, what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

VALUE_SHOWN = 80


def shown(value: object) -> str:
    """A value as an error shows it: its repr, cut to a length that stays readable."""
    text = repr(value)
    return text if len(text) <= VALUE_SHOWN else f"{text[: VALUE_SHOWN - 3]}..."


def nearest(word: str, known: Iterable[str]) -> str:
    """` Did you mean …?`, or nothing. Among three-letter words one letter is too much to guess."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.7)
    return f" Did you mean {close[0]!r}?" if close else ""


class TidemillError(Exception):
    """Base of every error that the command line prints without a traceback."""

    exit_code = 1


class CallerError(TidemillError):
    """The caller's mistake; exit code 2. One line: what is wrong with which value, what is allowed, what to do."""

    exit_code = 2

    @classmethod
    def about(cls, key: str, value: object, allowed: str, fix: str) -> CallerError:
        """An error about one value.

        Args:
            key: The key, option or argument that is wrong.
            value: What was given.
            allowed: What is allowed, as a phrase that follows "it must be".
            fix: What to do, as a sentence.
        """
        return cls(f"{key} is {shown(value)}; it must be {allowed}. {fix}")

    @classmethod
    def unknown(cls, kind: str, name: str, place: str, known: Iterable[str]) -> CallerError:
        """An error about a name that nothing has.

        Args:
            kind: What the name would be of, such as `queue`.
            name: What was given.
            place: Where it was looked for, such as `this pipeline`.
            known: The names that there are.
        """
        names = sorted(known)
        return cls(f"There is no {kind} {shown(name)} in {place}, which has: {', '.join(names)}.{nearest(name, names)}")


class CloudError(TidemillError):
    """The cloud refused or did not answer; exit code 3."""

    exit_code = 3

    def __init__(self, message: str, fix: str = "") -> None:
        self.fix = fix
        super().__init__(f"{message} {fix}".rstrip())


class StoreError(CloudError):
    """An object store refused or did not answer within its bounds."""


class StoreMissingError(StoreError):
    """The object is not there."""


class StoreDeniedError(StoreError):
    """The credentials in use may not do this."""


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
