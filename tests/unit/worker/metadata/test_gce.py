"""Questions to the metadata server of a machine on GCP; the test gives all answers."""

from __future__ import annotations

import io
import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.conftest import PatchTime
from tests.unit.worker.fakes import Clock
from tidemill.ledger.digest import RanOn
from tidemill.store import metadata_server
from tidemill.worker.metadata import Notice, gce
from tidemill.worker.metadata.gce import GceMetadata


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


def test_the_first_question_is_answered_at_once_and_the_next_wait_for_news():
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


def test_without_an_etag_it_never_waits():
    """A change between two questions would be missed."""
    made, server = metadata(("FALSE", None), ("TRUE", None))
    assert made.notice() is None
    assert made.notice()
    assert [query for _, query, _ in server.asked] == [{}, {}]


def test_a_token_is_kept_while_it_is_good(clock: Clock, patch_time: PatchTime):
    patch_time(monotonic=clock)
    given = [(json.dumps({"access_token": f"t{n}", "expires_in": 3600}), None) for n in range(3)]
    made, server = metadata(*given)
    assert [made.token(), made.token()] == ["t0", "t0"]
    clock.now += 3600 - metadata_server.TOKEN_LEFT_SECONDS
    assert made.token() == "t0"
    clock.now += 1
    assert made.token() == "t1"
    assert made.token(fresh=True) == "t2"
    assert len(server.asked) == 3


def test_a_machine_without_a_server_has_no_tokens():
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


def test_what_a_machine_is():
    kind = "projects/1/machineTypes/n2d-standard-8"
    asked, _ = metadata((kind, None), ("TRUE", None))
    assert asked.machine("vm-1", "europe-west4-a") == RanOn("vm-1", "n2d-standard-8", "europe-west4-a", "spot")
    asked, _ = metadata((kind, None), ("FALSE", None))
    assert asked.machine("vm-1", "europe-west4-a").market == "on_demand"
