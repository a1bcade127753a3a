"""Modules of the caller's own folders: what of them a function needs, by what is imported."""

from __future__ import annotations

import ast
import importlib.util
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path

from tidemill.errors import CallerError


class OwnModules:
    """Modules of the caller's own folders that a program uses: those that are added, and what they import in turn.

    Args:
        path: Folders in which they are looked for, as a Python that has not loaded them does; None for modules as this
            process has loaded them, or would.
        in_place: Whether they are used where they are: one may have the name of a module of Python's own.

    Attributes:
        files: Modules that are single files, by their names in the code.
        folders: Packages, by the names of their folders in the code. A package counts whole: it may read its own data.
        packages: Top-level names of installed modules that are used.
    """

    def __init__(self, path: Sequence[str] | None = None, *, in_place: bool = False) -> None:
        self.files: dict[str, Path] = {}
        self.folders: dict[str, Path] = {}
        self.packages: set[str] = set()
        self._path, self._in_place = path, in_place
        self._seen: set[str] = set()
        # A file that was written within the same tick of the clock as another would not be found.
        importlib.invalidate_caches()

    def add(self, module: str) -> None:
        """Add a module and what it imports.

        Raises:
            CallerError: It has the name of a module of Python's own.
        """
        if module in self._seen:
            return
        self._seen.add(module)
        top = module.partition(".")[0]
        places = _places(top, self._path)
        if not places or top in ("__main__", "cloudpickle"):
            return
        if any(map(is_installed, places)):
            if top not in sys.stdlib_module_names:
                self.packages.add(top)
            return
        if top in sys.stdlib_module_names and not self._in_place:
            raise CallerError(
                f"function uses {top}, which is {places[0]} here; on a machine that file would take the place of "
                f"Python's own module {top!r}.",
                "Rename the file.",
                what="function",
            )
        for place in places:
            self._add_at(module.split("."), place)

    def follow(self, tree: ast.AST, package: str = "") -> None:
        """Add what Python code imports; `package` is where relative imports begin."""
        for name in imported_names(tree, package):
            self.add(name)

    def _add_at(self, parts: list[str], place: Path) -> None:
        """Add the first package or file on the way to a module, whose top is at a place."""
        for depth, part in enumerate(parts):
            if depth:
                place = next((path for path in (place / part, place / f"{part}.py") if path.exists()), place / part)
            name = "/".join([*parts[:depth], place.name if place.is_file() else part])
            if place.is_file():
                if name not in self.files:
                    self.files[name] = place
                    self._follow_files([place], ".".join(parts[:depth]))
                return
            if (place / "__init__.py").is_file():
                if name not in self.folders:
                    self.folders[name] = place
                    # What they import relatively is in the package.
                    self._follow_files(place.rglob("*.py"), "")
                return
        # A folder without `__init__.py`: what is loaded from it is what is used.
        head = ".".join(parts) + "."
        for name in sorted(name for name in sys.modules if name.startswith(head)):
            self.add(name)

    def _follow_files(self, files: Iterable[Path], package: str) -> None:
        for file in files:
            if (tree := parsed(file)) is not None:
                self.follow(tree, package)


def parsed(file: Path) -> ast.Module | None:
    """A Python file's code; None for a file of another kind, and where it cannot be parsed here."""
    if file.suffix != ".py":
        return None
    try:
        return ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None


def imported_names(tree: ast.AST, package: str = "") -> Iterator[str]:
    """Names of the modules that Python code imports. Where relative imports need a package that is not given, they are
    left out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.level == 0 or package):
            module = _absolute(node.module, package.split("."), node.level)
            if module:
                yield module
                yield from (f"{module}.{one.name}" for one in node.names)
        elif isinstance(node, ast.Call) and node.args and _called(node) in ("import_module", "__import__"):
            name = node.args[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str) and not name.value.startswith("."):
                yield name.value


def _absolute(module: str | None, package: Sequence[str], level: int) -> str:
    above = package[: max(0, len(package) + 1 - level)] if level else []
    return ".".join([*above, *([module] if module else [])])


def _called(call: ast.Call) -> str | None:
    return getattr(call.func, "attr", None) or getattr(call.func, "id", None)


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


def _places(top: str, path: Sequence[str] | None) -> list[Path]:
    """Files or folders of a top-level module as it is loaded here, or would be; none for one that is built in."""
    loaded = sys.modules.get(top) if path is None else None
    try:
        spec = getattr(loaded, "__spec__", None) or (
            importlib.util.find_spec(top) if path is None else PathFinder.find_spec(top, path)
        )
    except (ImportError, ValueError):
        spec = None
    if spec is not None and spec.submodule_search_locations:
        return [Path(place).resolve() for place in spec.submodule_search_locations]
    file = getattr(loaded, "__file__", None) or (spec.origin if spec is not None and spec.has_location else None)
    return [Path(file).resolve()] if file else []
