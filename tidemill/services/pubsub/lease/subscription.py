"""A Pub/Sub subscription over REST: pull one, extend, acknowledge.

https://cloud.google.com/pubsub/docs/reference/rest/v1/projects.subscriptions. ``PUBSUB_EMULATOR_HOST`` (plain http, no
login) is honoured, as by Google's own libraries.
"""

from __future__ import annotations

import http.client
import os
import socket
import threading
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from tidemill.worker.google_api import Api, ApiError, Token, endpoint_of

PULL_SECONDS = 120.0
"""How long a pull may wait: the server holds an empty one for about 90 s."""
CALL_SECONDS = 10.0
_REFUSALS = (400, 401, 403, 404)


class PubSubError(Exception):
    """A call that failed."""


class PubSubRefusedError(PubSubError):
    """Pub/Sub answered that this machine may not, or that there is no such subscription."""


class Subscription:
    """The subscription ``projects/<project>/subscriptions/<id>``, whose calls raise `PubSubError`."""

    def __init__(self, name: str, token: Token | None, endpoint: str) -> None:
        self.name = name
        self._pulls = _Connections()
        self._puller = Api(endpoint, token, _Http(self._pulls), _Https(self._pulls))
        self._caller = Api(endpoint, token)

    @classmethod
    def of(cls, name: str, token: Token | None, env: Mapping[str, str] = os.environ) -> Subscription:
        """A subscription at the API endpoint that the environment names."""
        if emulator := env.get("PUBSUB_EMULATOR_HOST"):
            return cls(name, None, f"http://{emulator}/")
        return cls(name, token, endpoint_of("pubsub", env))

    def pull(self) -> dict[str, Any] | None:
        """The next message (``ackId``, ``message``, ``deliveryAttempt``) or None, which does not mean that there is
        none."""
        received = self._call("pull", {"maxMessages": 1}).get("receivedMessages") or []
        if received and not received[0].get("ackId"):
            raise PubSubError(f"pull on {self.name}: a message without ackId")
        return received[0] if received else None

    def abort(self) -> None:
        """End a waiting pull: it must not receive what is returned from now on."""
        self._pulls.end()

    def extend(self, ack_ids: Sequence[str], seconds: int) -> None:
        """Hold messages for so many seconds from now; 0 gives them back at once."""
        self._call("modifyAckDeadline", {"ackIds": list(ack_ids), "ackDeadlineSeconds": seconds})

    def acknowledge(self, ack_ids: Sequence[str]) -> None:
        """Say that messages are done."""
        self._call("acknowledge", {"ackIds": list(ack_ids)})

    def _call(self, verb: str, body: Mapping[str, Any]) -> dict[str, Any]:
        api, seconds = (self._puller, PULL_SECONDS) if verb == "pull" else (self._caller, CALL_SECONDS)
        try:
            return api.post(f"v1/{self.name}:{verb}", body, seconds)
        except ApiError as error:
            kind = PubSubRefusedError if error.code in _REFUSALS else PubSubError
            raise kind(f"{verb} on {self.name}: {error}") from None


class _Connections:
    """The connection of a pull, which another thread may end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: socket.socket | None = None
        self._ended = False

    def opened(self, connected: socket.socket) -> None:
        with self._lock:
            self._open = connected
            if self._ended:
                raise ConnectionAbortedError("no pull is wanted any more")

    def end(self) -> None:
        with self._lock:
            self._ended = True
            if self._open is not None:
                with suppress(OSError):
                    # The plain socket, not the TLS one, which the other thread uses.
                    socket.socket.shutdown(self._open, socket.SHUT_RDWR)


class _Http(urllib.request.HTTPHandler):
    def __init__(self, connections: _Connections) -> None:
        super().__init__()
        self._connections = connections

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_noted(http.client.HTTPConnection, self._connections), req)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, connections: _Connections) -> None:
        super().__init__()
        self._connections = connections

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_noted(http.client.HTTPSConnection, self._connections), req)


def _noted(kind: type[http.client.HTTPConnection], connections: _Connections) -> Any:
    """A connection class that records its socket."""

    class RecordedConnection(kind):
        def connect(self) -> None:
            super().connect()
            connections.opened(self.sock)

    return RecordedConnection
