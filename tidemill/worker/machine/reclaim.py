"""Watches for the notice that the machine is being taken back.

A signal alone is not enough: on AWS, ECS draining does not stop a Batch job; on GCP the signal that a preemption sends
to the machine reaches a container late, if at all.
"""

from __future__ import annotations

import threading
import time
import urllib.error

from tidemill.worker.machine.stop import Stop, StopReason
from tidemill.worker.metadata import Metadata, Notice
from tidemill.worker.output import log

FIRST_SECONDS = 3.0
"""How long to wait for the first answer."""
ABSENT_AFTER = 3
"""Unanswered questions, before the first answer, after which it asks less often: there is no metadata here. A server
that has answered once is busy when it does not, and the notice may come in the next second."""
ABSENT_PAUSE = 60.0


class ReclaimWatch:
    """Asks the metadata in a thread of its own, every `poll_seconds`, and raises the flag at a notice."""

    def __init__(self, metadata: Metadata | None, stop: Stop, poll_seconds: float) -> None:
        self._metadata, self._stop, self._poll = metadata, stop, poll_seconds
        self._end = threading.Event()
        self.notice: Notice | None = None

    def start(self) -> None:
        """Ask once now, then keep asking during the work. A machine without metadata costs no time."""
        if self._metadata is None:
            return
        first_done = threading.Event()
        threading.Thread(target=self._run, args=(first_done,), name="reclaim", daemon=True).start()
        first_done.wait(FIRST_SECONDS)

    def close(self) -> None:
        self._end.set()

    def _run(self, first_done: threading.Event) -> None:
        assert self._metadata is not None
        answered, failures = False, 0
        while not self._end.is_set():
            asked = time.monotonic()
            try:
                self.notice = self._metadata.notice()
                if self.notice:
                    self._stop.set(StopReason.NOTICE, self.notice.seconds_left)
                    return
                answered = True
                if not self._stop.at_risk and self._metadata.at_risk():
                    self._stop.warn()
                    log("the machine may be taken back soon; items with state are saved now")
            except urllib.error.HTTPError:
                # The server is there but failed once.
                answered = True
            except OSError:
                failures += 1
            finally:
                first_done.set()
            absent = not answered and failures >= ABSENT_AFTER
            pause = max(self._poll, ABSENT_PAUSE) if absent else self._poll
            self._end.wait(max(0.0, pause - (time.monotonic() - asked)))
