"""The metadata server of Google Cloud: what it tells a program there of its machine and of its account.

https://cloud.google.com/compute/docs/metadata/querying-metadata: every read carries ``Metadata-Flavor: Google``.
"""

from __future__ import annotations

import json
import os
import threading
import time
import urllib.request
from collections.abc import Mapping
from typing import NamedTuple, Self
from urllib.parse import urlencode

HOST = "metadata.google.internal"
TIMEOUT_SECONDS = 5.0
TOKEN_LEFT_SECONDS = 240.0
"""A token with less left than this is asked for anew: the server hands the same one out until it has five minutes left
(https://cloud.google.com/compute/docs/access/authenticate-workloads#applications)."""
_ACCOUNT = "instance/service-accounts/default"


class Value(NamedTuple):
    """An answer and its version."""

    text: str
    etag: str | None


class MetadataServer:
    """A metadata server at ``host[:port]``. Any thread may ask."""

    def __init__(self, host: str = HOST) -> None:
        self._base = f"http://{host}/computeMetadata/v1/"
        self._lock = threading.Lock()
        self._token = ""
        self._token_until = 0.0
        # The container's proxy must not be used for the machine's own metadata.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    @classmethod
    def here(cls) -> Self:
        """The server of this machine, which is on Google Cloud."""
        return cls(os.environ.get("GCE_METADATA_HOST") or HOST)

    @classmethod
    def of(cls, env: Mapping[str, str] = os.environ) -> Self | None:
        """The server at `GCE_METADATA_HOST`, or None where there is none (`NO_GCE_CHECK=true`)."""
        return None if env.get("NO_GCE_CHECK", "").lower() == "true" else cls(env.get("GCE_METADATA_HOST") or HOST)

    def token(self, *, fresh: bool = False) -> str:
        """An access token of the account; a new one if `fresh`."""
        with self._lock:
            if fresh or time.monotonic() > self._token_until:
                given = json.loads(self.read(f"{_ACCOUNT}/token").text)
                self._token = str(given["access_token"])
                self._token_until = time.monotonic() + float(given.get("expires_in", 0)) - TOKEN_LEFT_SECONDS
            return self._token

    def email(self) -> str:
        """The account's address; `OSError` if nothing answers."""
        return self.read(f"{_ACCOUNT}/email").text

    def read(self, path: str, timeout: float = TIMEOUT_SECONDS, query: Mapping[str, object] | None = None) -> Value:
        """A value by its path below `v1/`; `OSError` if nothing answers."""
        url = self._base + path + (f"?{urlencode(query)}" if query else "")
        request = urllib.request.Request(url, headers={"Metadata-Flavor": "Google"})
        with self._opener.open(request, timeout=timeout) as answer:
            return Value(answer.read().decode(), answer.headers.get("ETag"))
