"""A hint at why a job has stood still for a while. The rules are imported when there is something to explain."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from tidemill.client.watch.observation import Observation
from tidemill.client.watch.status import Status
from tidemill.errors import CallerError, CloudError

if TYPE_CHECKING:
    from tidemill.explain import Reason
    from tidemill.explain.judge import CauseHistory

STILL_SECONDS = 300.0
"""Without a record for this long, `status` and `wait` say why."""
NOTHING = "L13"


class Hints:
    """The headline of a job that has committed nothing for a while, for `status` and `wait`.

    It keeps what it has seen: looks that follow each other tell what passes and what stays.
    """

    def __init__(self) -> None:
        self._looks: CauseHistory | None = None
        self._next = 0.0
        self._line: Reason | None = None

    def added(self, status: Status, seen: Observation) -> Status:
        """A status with the headline; unchanged while the job progresses, or when nothing can be asked."""
        if status.ended or status.run_command or status.waits_for or seen.idle_seconds < STILL_SECONDS:
            self._line = None
            return status
        if time.monotonic() >= self._next:
            from tidemill.client.watch.explain import read_facts
            from tidemill.explain.judge import APART_SECONDS, CauseHistory, explain

            self._looks = self._looks or CauseHistory()
            # Each of these costs a dozen requests.
            self._next = time.monotonic() + APART_SECONDS
            with suppress(CallerError, CloudError):
                headline = explain(read_facts(seen), self._looks).headline
                # Long items are no news.
                self._line = None if headline.kind == "well" or headline.code == NOTHING else headline
        return replace(status, explained=self._line)
