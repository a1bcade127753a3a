"""Metadata of a machine on Compute Engine: whether it is being preempted, and its account's tokens.

https://cloud.google.com/compute/docs/metadata/querying-metadata: every read carries ``Metadata-Flavor: Google``; with
``wait_for_change`` the server answers when the value differs from that of ``last_etag``, or after ``timeout_sec``.
``instance/preempted`` turns from FALSE to TRUE when a Spot machine is taken back
(https://cloud.google.com/compute/docs/instances/create-use-spot#detect-preemption).
"""

from __future__ import annotations

import json
import os
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlencode

from tidemill.ledger.digest import RanOn
from tidemill.worker.metadata import Notice

HOST = "metadata.google.internal"
TIMEOUT_SECONDS = 5.0
PAUSES = (0.5, 2.0)
"""Seconds before each further question about what the machine is: it is asked only once in a worker's life."""
WAIT_SECONDS = 60
"""How long the server holds a question for a change."""
PREEMPTION_SECONDS = 30.0
"""Between the notice and the end of a preempted machine:
https://cloud.google.com/compute/docs/instances/spot#preemption-process."""
TOKEN_LEFT_SECONDS = 240.0
"""A token with less left than this is asked for anew: the server hands the same one out until it has five minutes left
(https://cloud.google.com/compute/docs/access/authenticate-workloads#applications)."""
_PREEMPTED = "instance/preempted"
_TOKEN = "instance/service-accounts/default/token"


class _Value(NamedTuple):
    text: str
    etag: str | None


class GceMetadata:
    """Metadata of a machine on Compute Engine, from a server at ``host[:port]``."""

    def __init__(self, host: str = HOST) -> None:
        self._base = f"http://{host}/computeMetadata/v1/"
        self._etag: str | None = None
        self._asked = False
        self._lock = threading.Lock()
        self._token = ""
        self._token_until = 0.0
        # The container's proxy must not be used for the machine's own metadata.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    @classmethod
    def of(cls, env: Mapping[str, str] = os.environ) -> GceMetadata | None:
        """The metadata at `GCE_METADATA_HOST`, or None where there is none (`NO_GCE_CHECK=true`)."""
        return None if env.get("NO_GCE_CHECK", "").lower() == "true" else cls(env.get("GCE_METADATA_HOST") or HOST)

    def notice(self) -> Notice | None:
        """The notice that the machine is being preempted, or None. The first question is answered at once, a later
        one when there is news.

        Raises:
            OSError: No answer.
        """
        waits = self._asked and self._etag is not None
        value = self._read(
            _PREEMPTED,
            TIMEOUT_SECONDS + (WAIT_SECONDS if waits else 0),
            {"wait_for_change": "true", "timeout_sec": WAIT_SECONDS, "last_etag": self._etag} if waits else {},
        )
        self._asked, self._etag = True, value.etag
        return Notice(PREEMPTION_SECONDS) if value.text.strip().upper() == "TRUE" else None

    def at_risk(self) -> bool:
        """Never: Compute Engine says nothing ahead of a preemption
        (https://cloud.google.com/compute/docs/instances/spot#preemption-process)."""
        return False

    def token(self, *, fresh: bool = False) -> str:
        """An access token of the machine's account; a new one if `fresh`. Any thread may ask."""
        with self._lock:
            if fresh or time.monotonic() > self._token_until:
                given = json.loads(self._read(_TOKEN, TIMEOUT_SECONDS, {}).text)
                self._token = str(given["access_token"])
                self._token_until = time.monotonic() + float(given.get("expires_in", 0)) - TOKEN_LEFT_SECONDS
            return self._token

    def place(self) -> tuple[str, str]:
        """The machine's name and zone; `OSError` if nothing answers."""
        name, zone = (self._fact(what) for what in ("name", "zone"))
        return name, zone.rpartition("/")[2]

    def machine(self, name: str, zone: str) -> RanOn:
        """Describe the machine of this name and zone; `OSError` if nothing answers."""
        kind = self._fact("machine-type").rpartition("/")[2]
        spot = self._fact("scheduling/preemptible").strip().upper() == "TRUE"
        return RanOn(name, kind, zone, "spot" if spot else "on_demand")

    def _fact(self, name: str) -> str:
        for pause in PAUSES:
            with suppress(OSError):
                return self._read(f"instance/{name}", TIMEOUT_SECONDS, {}).text
            time.sleep(pause)
        return self._read(f"instance/{name}", TIMEOUT_SECONDS, {}).text

    def _read(self, path: str, timeout: float, query: Mapping[str, object]) -> _Value:
        url = self._base + path + (f"?{urlencode(query)}" if query else "")
        request = urllib.request.Request(url, headers={"Metadata-Flavor": "Google"})
        with self._opener.open(request, timeout=timeout) as answer:
            return _Value(answer.read().decode(), answer.headers.get("ETag"))
