"""The execution environment of a function: a process, and the runtime API that it asks for events.

Source: https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html
"""

from __future__ import annotations

import queue
import shutil
import socket
import subprocess
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from localcloud.aws.wsgi import Environ, ServedApp, StartResponse, respond, serve_socket

PATH = "/2018-06-01/runtime/invocation/"
POLL_SECONDS = 0.5


@dataclass
class Invocation:
    """An event on its way through a function.

    Attributes:
        payload: The event's JSON.
        answer: What the function answered; JSON as well.
        failed: The function failed, or did not answer in time.
    """

    payload: bytes
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    answer: bytes = b""
    failed: bool = False
    done: threading.Event = field(default_factory=threading.Event)


class FunctionProcess:
    """A running function, which answers one event at a time.

    Args:
        argv: Its command.
        environment: Its variables, without the address of the runtime API.
        log: File for its output.
        spawn: Runs a function in a long-lived thread: a process ends with the thread that started it.
    """

    def __init__(
        self, argv: Sequence[str], environment: Mapping[str, str], log: Path, spawn: Callable[..., Any]
    ) -> None:
        self._lock = threading.Lock()
        self._waiting: queue.Queue[Invocation] = queue.Queue()
        self._under_way: dict[str, Invocation] = {}
        self._closed = threading.Event()
        self._log, self._read = log, log.stat().st_size if log.exists() else 0
        with socket.create_server(("127.0.0.1", 0)) as listening:
            self._served: ServedApp = serve_socket(listening, self._runtime)
        given = {**environment, "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{self._served.port}"}
        die = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        with log.open("ab") as output:
            self._process: subprocess.Popen[bytes] = spawn(
                subprocess.Popen, [*die, *argv], cwd="/", env=given, stdin=subprocess.DEVNULL, stdout=output,
                stderr=output, start_new_session=True,
            )  # fmt: skip

    @property
    def running(self) -> bool:
        return self._process.poll() is None and not self._closed.is_set()

    def call(self, payload: bytes, seconds: float) -> Invocation:
        """Let the function answer an event. After this many seconds it is ended, and the invocation has failed."""
        with self._lock:
            invocation = Invocation(payload)
            self._under_way[invocation.id] = invocation
            self._waiting.put(invocation)
            left = seconds
            while self.running and left > 0 and not invocation.done.wait(POLL_SECONDS):
                left -= POLL_SECONDS
            if not invocation.done.is_set():
                why = "Task timed out" if left <= 0 else "Runtime exited"
                self.close()
                invocation.answer, invocation.failed = f'{{"errorMessage": "{why}"}}'.encode(), True
            del self._under_way[invocation.id]
            return invocation

    def lines(self) -> list[str]:
        """The complete lines printed since the last call."""
        with self._log.open("rb") as log:
            log.seek(self._read)
            whole = log.read().rpartition(b"\n")
        self._read += len(whole[0]) + len(whole[1])
        return whole[0].decode(errors="replace").splitlines()

    def close(self) -> None:
        self._closed.set()
        self._process.kill()
        self._process.wait()
        self._served.close()

    def _runtime(self, environ: Environ, start_response: StartResponse) -> Any:
        method, name = environ["REQUEST_METHOD"], environ["PATH_INFO"].removeprefix(PATH)
        if (method, name) == ("GET", "next"):
            return self._next(start_response)
        asked, _, result = name.partition("/")
        invocation = self._under_way.get(asked)
        if method != "POST" or invocation is None or result not in ("response", "error"):
            return respond(start_response, 400, b'{"errorType": "InvalidRequestID"}', "application/json")
        invocation.answer, invocation.failed = environ["localcloud.body"], result == "error"
        invocation.done.set()
        return respond(start_response, 202, b'{"status": "OK"}', "application/json")

    def _next(self, start_response: StartResponse) -> Any:
        while not self._closed.is_set():
            try:
                invocation = self._waiting.get(timeout=POLL_SECONDS)
            except queue.Empty:
                continue
            headers = {"Lambda-Runtime-Aws-Request-Id": invocation.id}
            return respond(start_response, 200, invocation.payload, "application/json", **headers)
        return respond(start_response, 500, b"", "text/plain")
