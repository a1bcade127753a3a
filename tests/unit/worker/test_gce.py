"""Requests to a Compute Engine machine, and writes to its log; the test gives all answers."""

from __future__ import annotations

import io
import json
import threading
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.conftest import PatchTime
from tests.unit.worker.fakes import Clock
from tidemill.errors import CallerError
from tidemill.worker import cloud_log
from tidemill.worker.cloud_log import CloudLog, resource_of
from tidemill.worker.google_api import ApiError
from tidemill.worker.metadata import Notice, gce
from tidemill.worker.metadata.gce import GceMetadata
from tidemill.worker.settings import Settings

BASE = {"TIDEMILL_STORE": "gs://b", "TIDEMILL_SUBSCRIPTION": "projects/p/subscriptions/s"}
SECONDS = 60


class Server:
    """The metadata server: answers in turn, each with its etag; None is no answer in time."""

    def __init__(self, *answers: tuple[str, str | None] | None) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[str, dict[str, list[str]], float]] = []

    def open(self, request: Any, timeout: float) -> Any:
        assert request.get_header("Metadata-flavor") == "Google"
        url = urlsplit(request.full_url)
        self.asked.append((url.path.removeprefix("/computeMetadata/v1/"), parse_qs(url.query), timeout))
        if (found := self._answers.pop(0)) is None:
            raise TimeoutError
        text, etag = found
        answer: Any = io.BytesIO(text.encode())
        answer.headers = {"ETag": etag} if etag else {}
        return answer


def metadata(*answers: tuple[str, str | None] | None) -> tuple[GceMetadata, Server]:
    made, server = GceMetadata("127.0.0.1:1"), Server(*answers)
    made._opener = server  # type: ignore[assignment]
    return made, server


class TestNotice:
    def test_the_first_question_is_answered_at_once_and_the_next_wait_for_news(self):
        made, server = metadata(("FALSE", "e1"), ("FALSE", "e2"), ("TRUE\n", "e3"))
        assert made.notice() is None
        assert made.notice() is None
        assert made.notice() == Notice(gce.PREEMPTION_SECONDS)
        assert [path for path, _, _ in server.asked] == ["instance/preempted"] * 3
        waits = {"wait_for_change": ["true"], "timeout_sec": [str(gce.WAIT_SECONDS)]}
        assert [query for _, query, _ in server.asked] == [
            {},
            {**waits, "last_etag": ["e1"]},
            {**waits, "last_etag": ["e2"]},
        ]
        assert [timeout > gce.WAIT_SECONDS for _, _, timeout in server.asked] == [False, True, True]

    def test_without_an_etag_it_never_waits(self):
        """A change between two questions would be missed."""
        made, server = metadata(("FALSE", None), ("TRUE", None))
        assert made.notice() is None
        assert made.notice()
        assert [query for _, query, _ in server.asked] == [{}, {}]


class TestToken:
    def test_it_is_kept_while_it_is_good(self, clock: Clock, patch_time: PatchTime):
        patch_time(monotonic=clock)
        given = [(json.dumps({"access_token": f"t{n}", "expires_in": 3600}), None) for n in range(3)]
        made, server = metadata(*given)
        assert [made.token(), made.token()] == ["t0", "t0"]
        clock.now += 3600 - gce.TOKEN_LEFT_SECONDS
        assert made.token() == "t0"
        clock.now += 1
        assert made.token() == "t1"
        assert made.token(fresh=True) == "t2"
        assert len(server.asked) == 3

    def test_where_there_is_none(self):
        assert GceMetadata.of({"NO_GCE_CHECK": "true"}) is None
        assert GceMetadata.of({})


def test_a_machines_name_and_zone():
    made, _ = metadata(("cpu-spot-x1", None), ("projects/123/zones/us-central1-b", None))
    assert made.place() == ("cpu-spot-x1", "us-central1-b")


def test_a_busy_server_is_asked_again_what_the_machine_is(monkeypatch: pytest.MonkeyPatch):
    """A worker that does not know its machine's name never says that it is alive."""
    monkeypatch.setattr(gce, "PAUSES", (0.0, 0.0))
    made, _ = metadata(None, ("x1", None), None, None, ("projects/123/zones/us-central1-b", None))
    assert made.place() == ("x1", "us-central1-b")
    made, _ = metadata(None, None, None)
    with pytest.raises(TimeoutError):
        made.place()


class TestSettings:
    def test_of_a_machine(self):
        settings = Settings.read(
            {**BASE, "TIDEMILL_IDLE_SECONDS": "300", "TIDEMILL_MACHINE_UNTIL": "1800000000", "TIDEMILL_QUEUE": "cpu"}
        )
        assert (settings.subscription, settings.idle_seconds) == (BASE["TIDEMILL_SUBSCRIPTION"], 300)
        assert (settings.machine_until, settings.queue, settings.whole_machine) == (1_800_000_000, "cpu", True)

    def test_defaults(self):
        settings = Settings.read(BASE)
        assert (settings.idle_seconds, settings.machine_until, settings.log) == (600, None, None)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"TIDEMILL_SUBSCRIPTION": ""},
            {"TIDEMILL_SUBSCRIPTION": "projects/p/topics/t"},
            {"TIDEMILL_SUBSCRIPTION": "projects/p/subscriptions/s/x"},
            {"TIDEMILL_IDLE_SECONDS": "0"},
            {"TIDEMILL_IDLE_SECONDS": "-1"},
            {"TIDEMILL_IDLE_SECONDS": "never"},
            {"TIDEMILL_IDLE_SECONDS": "nan"},
            {"TIDEMILL_MACHINE_UNTIL": "-1"},
            {"TIDEMILL_MACHINE_UNTIL": "2026-11-21"},
            {"TIDEMILL_LOG": "tidemill"},
        ],
        ids=lambda wrong: "=".join(*wrong.items()),
    )
    def test_mistakes(self, wrong: dict[str, str]):
        with pytest.raises(CallerError, match=next(iter(wrong))):
            Settings.read({**BASE, **wrong})


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


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloud_log, "PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(cloud_log, "CLOSE_SECONDS", SECONDS)


def written(to: Log, *lines: str, size: int = 10) -> CloudLog:
    api: Any = to
    log = CloudLog(api, "projects/p/logs/tidemill", resource_of("p", "cpu", "x1", "z"))
    for line in lines:
        log.write([({"level": "info", "message": line}, size)])
    return log


@pytest.mark.usefixtures("quick")
class TestCloudLog:
    def test_lines_come_in_order_each_with_an_id_of_its_own(self):
        to = Log()
        written(to, *(str(n) for n in range(2000))).close()
        assert to.messages == [str(n) for n in range(2000)]
        assert len({entry["insertId"] for entry in to.entries}) == 2000
        assert max(to.sizes) <= cloud_log.ENTRIES

    def test_what_fails_is_written_again(self, capsysbinary: Any):
        to = Log(failures=3)
        written(to, "a", "b").close()
        assert to.messages == ["a", "b"]
        # Said once, and not to the log itself.
        assert capsysbinary.readouterr().out.count(b"cannot write log entries") == 1

    def test_one_that_cannot_be_read_does_not_hold_up_the_others(self):
        to = Log(unreadable="poison")
        written(to, "a", "poison", "b").close()
        assert to.messages == ["a", "b"]

    def test_what_does_not_fit_is_dropped_and_counted(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(cloud_log, "KEPT_BYTES", 100)
        monkeypatch.setattr(cloud_log, "PAUSE_SECONDS", SECONDS)
        to = Log()
        written(to, *"abcd", size=40).close()
        assert to.messages[:2] == ["a", "b"]
        assert to.messages[2].startswith("2 lines were dropped")

    def test_a_log_that_takes_nothing_is_given_up_at_the_end(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(cloud_log, "CLOSE_SECONDS", 0.05)
        to = Log(failures=10_000, code=403)
        log = written(to, "a")
        assert to.tried.acquire(timeout=SECONDS)
        log.close()
        assert to.entries == []
        to._failures = 0
