"""The sender's HTTP server on this machine. Not proved: that Cloud Scheduler sends these headers."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from pytest_socket import enable_socket

from tidemill.errors import CallerError
from tidemill.sender.cloud_run import SCHEDULED, server

DUE = "2026-11-23T01:00:00Z"


class Sender:
    """A server whose answers are its events; a schedule called `broken` fails."""

    def __init__(self) -> None:
        self.events: list[Mapping[str, Any]] = []
        self.server = server(0, self._answer, "127.0.0.1")
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def _answer(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        self.events.append(event)
        if event.get("schedule") == "broken":
            raise CallerError("The template is not there.", "Save it.")
        return {"sends": [event]}

    def post(self, body: bytes, **headers: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.server_port, timeout=60)
        try:
            connection.request("POST", "/", body, headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()


@pytest.fixture
def sender() -> Iterator[Sender]:
    enable_socket()
    made = Sender()
    yield made
    made.server.shutdown()
    made.server.server_close()


def test_a_call_is_an_event_with_the_time_that_it_was_due_at(sender: Sender):
    due = {"schedule": "nightly", "time": DUE}
    assert sender.post(b'{"schedule": "nightly"}', **{SCHEDULED: DUE}) == (200, {"sends": [due]})
    assert sender.post(b'{"arrivals": true}', **{SCHEDULED: DUE}) == (200, {"sends": [{"arrivals": True}]})
    assert sender.post(b'{"schedule": "nightly"}')[0] == 200, "a person starts the job by hand"
    assert str(sender.events[-1]["time"]).endswith("+00:00")


def test_what_fails_answers_so_that_it_is_tried_again_and_the_server_goes_on(
    sender: Sender, capfd: pytest.CaptureFixture[str]
):
    status, said = sender.post(b'{"schedule": "broken"}', **{SCHEDULED: DUE})
    assert (status, said["errorType"]) == (500, "CallerError")
    assert "The template is not there." in capfd.readouterr().err
    for body in (b"[]", b"no json", b'"text"'):
        assert sender.post(body)[0] == 400
    assert sender.post(b'{"schedule": "nightly"}')[0] == 200
