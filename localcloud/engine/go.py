"""Programs that Go builds from the module proxy, once per version of their sources, into the user's cache folder."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

BUILD_SECONDS = 1800
READ_ONLY = {"GOFLAGS": "-mod=readonly", "GOWORK": "off"}
"""The module files decide what is built, wherever the checkout is."""


class EngineError(Exception):
    """A program that localcloud needs is missing and cannot be built. The text says what to do."""


def cache() -> Path:
    """Return the folder of built programs, which is outside every checkout."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidemill"


def key(sources: Path) -> str:
    """Return what tells a version of a module's sources, and of the modules in its folders, from others."""
    files = sorted(path for pattern in ("*.go", "go.mod", "go.sum") for path in sources.rglob(pattern))
    return hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in files)).hexdigest()[:16]


def build(name: str, sources: Path, takes: str, packages: Sequence[str] = (".",)) -> Path:
    """Build packages of a module, unless this version of its sources is already built.

    Args:
        name: The name that people use; it also names the folder in the cache.
        sources: A folder with go.mod, go.sum and optionally Go files.
        takes: How long a build takes, for messages.
        packages: The packages to build, by import path.

    Returns:
        The folder of the programs. Each program has the last part of its package's name.

    Raises:
        EngineError: Go is missing, or the module proxy refused or failed.
    """
    folder = cache() / name.lower().replace("/", "") / key(sources)
    done = folder / "bin"
    if done.exists():
        return done
    go = shutil.which("go")
    if go is None:
        raise EngineError(f"{name} is built with Go, which is not on PATH: https://go.dev/dl")
    with locked(folder):
        if not done.exists():
            partial = folder / "part"
            partial.mkdir(exist_ok=True)
            command = [go, "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", f"{partial}/", *packages]
            environment = {**os.environ, **READ_ONLY, "CGO_ENABLED": "0"}
            run_go(name, command, sources, environment, f"building (about {takes}, once)")
            partial.rename(done)
    return done


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Create a folder and hold its lock. Two processes never build at once; the second finds the result."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run_go(name: str, command: list[str], folder: Path, environment: dict[str, str], what: str) -> str:
    """Run a Go command and show the elapsed seconds on stderr.

    Returns:
        The command's output.

    Raises:
        EngineError: It failed, or took longer than `BUILD_SECONDS`. The text holds the end of its output.
    """
    started = time.monotonic()
    start, end = ("\r", "") if sys.stderr.isatty() else ("", "\n")
    print(f"{name}: {what} …", file=sys.stderr, flush=True)
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output = None
            while output is None:
                try:
                    output, _ = process.communicate(timeout=1 if start else 30)
                except subprocess.TimeoutExpired:
                    seconds = time.monotonic() - started
                    if seconds > BUILD_SECONDS:
                        raise EngineError(f"{' '.join(command)} took longer than {BUILD_SECONDS} s") from None
                    print(f"{start}  {seconds:.0f} s", end=end, file=sys.stderr, flush=True)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # and the compilers that it started
    print(start and "\n", end="", file=sys.stderr)
    if process.returncode:
        tail = "\n".join(output.splitlines()[-12:])
        raise EngineError(
            f"{name} could not be built: `go {command[1]}` ended with {process.returncode}:\n{tail}\n"
            "Check GOPROXY (`go env GOPROXY`) and the network."
        )
    return output
