"""The files of this project that a program reads when it runs, followed through its imports."""

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from ops.project import ROOT

_PACKAGES = ("components", "policy", "tidemill")


def closure(starts: Iterable[str], without: tuple[str, ...] = ()) -> frozenset[str]:
    """The paths of the modules that run with some modules, themselves included.

    Imports inside functions count, except in `tidemill/`, which loads its client and its clouds only for callers who
    name them. A module that computes a module's name, such as a cloud's room, counts with all that may be meant.

    Args:
        starts: Paths of Python files, from the project's folder.
        without: Beginnings of paths that are not followed, such as `components/gcp/`.
    """
    files: set[str] = set()
    left = list(starts)
    while left:
        path = left.pop()
        if path not in files and not path.startswith(without):
            files.add(path)
            left += _imported(path)
    return frozenset(files)


@cache
def _imported(path: str) -> tuple[str, ...]:
    tree = ast.parse((ROOT / path).read_bytes())
    nodes = _run(tree) if path.startswith("tidemill/") else ast.walk(tree)
    files = {file for node in nodes for name in _names(node, path) for file in _files(name)}
    return tuple(sorted(files.union(_computed(tree, path))))


def _computed(tree: ast.Module, path: str) -> Iterator[str]:
    """The files of modules whose names a module computes in an f-string, whichever module imports them."""
    texts: dict[str, Any] = {"__package__": ".".join(Path(path).parts[:-1])}
    texts |= {
        node.targets[0].id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            name = "".join(_known(part, texts) for part in node.values)
            if "*" in name and name.startswith(tuple(f"{package}." for package in _PACKAGES)):
                pattern = name.replace(".", "/")
                # What `tidemill` finds so are the rooms of clouds and services, which are packages.
                modules = () if name.startswith("tidemill.") else ROOT.glob(f"{pattern}.py")
                for file in (*modules, *ROOT.glob(f"{pattern}/__init__.py")):
                    yield file.relative_to(ROOT).as_posix()


def _known(part: ast.expr, texts: dict[str, Any]) -> str:
    """A part of an f-string; `*` for what is known only when the program runs."""
    if isinstance(part, ast.Constant):
        return str(part.value)
    value = part.value if isinstance(part, ast.FormattedValue) else part
    return str(texts.get(value.id, "*")) if isinstance(value, ast.Name) else "*"


def _run(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes that run when a module is imported: neither the bodies of functions nor code for type checkers alone."""
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
