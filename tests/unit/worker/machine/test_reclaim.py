"""How a worker asks for the notice of its machine's end; the test gives the answers."""

from __future__ import annotations

import threading
from urllib.error import HTTPError

import pytest

from tidemill.worker.machine import reclaim
from tidemill.worker.machine.reclaim import ABSENT_AFTER, ReclaimWatch
from tidemill.worker.machine.stop import Stop, StopReason
from tidemill.worker.metadata import Notice

SECONDS = 30
REFUSED = HTTPError("http://metadata", 500, "busy", None, None)  # type: ignore[arg-type]


class Metadata:
    """Answers in turn; None is no answer within the time, and what comes after the last is none either."""

    def __init__(self, *answers: Notice | HTTPError | bool) -> None:
        self._answers = list(answers)
        self.asked = threading.Semaphore(0)

    def notice(self) -> Notice | None:
        self.asked.release()
        answer = self._answers.pop(0) if self._answers else False
        if isinstance(answer, HTTPError):
            raise answer
        if not answer:
            raise TimeoutError
        return answer if isinstance(answer, Notice) else None

    def at_risk(self) -> bool:
        return False


def watch(metadata: Metadata, stop: Stop) -> ReclaimWatch:
    made = ReclaimWatch(metadata, stop, 0.01)
    made.start()
    return made


@pytest.mark.parametrize("first", [True, REFUSED])
def test_a_server_that_answered_once_is_asked_as_often_when_it_is_busy(first: bool | HTTPError):
    stop, raised = Stop(), threading.Event()
    stop.on_raise(raised.set)
    watch(Metadata(first, *[False] * (ABSENT_AFTER + 2), Notice(30.0)), stop)
    assert raised.wait(SECONDS)
    assert stop.reason is StopReason.NOTICE


def test_what_never_answers_is_asked_less_often(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reclaim, "ABSENT_PAUSE", SECONDS)
    metadata = Metadata()
    watching = watch(metadata, Stop())
    assert all(metadata.asked.acquire(timeout=SECONDS) for _ in range(ABSENT_AFTER))
    assert not metadata.asked.acquire(timeout=0.3)
    watching.close()
