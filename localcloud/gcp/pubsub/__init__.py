"""Google's own Pub/Sub fake as a process, behind `front.go`. Go builds it once, into the user's cache."""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import threading
from pathlib import Path
from typing import Any

from localcloud.engine.go import EngineError, build
from localcloud.gcp.clock import Clock

HERE = Path(__file__).parent
STOP_SECONDS = 5.0
CALL_SECONDS = 120.0
"""Longer than any pull waits."""


def binary() -> Path:
    """The program; it is built if these sources have not been built yet.

    Raises:
        EngineError: Go is missing, or the module proxy refused or failed.
    """
    return build("Pub/Sub", HERE, "two minutes") / "pubsub"


class PubSub:
    """One running Pub/Sub; as a context manager it runs inside the block.

    Args:
        clock: Clock of deadlines and retention.
        pull_wait: How many seconds of that clock a pull waits for a message.

    Example:
        >>> with PubSub() as pubsub:
        ...     os.environ["PUBSUB_EMULATOR_HOST"] = f"127.0.0.1:{pubsub.grpc}"  # no login is asked here
        ...     pubsub.json("PUT", "v1/projects/p/topics/t")
    """

    def __init__(self, clock: Clock | None = None, pull_wait: float = 10.0) -> None:
        clock = clock or Clock()
        command = [str(binary()), f"-factor={clock.factor!r}", f"-origin={clock.origin!r}", f"-pull-wait={pull_wait}s"]
        # It ends when its standard input closes, so it never outlives this process.
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            self.stop()
            raise EngineError(f"{command[0]} did not start: it ended with {self._process.returncode}")
        ports = json.loads(line)
        self.rest: int = ports["rest"]
        self.grpc: int = ports["grpc"]
        self._connections = threading.local()

    def __enter__(self) -> PubSub:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Address of the REST API, without its version."""
        return f"http://127.0.0.1:{self.rest}/"

    def call(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        """One REST call: (status, body). Each thread keeps a connection of its own."""
        connection = getattr(self._connections, "value", None)
        if connection is None:
            connection = http.client.HTTPConnection("127.0.0.1", self.rest, timeout=CALL_SECONDS)
            self._connections.value = connection
        try:
            connection.request(method, f"/{path}", body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            self._connections.value = None
            connection.close()
            raise

    def json(self, method: str, path: str, body: Any = None) -> Any:
        """One REST call's JSON.

        Raises:
            RuntimeError: The status of the answer is 400 or more; the text gives it.
        """
        status, answer = self.call(method, path, b"" if body is None else json.dumps(body).encode())
        if status >= 400:
            raise RuntimeError(f"{method} {path}: {status} {answer.decode()}")
        return json.loads(answer)

    def control(self, **mishaps: Any) -> dict[str, Any]:
        """Set what goes wrong (`Mishaps` in front.go). Returns mishaps, counters and the backlog by subscription."""
        return self.json("POST", "_control", mishaps or None)

    def stop(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
