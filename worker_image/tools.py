"""The Go programs: the image's entry point, and crane, which pushes the image."""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
BUILD_SECONDS = 900
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""Kernel architecture names to those of Go and OCI."""


class BuildError(Exception):
    """The image cannot be built here; the text says why and what to do."""


def cache() -> Path:
    """The folder of cached builds, outside every checkout."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "tidemill" / "worker"


def architecture() -> str:
    """This machine's architecture, as OCI names it."""
    try:
        return ARCHITECTURES[platform.machine()]
    except KeyError:
        names = ", ".join(ARCHITECTURES)
        raise BuildError(f"There is no worker for {platform.machine()} machines, only for {names}.") from None


def entry(target: Path, architecture: str) -> None:
    """Build the static entry point; the same source and Go version give the same bytes."""
    flags = ["-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid="]
    _go(["build", *flags, "-o", str(target), "."], HERE / "entry", CGO_ENABLED="0", GOARCH=architecture)


def crane() -> Path:
    """crane, built once per version from the Go module proxy.

    Source: https://github.com/google/go-containerregistry/tree/main/cmd/crane
    """
    source = HERE / "tools"
    content = (source / "go.mod").read_bytes() + (source / "go.sum").read_bytes()
    folder = cache() / f"tools-{hashlib.sha256(content).hexdigest()[:12]}"
    if not (folder / "crane").exists():
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # two processes never build at once; the second finds the result
            if not (folder / "crane").exists():
                _go(["install", "-trimpath", "-ldflags", "-s -w", "tool"], source, GOBIN=str(folder))
    return folder / "crane"


def _go(arguments: list[str], folder: Path, **environment: str) -> None:
    go = shutil.which("go")
    if go is None:
        raise BuildError("Go is not on PATH: install it (https://go.dev/dl).")
    done = run(
        [go, *arguments], cwd=folder, env={**os.environ, "GOFLAGS": "-mod=readonly", "GOWORK": "off"} | environment
    )
    if done.returncode:
        raise BuildError(f"`go {' '.join(arguments)}` ended with {done.returncode}:\n{done.stdout}{done.stderr}")


def run(
    command: list[str], *, cwd: Path | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program of the build to its end, its output captured."""
    return subprocess.run(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
