"""The cloud's clock, as its answers tell it: laptops' clocks are wrong."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from email.utils import parsedate_to_datetime

from tidemill.errors import CloudError

_ROUNDED_SECONDS = 1.5
"""The header has whole seconds, rounded down."""


class CloudClock:
    """How far this machine's clock is from the one of the last answer."""

    def __init__(self) -> None:
        self._offset = 0.0
        self._asked = False
        """True if an answer has told the time, or a request for it was made."""

    def now(self, ask: Callable[[], object] | None = None) -> float:
        """Seconds since the epoch. Most looks at a job read nothing but the store, whose answers do not tell it: `ask`
        makes a call for the time that its answer tells, which may be a refusal, if there was none before."""
        if ask is not None and not self._asked:
            self._asked = True
            with suppress(CloudError):
                ask()
        return time.time() + self._offset

    def heard(self, date: str | None) -> None:
        """An answer has come, with this `Date` header."""
        try:
            stamp = parsedate_to_datetime(date).timestamp() if date else None
        except ValueError:
            return
        if stamp is not None:
            self._asked, offset = True, stamp - time.time()
            self._offset = offset if abs(offset) > _ROUNDED_SECONDS else 0.0
