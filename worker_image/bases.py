"""Where a tree's interpreter and C library come from: this machine, or Debian's packages for another architecture."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from worker_image import debian, tools
from worker_image.tools import BuildError

COMPILE = ("-m", "compileall")


class Base(Protocol):
    """An interpreter with its standard library, and the libraries that programs load.

    Attributes:
        version: Of Python: ``(3, 11, 2)``.
        python: The interpreter.
        strip: Name of the program that removes debug symbols for this architecture.
        wheels: Options of `uv pip install` that choose this Python's wheels.
        compile: The command `compileall` of a Python whose bytecode this one reads.
    """

    version: tuple[int, int, int]
    python: Path
    strip: str
    wheels: list[str]
    compile: list[str]

    def libraries(self) -> dict[str, Path]:
        """The folders of the standard library, by their names below the prefix."""
        ...

    def needed(self, path: Path) -> Iterator[tuple[str, str]]:
        """Names of an object's libraries and their paths, empty if there is none; a loader's name is a path."""
        ...


def base(architecture: str) -> Base:
    """The base of an architecture, as OCI names it.

    Raises:
        BuildError: This machine cannot build for it.
    """
    if sys.platform != "linux":
        raise BuildError(f"The worker is built from a Linux machine's own Python and libraries, not on {sys.platform}.")
    return LocalPython() if architecture == tools.architecture() else Debian(architecture)


class LocalPython:
    """This machine's own Python."""

    strip = "strip"

    def __init__(self) -> None:
        self.version = (sys.version_info.major, sys.version_info.minor, sys.version_info.micro)
        self.python = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
        self.wheels = ["--python", sys.executable]
        self.compile = [sys.executable, *COMPILE]

    def libraries(self) -> dict[str, Path]:
        """As Python's own `sysconfig` has them."""
        prefix = Path(sys.base_prefix)
        places = {"base": str(prefix), "platbase": sys.base_exec_prefix}
        folders = [Path(sysconfig.get_path(name, vars=places)) for name in ("stdlib", "platstdlib")]
        return {str(path.relative_to(prefix)): path for path in folders}

    def needed(self, path: Path) -> Iterator[tuple[str, str]]:
        """Source: https://man7.org/linux/man-pages/man1/ldd.1.html"""
        path.chmod(path.stat().st_mode | 0o700)  # ldd warns if a file is not executable
        env = {**os.environ, "LD_LIBRARY_PATH": str(Path(sys.base_exec_prefix, sys.platlibdir))}
        done = subprocess.run(["ldd", str(path)], env=env, capture_output=True, text=True, timeout=60, check=False)
        for line in done.stdout.splitlines():
            words = line.split()
            if "=>" in words:
                yield words[0], "" if "not found" in line else words[2]
            elif words and words[0].startswith("/"):
                yield words[0], words[0]


class Debian:
    """Debian's Python for another architecture. The same version for this machine compiles its modules."""

    def __init__(self, architecture: str) -> None:
        self._root, here = debian.root(architecture), debian.root(tools.architecture())
        triple = debian.TRIPLES[architecture]
        self._folders = [self._root / "lib" / triple, self._root / "usr/lib" / triple]
        self.version = debian.version(architecture)
        self.python = self._root / "usr/bin" / debian.PYTHON
        self.strip = f"{triple}-strip"
        platform = f"{triple.partition('-')[0]}-manylinux_2_28"
        minor = debian.PYTHON.removeprefix("python")
        self.wheels = ["--python", sys.executable, "--python-platform", platform, "--python-version", minor]
        self.compile = [*debian.command(here), *COMPILE]

    def libraries(self) -> dict[str, Path]:
        """One folder: a minimal Python has its compiled modules there, too."""
        return {f"lib/{debian.PYTHON}": self._root / "usr/lib" / debian.PYTHON}

    def needed(self, path: Path) -> Iterator[tuple[str, str]]:
        """Source: https://man7.org/linux/man-pages/man1/readelf.1.html"""
        if shutil.which("readelf") is None:
            raise BuildError("readelf is not on PATH: install binutils.")
        done = tools.run(["readelf", "-dlW", str(path)], env={**os.environ, "LC_ALL": "C"})
        loader = re.search(r"program interpreter: (.+)\]", done.stdout)
        for name in re.findall(r"\(NEEDED\).*\[(.+)\]", done.stdout) + ([loader[1]] if loader else []):
            file = next((each / Path(name).name for each in self._folders if (each / Path(name).name).exists()), "")
            yield (str(file) if Path(name).name.startswith("ld-") else name), str(file)
