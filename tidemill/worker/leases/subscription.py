"""A Pub/Sub subscription over REST: pull one, extend, acknowledge. No library of Google's is needed for it.

https://cloud.google.com/pubsub/docs/reference/rest/v1/projects.subscriptions. The standard variables that the tools of
Google's cloud know are honoured: ``PUBSUB_EMULATOR_HOST`` (plain http, no login) and
``CLOUDSDK_API_ENDPOINT_OVERRIDES_PUBSUB`` (a base URL).
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

ENDPOINT = "https://pubsub.googleapis.com/"
PULL_SECONDS = 120.0
"""The longest that a pull is waited for: the server holds an empty one for about 90 s."""
CALL_SECONDS = 10.0
_REFUSALS = (400, 401, 403, 404)


class PubSubError(Exception):
    """A call that failed."""


class PubSubRefusedError(PubSubError):
    """Pub/Sub answered that this machine may not, or that there is no such subscription."""


class Token(Protocol):
    """Gives access tokens."""

    def __call__(self, *, fresh: bool = False) -> str:
        """A token; a new one when the last was refused."""
        ...


class Subscription:
    """A subscription.

    Args:
        name: ``projects/<project>/subscriptions/<id>``.
        token: Gives access tokens; None where none are asked for.
        endpoint: The API's base URL, with a trailing slash.
    """

    def __init__(self, name: str, token: Token | None, endpoint: str = ENDPOINT) -> None:
        self.name, self._token = name, token
        self._url = f"{endpoint}v1/{name}"
        self._pulls = _Connections()
        self._puller = urllib.request.build_opener(_Http(self._pulls), _Https(self._pulls))
        self._caller = urllib.request.build_opener()

    @classmethod
    def of(cls, name: str, token: Token | None, env: Mapping[str, str] = os.environ) -> Subscription:
        """As the environment says where the API is."""
        if emulator := env.get("PUBSUB_EMULATOR_HOST"):
            return cls(name, None, f"http://{emulator}/")
        endpoint = env.get("CLOUDSDK_API_ENDPOINT_OVERRIDES_PUBSUB") or ENDPOINT
        return cls(name, token, endpoint.rstrip("/") + "/")

    def pull(self) -> dict[str, Any] | None:
        """The next message (``ackId``, ``message``, ``deliveryAttempt``), or None. The server waits for one for a
        while; that it had none does not say that there is none.

        Raises:
            PubSubError: No answer, or an error.
        """
        received = self._call("pull", {"maxMessages": 1}, PULL_SECONDS).get("receivedMessages") or []
        if received and not received[0].get("ackId"):
            raise PubSubError(f"pull on {self.name}: a message without ackId")
        return received[0] if received else None

    def abort(self) -> None:
        """End a pull that waits: what is given back from now on must not come to it."""
        self._pulls.end()

    def extend(self, ack_ids: Sequence[str], seconds: int) -> None:
        """Hold messages until so many seconds from now; 0 gives them back at once.

        Raises:
            PubSubError: No answer, or an error.
        """
        self._call("modifyAckDeadline", {"ackIds": list(ack_ids), "ackDeadlineSeconds": seconds}, CALL_SECONDS)

    def acknowledge(self, ack_ids: Sequence[str]) -> None:
        """Say that messages are done.

        Raises:
            PubSubError: No answer, or an error.
        """
        self._call("acknowledge", {"ackIds": list(ack_ids)}, CALL_SECONDS)

    def _call(self, verb: str, body: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        try:
            try:
                return self._post(verb, body, seconds, fresh=False)
            except urllib.error.HTTPError as error:
                if error.code != 401 or self._token is None:
                    raise
                return self._post(verb, body, seconds, fresh=True)
        except urllib.error.HTTPError as error:
            kind = PubSubRefusedError if error.code in _REFUSALS else PubSubError
            raise kind(f"{verb} on {self.name}: {error.code} {_said(error)}") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise PubSubError(f"{verb} on {self.name}: {error or type(error).__name__}") from None

    def _post(self, verb: str, body: Mapping[str, Any], seconds: float, *, fresh: bool) -> dict[str, Any]:
        headers = {"Content-Type": "application/json", **self._login(fresh)}
        request = urllib.request.Request(f"{self._url}:{verb}", json.dumps(body).encode(), headers)
        opener = self._puller if verb == "pull" else self._caller
        with opener.open(request, timeout=seconds) as answer:
            return json.loads(answer.read() or b"{}")

    def _login(self, fresh: bool) -> dict[str, str]:
        if self._token is None:
            return {}
        try:
            return {"Authorization": f"Bearer {self._token(fresh=fresh)}"}
        except (OSError, ValueError, KeyError) as error:
            raise PubSubError(f"this machine's account gives no access token: {error}") from None


class _Connections:
    """Connections of pulls, which another thread may end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._ended = False

    def opened(self, connected: socket.socket) -> None:
        with self._lock:
            # One at a time: those before are closed.
            self._open = [connected]
            if self._ended:
                raise ConnectionAbortedError("no pull is wanted any more")

    def end(self) -> None:
        with self._lock:
            self._ended = True
            for one in self._open:
                with suppress(OSError):
                    # The socket's own, not TLS's: that is in use in the other thread.
                    socket.socket.shutdown(one, socket.SHUT_RDWR)


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
    """A kind of connection that notes its socket."""

    class Noted(kind):
        def connect(self) -> None:
            super().connect()
            connections.opened(self.sock)

    return Noted


def _said(error: urllib.error.HTTPError) -> str:
    """What an error of Google's APIs says, where it says something."""
    try:
        return str(json.loads(error.read())["error"]["message"])
    except (OSError, ValueError, KeyError, TypeError):
        return str(error.reason)
