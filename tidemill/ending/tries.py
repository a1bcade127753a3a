"""A few tries to reach a receiver, within a time that a worker can spare at its end."""

from __future__ import annotations

import time
from collections.abc import Callable

from tidemill.ending.gate import UntoldError

PAUSES = (1.0, 3.0, 10.0)
"""Seconds before each further try."""
TRY_SECONDS = 20.0
"""The limit of one try. A slow receiver may take a message long before it answers, and gets it again with each try."""
ENOUGH_SECONDS = 25.0
"""No further try is planned so long after the first: a receiver that hangs gets two of them."""


def persist(attempt: Callable[[], tuple[str, bool]]) -> None:
    """Try until a message was taken.

    Args:
        attempt: Says what went wrong, in words without any address, and whether that may pass; nothing went wrong
            where the words are empty.

    Raises:
        UntoldError: It was not.
    """
    began = time.monotonic()
    for pause in (*PAUSES, None):
        problem, passing = attempt()
        if not problem:
            return
        if pause is None or not passing or time.monotonic() - began > ENOUGH_SECONDS:
            raise UntoldError(problem)
        time.sleep(pause)


def passing(code: int) -> bool:
    """True if an HTTP status may change by itself within a moment."""
    return code >= 500 or code == 429
