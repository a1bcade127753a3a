"""Modules of the caller's own folders: what of them a function needs, by what is imported."""

from __future__ import annotations

import ast
import importlib.util
import site
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tidemill.errors import CallerError


class OwnModules:
    """Modules that travel with a function: those that it uses, and those that they import in turn.

    Attributes:
        files: Modules that are single files, by their names in the code.
        folders: Packages, by the names of their folders in the code. A package travels whole: it may read its own data.
        packages: Top-level names of installed modules that are used.
    """

    def __init__(self) -> None:
        self.files: dict[str, Path] = {}
        self.folders: dict[str, Path] = {}
        self.packages: set[str] = set()
        self._seen: set[str] = set()

    def add(self, module: str) -> None:
        """Add a module and what it imports.

        Raises:
            CallerError: It has the name of a module of Python's own.
        """
        if module in self._seen:
            return
        self._seen.add(module)
        top = module.partition(".")[0]
        places = _places(top)
        if not places or top in ("__main__", "cloudpickle"):
            return
        if any(map(is_installed, places)):
            if top not in sys.stdlib_module_names:
                self.packages.add(top)
            return
        if top in sys.stdlib_module_names:
            raise CallerError(
                f"function uses {top}, which is {places[0]} here; on a machine that file would take the place of "
                f"Python's own module {top!r}.",
                "Rename the file.",
                what="function",
            )
        for place in places:
            self._add_at(module.split("."), place)

    def _add_at(self, parts: list[str], place: Path) -> None:
        """Add the first package or file on the way to a module, whose top is at a place."""
        for depth, part in enumerate(parts):
            if depth:
                place = next((path for path in (place / part, place / f"{part}.py") if path.exists()), place / part)
            name = "/".join([*parts[:depth], place.name if place.is_file() else part])
            if place.is_file():
                if name not in self.files:
                    self.files[name] = place
                    self._follow([place])
                return
            if (place / "__init__.py").is_file():
                if name not in self.folders:
                    self.folders[name] = place
                    self._follow(place.rglob("*.py"))
                return
        # A folder without `__init__.py`: what is loaded from it is what is used.
        head = ".".join(parts) + "."
        for name in sorted(name for name in sys.modules if name.startswith(head)):
            self.add(name)

    def _follow(self, files: Iterator[Path] | list[Path]) -> None:
        for file in files:
            for name in imported_names(file):
                self.add(name)


def imported_names(file: Path) -> Iterator[str]:
    """Names of the modules that a Python file imports absolutely."""
    if file.suffix != ".py":
        return
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names)


def is_installed(path: Path) -> bool:
    """True for files of Python itself and of installed packages: an image brings its own."""
    return any(path.is_relative_to(place) for place in _installed()) or bool(
        {"site-packages", "dist-packages"} & set(path.parts)
    )


@cache
def _installed() -> frozenset[Path]:
    paths = sysconfig.get_paths()
    places = [paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")]
    return frozenset(Path(place).resolve() for place in [*places, site.getusersitepackages()])


def _places(top: str) -> list[Path]:
    """Files or folders of a top-level module as it is loaded here, or would be; none for one that is built in."""
    loaded = sys.modules.get(top)
    try:
        spec = getattr(loaded, "__spec__", None) or importlib.util.find_spec(top)
    except (ImportError, ValueError):
        spec = None
    if spec is not None and spec.submodule_search_locations:
        return [Path(place).resolve() for place in spec.submodule_search_locations]
    file = getattr(loaded, "__file__", None) or (spec.origin if spec is not None and spec.has_location else None)
    return [Path(file).resolve()] if file else []
