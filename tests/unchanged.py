"""Leaves out checks that passed and whose input has not changed since, on the machine of a developer.

This concerns what no change to the product touches: the tests of the imitated clouds, and the type checker between two
runs of the tests. A check's key is the hash of all that it reads. The keys of checks that passed are kept in the user's
cache folder; where the folder is empty, as in CI, everything runs.
"""

from __future__ import annotations

import ast
import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests" / "localcloud"
ALL = "make test ALL=1 runs all"
_SETTINGS = ("requirements.txt", "pyproject.toml", "tests/conftest.py", "tests/unchanged.py")
_KEEP_SECONDS = 30 * 86400


class Unchanged:
    """A pytest plugin that leaves out the unchanged files of `tests/localcloud`, and records those that pass."""

    def __init__(self, config: pytest.Config) -> None:
        # Workers of xdist are told by the process that starts them.
        told: dict[str, list[str]] = getattr(config, "workerinput", {})
        self._keys = {} if told else {path: key([path, ROOT / "localcloud"]) for path in TESTS.rglob("test_*.py")}
        self._left_out = told.get("unchanged") or [str(path) for path, each in self._keys.items() if passed(each)]
        self._ran: set[Path] = set()
        self._failed: set[Path] = set()

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node) -> None:
        """Tell a worker of xdist."""
        node.workerinput["unchanged"] = self._left_out

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Do not even import what is left out."""
        return True if str(collection_path) in self._left_out else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the file of each test that ran, and of each that failed."""
        path = ROOT / report.nodeid.partition("::")[0]
        (self._failed if report.failed else self._ran).add(path)

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Record what passed, unless the session ended early."""
        if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            for path in (self._ran - self._failed) & self._keys.keys():
                record(self._keys[path])

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what did not run."""
        if count := len(self._left_out):
            files = f"{count} of {len(self._keys)} files of tests/localcloud"
            terminalreporter.write_line(f"left out, unchanged since they passed: {files}; {ALL}")


def key(starts: Iterable[Path]) -> str:
    """The hash of files, of the files below folders, and of everything in this repository that they import.

    Strings count as imports too where they are a dotted name of a module or the beginning of one. Data next to an
    imported module counts as part of it.
    """
    files = {found for start in starts for found in ([start] if start.is_file() else _below(start))}
    todo = [path for path in files if path.suffix == ".py"]
    while todo:
        new = _imported(todo.pop()) - files
        files |= new
        todo += [path for path in new if path.suffix == ".py"]
    return _hashed(files)


def passed(key: str) -> bool:
    """Whether a check with this key passed."""
    return (_folder() / key).exists()


def record(key: str) -> None:
    """Record that a check with this key passed. Old records go."""
    folder = _folder()
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if old.stat().st_mtime < time.time() - _KEEP_SECONDS:
            old.unlink(missing_ok=True)
    (folder / key).touch()


def _folder() -> Path:
    """Not the folder of the engine, which CI keeps between its runs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidemill-tests"


def _hashed(files: Iterable[Path]) -> str:
    whole = hashlib.sha256(f"{sys.version} {sys.platform}".encode())
    for path in sorted({*files, *(ROOT / each for each in _SETTINGS)}):
        whole.update(f"{path.relative_to(ROOT)} {_content(path)}\n".encode())
    return whole.hexdigest()


@cache
def _content(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _below(folder: Path, wanted: Callable[[str], bool] = lambda _: True) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = [each for each in folders if not each.startswith((".", "__pycache__")) and each != "build"]
        yield from (Path(place, name) for name in names if wanted(name))


@cache
def _imported(path: Path) -> frozenset[Path]:
    """Files of this repository that a module names."""
    names = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            names |= {base, *(f"{base}.{each.name}" for each in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
            names.add(node.value)
    return frozenset(found for name in names for found in _files(name))


@cache
def _files(name: str) -> frozenset[Path]:
    """Files of the module of a dotted name and of the packages above it. "package." is all below the package."""
    *parts, last = name.split(".")
    if not all(part.isidentifier() for part in parts) or not (last.isidentifier() or (parts and not last)):
        return frozenset()
    if not last:
        folder = ROOT.joinpath(*parts)
        return frozenset(_below(folder)) if (folder / "__init__.py").exists() else frozenset()
    found: set[Path] = set()
    for end in range(1, len(parts) + 2):
        place = ROOT.joinpath(*[*parts, last][:end])
        if place.with_suffix(".py").is_file():
            found |= {place.with_suffix(".py"), *_data(place.parent)}
        elif place.is_dir() and any(place.glob("*.py")):
            found |= {*place.glob("__init__.py"), *_data(place)}
    return frozenset(found)


@cache
def _data(folder: Path) -> frozenset[Path]:
    """Files next to modules that are none. Those of the checkout itself belong to no module."""
    others = () if folder == ROOT else folder.iterdir()
    return frozenset(path for path in others if path.is_file() and path.suffix not in (".py", ".pyc"))


def main() -> int:
    """Run a checker of the Python sources, unless it passed with the sources of now."""
    *options, checker = sys.argv[1:]
    now = _hashed(_below(ROOT, lambda name: name.endswith((".py", ".pyi"))))
    if "--all" not in options and passed(now):
        print(f"{Path(checker).name}: left out, no Python file changed since it passed; {ALL}")
        return 0
    if code := subprocess.run([checker], cwd=ROOT, check=False).returncode:
        return code
    record(now)
    return 0


if __name__ == "__main__":
    sys.exit(main())
