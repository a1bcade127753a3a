"""A program of Cloud Run's: a process that serves HTTP from the first call on."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from localcloud.gcp.compute.metadata import Metadata
from localcloud.gcp.wire import Response, ServedApi, listen

START_SECONDS = 300.0


class Process:
    """A program that listens on the port of its variable `PORT`.

    Source: https://cloud.google.com/run/docs/container-contract

    Args:
        command: The program and its arguments.
        folder: Where it runs. Its output goes to a file beside this folder.
        environment: All of its variables except those that this class adds.
        metadata: The metadata it sees, and tokens of its account.
    """

    def __init__(
        self, command: Sequence[str], folder: Path, environment: Mapping[str, str], metadata: Metadata
    ) -> None:
        self._command, self._folder, self._environment = list(command), folder, dict(environment)
        self._metadata = metadata
        self._lock = Lock()
        self._log = folder.parent / f"{folder.name}.log"
        self._read = self._log.stat().st_size if self._log.exists() else 0
        self._process: subprocess.Popen[bytes] | None = None
        self._served: ServedApi | None = None
        self._port = 0

    def call(
        self, method: str, body: bytes, headers: Mapping[str, str], seconds: float, spawn: Callable[..., Any]
    ) -> Response:
        """Call the program, one call at a time. After this many seconds it is ended, and the answer is 504.

        Args:
            method: HTTP method.
            body: Body of the request.
            headers: Headers of the request.
            seconds: Limit on the wall clock.
            spawn: Runs a function in a long-lived thread: a process ends with the thread that started it.
        """
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._start(spawn)
            request = urllib.request.Request(f"http://127.0.0.1:{self._port}/", body, dict(headers), method=method)
            try:
                with urllib.request.urlopen(request, timeout=seconds) as answer:
                    return Response(answer.status, answer.read(), {"Content-Type": answer.headers.get_content_type()})
            except urllib.error.HTTPError as error:
                with error:
                    return Response(error.code, error.read())
            except OSError:
                self._end()
                return Response(504, b"upstream request timeout")

    def _start(self, spawn: Callable[..., Any]) -> None:
        """Start it and wait until it listens. It fails like a container that does not listen on its port."""
        if self._served is None:
            with listen() as own:
                self._served = ServedApi(own, self._metadata.handle)
        with listen() as probe:
            self._port = probe.getsockname()[1]
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": "/tmp",
            "PYTHONUNBUFFERED": "1",
            "PORT": str(self._port),
            "GCE_METADATA_HOST": f"127.0.0.1:{self._served.port}",
            "GCE_METADATA_IP": f"127.0.0.1:{self._served.port}",
            **self._environment,
        }
        die = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        with self._log.open("ab") as log:
            self._process = spawn(
                subprocess.Popen, [*die, *self._command], cwd=self._folder, env=environment, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        end = time.monotonic() + START_SECONDS
        while self._process is not None and self._process.poll() is None and time.monotonic() < end:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=1):
                return
            time.sleep(0.05)

    def lines(self) -> list[str]:
        """The complete lines printed since the last call."""
        with self._lock:
            if not self._log.exists():
                return []
            with self._log.open("rb") as log:
                log.seek(self._read)
                whole = log.read().rpartition(b"\n")
            self._read += len(whole[0]) + len(whole[1])
        return whole[0].decode(errors="replace").splitlines()

    def _end(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        self._end()
        self._metadata.close()
        if self._served:
            self._served.close()
