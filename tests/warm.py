"""Forks the Python processes of an engine's run from one that has already imported their packages.

A run starts a language host, a provider, a program and a policy pack, each an interpreter of its own. To import
Pulumi's packages costs them more than all else that they do. Here one process per test session imports them once, and
each of those processes is a fork of it. It also imports this checkout's code and reads localcloud's tables; a project
with code of its own imports that. `COLD` is how users start them.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import gc
import importlib
import importlib.abc
import importlib.machinery
import io
import keyword
import os
import pkgutil
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import IO, Any, ClassVar, NoReturn

ROOT = Path(__file__).parents[1]
COLD = "TIDEMILL_TESTS_COLD"
"""Environment variable with which each process starts as it does for a user."""
SHARED = "TIDEMILL_TESTS_WARM"
"""Environment variable with the folder of a server that another process has started."""
WORKER = "TIDEMILL_TESTS_WORKER"
"""Environment variable with which a fork runs tests, on both clouds, and processes that it starts are no forks."""
START_SECONDS = 60.0
PREFIX = "tidemill-forks-"
BEGINNING_SECONDS = 60.0
"""A younger folder may be one that another session is making."""
HOST = "pulumi-language-python"
LAUNCHERS = ("pulumi-resource-aws", "pulumi-resource-gcp", "pulumi-analyzer-policy-python", HOST)
_SIGNALS = {signal.SIGINT, signal.SIGTERM}
_OURS = ("components", "tidemill", "policy", "rules", "ops", "plugin", "shared", "bootstrap")
_FOR_TESTS = ("jsonschema", "rich.markdown", "ruamel.yaml")
"""What many tests import that runs do not."""
_CLOUDS = {"AWS_ENDPOINT_URL": "aws", "GOOGLE_PROJECT": "gcp"}
"""The cloud of the runs in whose environment a variable is."""


def warmed(env: Mapping[str, str]) -> dict[str, str]:
    """An environment of localcloud's in which the engine starts forks."""
    path, _, rest = env["PATH"].partition(os.pathsep)
    if env.get(COLD) or not Path(path, HOST).exists():
        return dict(env)
    return {**env, "PATH": os.pathsep.join([str(_launchers(path)), path, rest])}


def python() -> str:
    """An interpreter like this one whose processes are forks, and so are the processes that they start with it."""
    return sys.executable if os.environ.get(COLD) else str(_server() / "forked-python")


@functools.cache
def _launchers(original: str) -> Path:
    """A folder with launchers that do as those of another folder, by forks."""
    folder = _server()
    for name in LAUNCHERS:
        text = Path(original, name).read_text()
        partial = folder / f"{name}.{os.getpid()}"
        partial.write_text(text.replace(f'exec "{sys.executable}"', f'exec "{folder}/forked-python"'))
        partial.chmod(0o755)
        partial.rename(folder / name)
    return folder


def share() -> str:
    """Let the processes that this one starts use its server too. Returns an interpreter whose processes run tests."""
    os.environ[SHARED] = str(_server())
    return str(_server() / "forked-worker")


@functools.cache
def _server() -> Path:
    """The folder of this session's server."""
    if shared := os.environ.get(SHARED):
        return Path(shared)
    _sweep()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    held = os.open(folder, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_SH)
    client = f'exec "{sys.executable}" -IS "{ROOT}/tests/warm_client.py" "{folder}/socket" "$@"'
    for name, variables in (("forked-python", ""), ("forked-worker", f"export {WORKER}=1\n")):
        (folder / name).write_text(f"#!/bin/sh\n{variables}{client}\n")
        (folder / name).chmod(0o755)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(f"{folder}/socket")
    listening.listen(64)
    command = [sys.executable, "-u", __file__, str(folder), str(listening.fileno())]
    # It ends when its stdin closes, however this process ends.
    process = subprocess.Popen(command, stdin=subprocess.PIPE, cwd=ROOT, pass_fds=[listening.fileno(), held])
    listening.close()

    def close() -> None:
        assert process.stdin
        process.stdin.close()
        process.wait(START_SECONDS)
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(close)
    return folder


def _sweep() -> None:
    """Remove the folders of servers that were killed with their sessions, as `timeout` does: no one holds them."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            held = os.open(folder, os.O_RDONLY)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if time.time() - os.fstat(held).st_mtime > BEGINNING_SECONDS:
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(held)


def spawn(command: Sequence[str], **options: Any) -> Fork | subprocess.Popen[bytes]:
    """Start an interpreter like this one as `subprocess.Popen` does, but as a fork. What it starts is no fork."""
    if os.environ.get(COLD):
        return subprocess.Popen[bytes](command, **options)
    return Fork(command[1:], **options)


def ran(
    command: Sequence[str], *, cwd: Path, env: Mapping[str, str] = os.environ, timeout: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run an interpreter like this one to its end, as a fork, and return what it wrote."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": err}
        process = spawn(command, cwd=cwd, env=env, start_new_session=True, **options)
        try:
            code = process.wait(timeout=timeout)
        finally:
            process.kill()
        written = []
        for file in (out, err):
            file.seek(0)
            written.append(file.read().decode())
    return subprocess.CompletedProcess(command, code, *written)


class Fork:
    """A fork, with those methods of `Popen` that tests use. It ends with this process."""

    _all: ClassVar[dict[int, Fork]] = {}

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        cwd: str | Path,
        env: Mapping[str, str],
        stdout: IO[bytes],
        stdin: int = subprocess.DEVNULL,
        stderr: IO[bytes] | int = subprocess.STDOUT,
        start_new_session: bool = True,
    ) -> None:
        assert stdin in (subprocess.DEVNULL, subprocess.PIPE)
        assert start_new_session
        self.returncode: int | None = None
        self._server = socket.socket(socket.AF_UNIX)
        self._server.connect(f"{_server()}/socket")
        cold = {**env, COLD: "1"}
        parts = [str(cwd), str(len(arguments)), *arguments, *(f"{name}={value}" for name, value in cold.items())]
        request = os.fsencode("\0".join(parts))
        errors = stdout if isinstance(stderr, int) else stderr
        # Of a pipe nothing is read: it closes with this process.
        source, self._stdin = os.pipe() if stdin == subprocess.PIPE else (os.open(os.devnull, os.O_RDONLY), None)
        with open(source, "rb") as read:
            fds = [read.fileno(), stdout.fileno(), errors.fileno()]
            socket.send_fds(self._server, [len(request).to_bytes(4, "big")], fds)
            self._server.sendall(request)
            pid = self._told()
        if pid is None:
            # As a number it would be 0, and a signal to it would end whoever sends it.
            raise ChildProcessError("The server of forks has ended.")
        self.pid = pid
        self._all[self.pid] = self

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._server], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("a fork", timeout or 0)
            # The server ends its forks when it ends, unless it is killed.
            status = self._told()
            self.returncode = -signal.SIGKILL if status is None else os.waitstatus_to_exitcode(status)
            self._server.close()
            if self._stdin is not None:
                os.close(self._stdin)
            del self._all[self.pid]
        return self.returncode

    def _told(self) -> int | None:
        """The server's next number; None if it has ended."""
        with contextlib.suppress(ConnectionError):
            if told := self._server.recv(4):
                return int.from_bytes(told, "big")
        return None

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        # It may end meanwhile.
        with contextlib.suppress(ProcessLookupError):
            if self.poll() is None:
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Server:
    """Forks on request until its stdin is closed."""

    def __init__(self, folder: Path, listening: socket.socket) -> None:
        self._python, self._listening = str(folder / "forked-python"), listening
        self._running: dict[int, socket.socket] = {}
        self._imported: set[str] = set()
        self._prepared: set[str] = set()
        self._ours: dict[str, ModuleType] = {}
        self._environment = dict(os.environ)

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
                _send(client, status)

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
        worker = bool(environment.pop(WORKER, None))
        if worker:
            self._import(_CLOUDS.values(), _FOR_TESTS)
        else:
            self._prepare(arguments, environment)
        # An interrupt within a fork's set-up would be lost, or be a traceback.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        pid = os.fork()
        if not pid:
            sys.executable = sys.executable if worker or environment.get(COLD) else self._python
            self._become(fds, cwd, arguments, environment, worker)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        for fd in fds:
            os.close(fd)
        self._running[pid] = client
        _send(client, pid)

    def _prepare(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        """Import and read everything that runs on a cloud need."""
        daemons = {cloud for cloud in _CLOUDS.values() if f"localcloud.{cloud}.serve" in arguments}
        clouds = daemons or {cloud for variable, cloud in _CLOUDS.items() if variable in environment} or {"aws"}
        self._import(clouds)
        for cloud in clouds - self._prepared:
            self._prepared.add(cloud)
            with self._importing():
                _read(cloud)
            host: Any = importlib.import_module("localcloud.engine.host")
            if not isinstance(host.interpreter, functools.partial):
                host.interpreter = functools.partial(_interpreter, self._python, host.interpreter)
            gc.collect()
            gc.freeze()

    def _import(self, clouds: Iterable[str], others: Iterable[str] = ()) -> None:
        """Import the packages that runs on clouds need, and other modules."""
        new = {*clouds} - self._imported
        if not new:
            return
        self._imported |= new
        with self._importing():
            for cloud in sorted(new):
                # `tidemill.cli` keeps its modules for the verbs that use them.
                packages = [*_modules("components", cloud), *_modules("tidemill", cloud)]
                packages = [each for each in packages if not each.startswith("tidemill.cli.")]
                for name in ("pulumi_policy", "rules", f"localcloud.{cloud}.serve", *packages):
                    importlib.import_module(name)
            for name in others:
                importlib.import_module(name)
        gc.collect()
        gc.freeze()

    @contextlib.contextmanager
    def _importing(self) -> Iterator[None]:
        """Find our own modules, and set them aside for `_Kept` in the end."""
        sys.path[:0] = ours = [str(ROOT), str(ROOT / "policy")]
        sys.modules |= self._ours
        yield
        del sys.path[: len(ours)]
        for name in [name for name in sys.modules if name.partition(".")[0] in _OURS]:
            self._ours[name] = sys.modules.pop(name)

    def _become(
        self, fds: list[int], cwd: str, arguments: list[str], environment: dict[str, str], worker: bool
    ) -> NoReturn:
        """Become the requested process, and end like it."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for number, fd in enumerate(fds):
                os.dup2(fd, number)
            os.closerange(3, 1024)
            os.setsid()
            os.chdir(cwd)
            # Modules have set variables when they were imported.
            imported = {name: value for name, value in os.environ.items() if name not in self._environment}
            os.environ.clear()
            os.environ.update(imported | environment)
            if not worker and not environment.get(COLD):
                # It ends before there is much garbage.
                gc.disable()
            if worker:
                sys.modules |= self._ours
            else:
                sys.meta_path.insert(0, _Kept(self._ours))
            # As with `-u`, which does not hold back bytes either.
            outputs = (io.FileIO(fd, "w", closefd=False) for fd in (1, 2))
            sys.stdout, sys.stderr = (io.TextIOWrapper(each, write_through=True) for each in outputs)
            if signal.sigpending() & _SIGNALS:
                os._exit(128 + signal.SIGINT)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
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


class _Kept(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers an import with the module that the server has made of the same file."""

    def __init__(self, modules: Mapping[str, ModuleType]) -> None:
        self._modules = modules

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name not in self._modules:
            return None
        found = importlib.machinery.PathFinder.find_spec(name, path, target)
        kept = self._modules[name].__file__
        if not found or not found.origin or not kept or not os.path.samefile(found.origin, kept):
            return None
        found.loader = self
        return found

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return self._modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        """It was executed in the server."""


def _modules(package: str, cloud: str) -> list[str]:
    """The modules of a package that are for every cloud or for one of them."""
    (other,) = {*_CLOUDS.values()} - {cloud}
    found = pkgutil.walk_packages([str(ROOT / package)], f"{package}.")
    return [each.name for each in found if other not in each.name.split(".") and not each.name.endswith("__main__")]


def _read(cloud: str) -> None:
    """Read what localcloud's provider reads, and import the SDK's modules of the types that it knows."""
    names = (f"localcloud.{cloud}.provider.server", f"pulumi_{cloud}", "pulumi._types")
    server, sdk, sdk_types = (importlib.import_module(name) for name in names)
    provider = server.PROVIDER
    for row in provider.kind.rows.values():
        _, place, name = row.token.split(":")
        module = place.partition("/")[0]
        module = f"{module}_" if keyword.iskeyword(module) else module
        # It keeps what it finds out about a class.
        sdk_types.resource_types(getattr(getattr(sdk, module), name))
        for step in (*row.steps(), *row.read, *row.delete, *row.tags):
            provider.kind.shape(step.get("service", row.service), step["op"])
    if cloud == "aws":
        # A daemon knows AWS's own policies from the start.
        importlib.import_module("localcloud.aws.accounts").iam()
        clients = provider.configure({"region": "us-west-2"})
        for service in {"sts", *(row.service for row in provider.kind.rows.values())}:
            client = clients.get(service)
            client.can_paginate(next(iter(client.meta.method_to_api_mapping)))


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
        sys.modules.pop(rest[0], None)  # it is run, not imported
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
