"""The files of this project that a program reads when it runs, followed through its imports."""

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from ops.project import ROOT

_PACKAGES = ("components", "policy", "tidemill")


def closure(starts: Iterable[str], without: tuple[str, ...] = ()) -> frozenset[str]:
    """The paths of the modules that run with some modules, themselves included.

    Imports inside functions count, except in `tidemill/`, which loads its client and its clouds only for callers who
    name them.

    Args:
        starts: Paths of Python files, from the project's folder.
        without: Beginnings of paths that are not followed, such as `components/gcp/`.
    """
    found: set[str] = set()
    left = list(starts)
    while left:
        path = left.pop()
        if path not in found and not path.startswith(without):
            found.add(path)
            left += _imported(path)
    return frozenset(found)


@cache
def _imported(path: str) -> tuple[str, ...]:
    tree = ast.parse((ROOT / path).read_bytes())
    nodes = _run(tree) if path.startswith("tidemill/") else ast.walk(tree)
    return tuple(sorted({file for node in nodes for name in _names(node, path) for file in _files(name)}))


def _run(node: ast.AST) -> Iterator[ast.AST]:
    """What runs when a module is imported: neither the bodies of functions nor what only type checkers read."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        yield child
        yield from _run(child)


def _names(node: ast.AST, path: str) -> Iterator[str]:
    """The dotted names that a statement may import."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        parents = Path(path).parts[: -node.level] if node.level else ()
        base = ".".join((*parents, *([node.module] if node.module else [])))
        yield base
        yield from (f"{base}.{alias.name}" for alias in node.names)


def _files(name: str) -> Iterator[str]:
    """The file of a module of this project, and those of its packages."""
    parts = name.split(".")
    if parts[0] not in _PACKAGES:
        return
    for end in range(1, len(parts) + 1):
        module = Path(*parts[:end])
        for path in (module / "__init__.py", module.with_suffix(".py")):
            if (ROOT / path).is_file():
                yield path.as_posix()
