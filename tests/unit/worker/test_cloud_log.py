"""Writes to the log of a machine on GCP; the test gives all answers."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from tidemill.worker import cloud_log
from tidemill.worker.cloud_log import CloudLog, resource_of
from tidemill.worker.google_api import ApiError

SECONDS = 60


class Log:
    """Cloud Logging: accepts entries, except those that the test refuses."""

    def __init__(self, failures: int = 0, code: int | None = None, unreadable: str = "") -> None:
        self.entries: list[dict[str, Any]] = []
        self.sizes: list[int] = []
        self.tried = threading.Semaphore(0)
        self._failures, self._code, self._unreadable = failures, code, unreadable

    def post(self, path: str, body: dict[str, Any], seconds: float) -> dict[str, Any]:
        assert path == "v2/entries:write"
        self.tried.release()
        if self._failures:
            self._failures -= 1
            raise ApiError("no", self._code)
        if self._unreadable and self._unreadable in json.dumps(body):
            raise ApiError("400 cannot be read", 400)
        self.sizes.append(len(body["entries"]))
        self.entries += body["entries"]
        return {}

    @property
    def messages(self) -> list[str]:
        return [entry["jsonPayload"]["message"] for entry in self.entries]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloud_log, "PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(cloud_log, "CLOSE_SECONDS", SECONDS)


def written(to: Log, *lines: str, size: int = 10) -> CloudLog:
    api: Any = to
    log = CloudLog(api, "projects/p/logs/tidemill", resource_of("p", "cpu", "x1", "z"))
    for line in lines:
        log.write([({"level": "info", "message": line}, size)])
    return log


def test_lines_come_in_order_each_with_an_id_of_its_own():
    to = Log()
    written(to, *(str(n) for n in range(2000))).close()
    assert to.messages == [str(n) for n in range(2000)]
    assert len({entry["insertId"] for entry in to.entries}) == 2000
    assert max(to.sizes) <= cloud_log.ENTRIES


def test_what_fails_is_written_again(capsysbinary: Any):
    to = Log(failures=3)
    written(to, "a", "b").close()
    assert to.messages == ["a", "b"]
    # Said once, and not to the log itself.
    assert capsysbinary.readouterr().out.count(b"cannot write log entries") == 1


def test_one_that_cannot_be_read_does_not_hold_up_the_others():
    to = Log(unreadable="poison")
    written(to, "a", "poison", "b").close()
    assert to.messages == ["a", "b"]


def test_what_does_not_fit_is_dropped_and_counted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cloud_log, "KEPT_BYTES", 100)
    monkeypatch.setattr(cloud_log, "PAUSE_SECONDS", SECONDS)
    to = Log()
    written(to, *"abcd", size=40).close()
    assert to.messages[:2] == ["a", "b"]
    assert to.messages[2].startswith("2 lines were dropped")


def test_a_log_that_takes_nothing_is_given_up_at_the_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cloud_log, "CLOSE_SECONDS", 0.05)
    to = Log(failures=10_000, code=403)
    log = written(to, "a")
    assert to.tried.acquire(timeout=SECONDS)
    log.close()
    assert to.entries == []
    to._failures = 0
