"""Forks the Python processes of an engine's run from one that has already imported their packages.

A run starts a language host, a provider, a program and a policy pack, each an interpreter of its own. To import
Pulumi's packages costs them more than all else that they do. Here one process a test session imports them once, and
each of those processes is a fork of it. The project's own code is imported by each run. `COLD` is how users start them.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import io
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).parents[1]
COLD = "TIDEMILL_TESTS_COLD"
"""Environment variable with which each process starts as it does for a user."""
START_SECONDS = 60.0
HOST = "pulumi-language-python"
LAUNCHERS = ("pulumi-resource-aws", "pulumi-resource-gcp", "pulumi-analyzer-policy-python", HOST)
_OURS = ("components", "tidemill", "policy", "rules", "ops", "plugin", "shared", "bootstrap")
_PACKAGES = {
    "AWS_ENDPOINT_URL": ("localcloud.aws.provider.server", "components.aws.pipeline", "components.pipeline"),
    "GOOGLE_PROJECT": ("localcloud.gcp.provider.server", "components.gcp.pipeline", "components.pipeline"),
}
"""What is imported for runs in whose environment a variable is."""


def warmed(env: Mapping[str, str]) -> dict[str, str]:
    """An environment of localcloud's in which the engine starts forks."""
    path, _, rest = env["PATH"].partition(os.pathsep)
    if env.get(COLD) or not Path(path, HOST).exists():
        return dict(env)
    return {**env, "PATH": os.pathsep.join([str(_launchers(path)), path, rest])}


@functools.cache
def _launchers(original: str) -> Path:
    """A folder with launchers that do as those of another folder, by forks."""
    folder = _server()
    for name in LAUNCHERS:
        text = Path(original, name).read_text()
        (folder / name).write_text(text.replace(f'exec "{sys.executable}"', f'exec "{folder}/forked-python"'))
        (folder / name).chmod(0o755)
    return folder


@functools.cache
def _server() -> Path:
    """The folder of this session's server."""
    folder = Path(tempfile.mkdtemp(prefix="tidemill-warm-"))
    client = f'exec "{sys.executable}" -IS "{ROOT}/tests/warm_client.py" "{folder}/socket" "$@"'
    (folder / "forked-python").write_text(f"#!/bin/sh\n{client}\n")
    (folder / "forked-python").chmod(0o755)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(f"{folder}/socket")
    listening.listen(64)
    command = [sys.executable, "-u", __file__, str(folder), str(listening.fileno())]
    # It ends when its stdin closes, however this process ends.
    process = subprocess.Popen(command, stdin=subprocess.PIPE, cwd=ROOT, pass_fds=[listening.fileno()])
    listening.close()

    def close() -> None:
        assert process.stdin
        process.stdin.close()
        process.wait(START_SECONDS)

    atexit.register(close)
    return folder


class Server:
    """Forks on request until its stdin is closed."""

    def __init__(self, folder: Path, listening: socket.socket) -> None:
        self._python, self._listening = str(folder / "forked-python"), listening
        self._running: dict[int, socket.socket] = {}
        self._imported: set[str] = set()

    def run(self) -> None:
        """Serve."""
        ended, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        while True:
            ready, _, _ = select.select([self._listening, 0, ended, *self._running.values()], [], [])
            if 0 in ready:
                break
            if ended in ready:
                os.read(ended, 4096)
                self._reap()
            for pid, client in list(self._running.items()):
                # It says nothing more: its end has come.
                if client in ready:
                    os.kill(pid, signal.SIGKILL)
            if self._listening in ready:
                self._accept()
        for pid in self._running:
            os.kill(pid, signal.SIGKILL)

    def _reap(self) -> None:
        while self._running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            with self._running.pop(pid) as client:
                code = os.waitstatus_to_exitcode(status)
                _send(client, code if code >= 0 else 128 - code)

    def _accept(self) -> None:
        client, _ = self._listening.accept()
        head, fds, _, _ = socket.recv_fds(client, 4, 3)
        size, request = int.from_bytes(head, "big"), b""
        while len(request) < size and (part := client.recv(size - len(request))):
            request += part
        if len(head) < 4 or len(request) < size:
            client.close()
            return
        cwd, count, *rest = os.fsdecode(request).split("\0")
        arguments, environment = rest[: int(count)], dict(each.split("=", 1) for each in rest[int(count) :])
        self._import(environment)
        pid = os.fork()
        if not pid:
            self._become(fds, cwd, arguments, environment)
        for fd in fds:
            os.close(fd)
        self._running[pid] = client
        _send(client, pid)

    def _import(self, environment: Mapping[str, str]) -> None:
        """Import third-party packages. Our own are forgotten again: each process imports them from its own project."""
        for variable, names in _PACKAGES.items():
            if variable in environment and variable not in self._imported:
                self._imported.add(variable)
                for name in ("pulumi_policy", "localcloud.engine.host", *names):
                    importlib.import_module(name)
                for name in [name for name in sys.modules if name.partition(".")[0] in _OURS]:
                    del sys.modules[name]
                host: Any = importlib.import_module("localcloud.engine.host")
                host.interpreter = functools.partial(_interpreter, self._python, host.interpreter)
                gc.collect()
                gc.freeze()

    def _become(self, fds: list[int], cwd: str, arguments: list[str], environment: dict[str, str]) -> NoReturn:
        """Become the requested process, and end like it."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for number, fd in enumerate(fds):
                os.dup2(fd, number)
            os.closerange(3, 1024)
            os.chdir(cwd)
            os.environ.clear()
            os.environ.update(environment)
            # As with `-u`, which does not hold back bytes either.
            sys.stdout, sys.stderr = (io.TextIOWrapper(io.FileIO(fd, "w"), write_through=True) for fd in (1, 2))
            _run([each for each in arguments if each != "-u"])
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            traceback.print_exc()
        finally:
            threading._shutdown()  # type: ignore[attr-defined]
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)


def _interpreter(ours: str, original: object, info: object) -> str:
    """A fork in place of this virtual environment's Python; any other interpreter unchanged."""
    found = original(info)  # type: ignore[operator]
    return ours if Path(found).parents[1].resolve() == Path(sys.prefix).resolve() else found


def _run(arguments: list[str]) -> None:
    """Run what the interpreter's arguments say."""
    sys.path[:0] = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    what, *rest = arguments
    if what == "-c":
        sys.argv = ["-c", *rest[1:]]
        sys.path.insert(0, "")
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    elif what == "-m":
        sys.argv = rest
        sys.path.insert(0, os.getcwd())
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path.insert(0, what if Path(what).is_dir() else str(Path(what).parent))
        runpy.run_path(what, run_name="__main__")


def _send(client: socket.socket, number: int) -> None:
    # It may be gone.
    with contextlib.suppress(OSError):
        client.sendall(number.to_bytes(4, "big"))


if __name__ == "__main__":
    del sys.path[0]
    try:
        Server(Path(sys.argv[1]), socket.socket(fileno=int(sys.argv[2]))).run()
    finally:
        shutil.rmtree(sys.argv[1], ignore_errors=True)
