"""Both distributions as `pip install` puts them on another machine: built as the release builds them, in an environment
that has what they depend on and cannot import this repository."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import textwrap
from email import message_from_string
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

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
    python, packages = _installed(wheels, folder)
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return python


def install_alone(wheel: Path, folder: Path) -> Path:
    """Make an environment with one wheel and what it says that it needs, without its extras, and nothing else.

    The packages are links to those of our own environment, whose versions the wheel must allow.
    """
    python, packages = _installed([wheel], folder)
    name = wheel.name.partition("-")[0]
    for need in _needs([Path(each).read_text() for each in packages.glob(f"{name}-*.dist-info/METADATA")]):
        for file in {each.parts[0] for each in need.files or [] if ".." not in each.parts}:
            if not (packages / file).exists():
                (packages / file).symlink_to(Path(str(need.locate_file(file))))
    return python


def _needs(metadata: list[str]) -> list[Distribution]:
    """The distributions that metadata asks for, and that these ask for."""
    found: dict[str, Distribution] = {}
    waiting = [need for each in metadata for need in message_from_string(each).get_all("Requires-Dist") or []]
    while waiting:
        need = Requirement(waiting.pop())
        if need.name in found or (need.marker and not need.marker.evaluate({"extra": ""})):
            continue
        found[need.name] = distribution(need.name)
        assert need.specifier.contains(found[need.name].version), f"{need} is not met here"
        waiting += found[need.name].requires or []
    return list(found.values())


def _installed(wheels: list[Path], folder: Path) -> tuple[Path, Path]:
    """An environment with wheels alone: its interpreter, and where its packages are."""
    _uv("venv", "--python", sys.executable, str(folder))
    python = folder / "bin" / "python"
    _uv("pip", "install", "--no-index", "--no-deps", "--python", str(python), *map(str, wheels))
    return python, Path(
        _run([str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], folder).strip()
    )


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
