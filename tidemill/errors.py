"""Errors that a caller sees, and the exit code of each.

A message is one line: which key, its value, what is allowed, what to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

VALUE_SHOWN = 80


def shown(value: object) -> str:
    """A value as an error shows it: its repr, cut to a length that stays readable."""
    text = repr(value)
    return text if len(text) <= VALUE_SHOWN else f"{text[: VALUE_SHOWN - 3]}..."


class TidemillError(Exception):
    """Base of every error that the command line prints without a traceback."""

    exit_code = 1


class CallerError(TidemillError):
    """The caller's mistake; exit code 2. One line: which key, its value, what is allowed, what to do."""

    exit_code = 2

    @classmethod
    def about(cls, key: str, value: object, allowed: str, fix: str) -> CallerError:
        """An error about one value.

        Args:
            key: The key, option or argument that is wrong.
            value: What was given.
            allowed: What is allowed, as a phrase.
            fix: What to do, as a sentence.
        """
        return cls(f"{key} is {shown(value)}, which is not allowed; allowed: {allowed}. {fix}")


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
