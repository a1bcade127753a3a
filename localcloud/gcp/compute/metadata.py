"""Compute Engine's metadata server: what a machine tells the programs that run on it.

https://cloud.google.com/compute/docs/metadata/querying-metadata
https://cloud.google.com/compute/docs/metadata/predefined-metadata-keys
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable
from typing import Any

from localcloud.gcp.wire import Request, Response, RestError

FLAVOR = {"Metadata-Flavor": "Google", "Server": "Metadata Server for VM"}
LONGEST_WAIT = 3600.0
CLOUD_PLATFORM = "https://www.googleapis.com/auth/cloud-platform"
Facts = dict[str, Any]


class Metadata:
    """The metadata of one machine.

    Args:
        facts: Returns all metadata as a tree; folders are dicts.
        token: Returns a new access token of the machine's account.
    """

    def __init__(self, facts: Callable[[], Facts], token: Callable[[], Facts]) -> None:
        self._facts, self._token = facts, token
        self._changed = threading.Condition()
        self._closed = False

    def change(self) -> None:
        """Wake all waiting requests after a change."""
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        self._closed = True
        self.change()

    def handle(self, request: Request) -> Response:
        if request.headers.get("metadata-flavor") != "Google" or "x-forwarded-for" in request.headers:
            return Response(403, b"Missing Metadata-Flavor:Google header.", dict(FLAVOR))
        path = request.path.strip("/").split("/")
        if request.method != "GET" or not request.api:
            return Response(405 if request.api else 200, b"computeMetadata/\n", dict(FLAVOR))
        if request.api != "computeMetadata" or path[0] != "v1":
            return Response(404, b"", dict(FLAVOR))
        if path[-1] == "token" and path[1:3] == ["instance", "service-accounts"]:
            return self._of_token(path[3])
        recursive = request.query.get("recursive", [""])[0].lower() == "true"
        text = self._read(path[1:], recursive)
        if text is not None and request.query.get("wait_for_change", [""])[0].lower() == "true":
            text = self._wait(path[1:], recursive, request.query, text)
        if text is None:
            return Response(404, b"The requested URL was not found on this server.", dict(FLAVOR))
        kind = "application/json" if text[:1] in ("{", "[") else "application/text"
        return Response(200, text.encode(), {**FLAVOR, "Content-Type": kind, "ETag": _etag(text)})

    def _of_token(self, account: str) -> Response:
        if account not in self._facts()["instance"]["service-accounts"]:
            return Response(404, b"", dict(FLAVOR))
        try:
            return Response(200, json.dumps(self._token()).encode(), {**FLAVOR, "Content-Type": "application/json"})
        except RestError as error:
            return Response(error.code, error.message.encode(), dict(FLAVOR))

    def _read(self, path: list[str], recursive: bool) -> str | None:
        """A leaf's text, a folder's names, or with `recursive` a folder as JSON; None if the path does not exist."""
        value: Any = self._facts()
        for part in path:
            if not isinstance(value, dict) or part not in value:
                return None
            value = value[part]
        if isinstance(value, dict) and recursive:
            return json.dumps(value)
        if isinstance(value, dict):
            return "".join(f"{name}/\n" if isinstance(below, dict) else f"{name}\n" for name, below in value.items())
        return json.dumps(value) if recursive and not isinstance(value, str) else str(value)

    def _wait(self, path: list[str], recursive: bool, query: dict[str, list[str]], text: str) -> str | None:
        """The value once it differs from that of `last_etag` (or from now), or after `timeout_sec`."""
        known = query.get("last_etag", [_etag(text)])[0]
        end = time.monotonic() + min(float(query.get("timeout_sec", [LONGEST_WAIT])[0]), LONGEST_WAIT)
        with self._changed:
            while not self._closed:
                now = self._read(path, recursive)
                left = end - time.monotonic()
                if now is None or _etag(now) != known or left <= 0:
                    return now
                self._changed.wait(left)
        return None


def _etag(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
