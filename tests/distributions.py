"""Both distributions as `pip install` puts them on another machine: built as the release builds them, in an environment
that has what they depend on and cannot import this repository."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import textwrap
from pathlib import Path

from tests.harness import ROOT

PROJECTS = (ROOT, ROOT / "components")
TIMEOUT_SECONDS = 300


def build(folder: Path) -> list[Path]:
    """Build both projects, without an index. Returns two sdists and two wheels.

    Raises:
        AssertionError: A build failed; the message holds its output.
    """
    for project in PROJECTS:
        _uv("build", "--no-build-isolation", "--python", sys.executable, "--out-dir", str(folder), str(project))
    return sorted(folder.glob("tidemill*"))


def install(wheels: list[Path], folder: Path) -> Path:
    """Make an environment with the wheels, and return its interpreter.

    What they depend on comes from our own environment, by a path on which the link to this repository is not followed.
    """
    _uv("venv", "--python", sys.executable, str(folder))
    python = folder / "bin" / "python"
    _uv("pip", "install", "--no-index", "--no-deps", "--python", str(python), *map(str, wheels))
    places = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
        timeout=TIMEOUT_SECONDS,
    )
    Path(places.stdout.strip(), "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return python


def ask(python: Path, folder: Path, program: str) -> str:
    """What a program prints in an environment, in a folder outside this repository.

    Raises:
        AssertionError: It failed; the message holds its output.
    """
    return _run([str(python), "-I", "-c", textwrap.dedent(program)], folder)


def _uv(*arguments: str) -> None:
    _run([str(Path(sys.prefix, "bin", "uv")), "--offline", *arguments], ROOT)


def _run(command: list[str], folder: Path) -> str:
    env = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        command,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
