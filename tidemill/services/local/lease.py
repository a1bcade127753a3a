"""A local run and its leases: the keeper of the run hands chunks out over a socket.

Nothing of it is on disk: when a worker dies its socket closes, and the keeper gives its chunks to another.
"""

from __future__ import annotations

import json
import secrets
import select
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidemill.ledger import Round

MESSAGE_BYTES = 4096
ANSWER_SECONDS = 0.05
"""How long to wait for the keeper's answer to a request, which comes at once; a worker that did not wait would look
again much later, and its slots would be empty meanwhile."""
BEAT_SECONDS = 5.0
"""Seconds between two messages of a worker that holds a chunk: the keeper ends a silent one as frozen."""


@dataclass(frozen=True)
class Run:
    """A run of workers, as the keeper is asked for it.

    Attributes:
        chunks: (round, chunk) in the order in which they are handed out.
        logs: Folder for what workers print.
        folder: Where modules are imported from.
        reclaim_seconds: Take a worker away that often, as a Spot market would; None for never.
        python: Interpreter of functions; None for `python3` on PATH.
    """

    store: str
    job: str
    chunks: list[tuple[int, int]]
    workers: int
    scratch: str
    logs: str
    folder: str
    reclaim_seconds: float | None = None
    python: str | None = None


def deaths_of(logs: str | Path) -> Path:
    """Where the keepers of a job note their workers that died: a line each, ``<run>-<worker>``."""
    return Path(logs).parent / "deaths"


class LocalLease:
    """A chunk that the keeper has given to this worker, and to no other while it lives."""

    job_sha256: str | None = None
    round_sha256: str | None = None

    def __init__(self, keeper: socket.socket, given: dict[str, Any]) -> None:
        self._keeper, self._chunk = keeper, given["chunk"]
        self.job: str = given["job"]
        self.round: int = given["round"]
        self.delivery: int = given["delivery"]
        self.id = f"a{self.delivery}-{secrets.token_hex(6)}"
        self.backend: dict[str, Any] = {"run": given["run"], "worker": given["worker"]}
        self._said_at = time.monotonic()

    def chunk(self, round_: Round) -> int:
        """The chunk itself: the keeper deals in chunks, not in children of arrays."""
        return self._chunk

    def extend(self) -> None:
        """Tell the keeper now and then that this worker is alive: an open socket does not prove that."""
        if time.monotonic() >= self._said_at + BEAT_SECONDS:
            self._tell("beat")

    def progressed(self) -> None:
        self._tell("progress")

    def ack(self) -> None:
        self._tell("ack")

    def release(self) -> None:
        self._tell("release")

    def abandon(self) -> None:
        """Nothing to do: the keeper has given it to another worker."""

    def _tell(self, what: str) -> None:
        self._said_at = time.monotonic()
        send(self._keeper, {"say": what, "round": self.round, "chunk": self._chunk})


class LocalLeases:
    """The chunks of a local run. The keeper's socket must keep messages apart (``SOCK_SEQPACKET``)."""

    many_jobs = False

    def __init__(self, keeper: socket.socket) -> None:
        self._keeper = keeper
        self._asked = False
        self._ended = False

    @property
    def exhausted(self) -> bool:
        return self._ended

    def lease(self, wait_seconds: float) -> LocalLease | None:
        """The next chunk. One that becomes free later, because its worker died, is waited for."""
        if not self._asked:
            send(self._keeper, {"say": "lease"})
            self._asked, wait_seconds = True, max(wait_seconds, ANSWER_SECONDS)
        if not select.select([self._keeper], [], [], wait_seconds)[0]:
            return None
        given = receive(self._keeper)
        if given is not None and "later" in given:
            # Others work on all that is left. The request stands: a chunk that one of them gives back may come.
            return None
        self._asked = False
        if given is None or "chunk" not in given:
            self._ended = True
            return None
        return LocalLease(self._keeper, given)

    def end(self) -> None:
        self._ended = True

    def close(self) -> None:
        """Nothing to do: the socket closes with the process."""


def send(to: socket.socket, message: dict[str, Any]) -> None:
    """Send a message, unless the other side is gone."""
    try:
        to.send(json.dumps(message).encode())
    except (BrokenPipeError, ConnectionResetError):
        return


def receive(of: socket.socket) -> dict[str, Any] | None:
    try:
        data = of.recv(MESSAGE_BYTES)
    except ConnectionResetError:
        return None
    return json.loads(data) if data else None
