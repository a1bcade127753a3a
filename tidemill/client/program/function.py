"""A function that is given by its name: inspected without an import, where its module is at hand, and what travels with
it."""

from __future__ import annotations

import ast
import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tidemill.client.program.own_modules import OwnModules
from tidemill.code import REQUIREMENTS, CodeParts
from tidemill.errors import CallerError, nearest


class ShippedFunction(NamedTuple):
    """A function on its way to machines.

    Attributes:
        name: `module:function`, as machines import it.
        item_type: How machines make the function's argument of an item; see `JobSpec.item_type`.
        parts: What travels of it: its module and what that imports of the caller's own folders, or the function itself
            by value; None where nothing does, because machines have it installed.
        takes_input: Whether a parameter is named `input`; None where only an import would tell.
    """

    name: str
    item_type: str | None
    parts: CodeParts | None
    takes_input: bool | None


def by_name(function: str) -> ShippedFunction:
    """A function of a module of this folder, or of one that PYTHONPATH names, as it travels."""
    modules = OwnModules(search_path(Path.cwd(), os.environ))
    modules.add(function.partition(":")[0])
    parts = parts_of(modules, function)
    return ShippedFunction(function, None, parts, parts and takes_input(function, Path.cwd()))


def parts_of(modules: OwnModules, function: str) -> CodeParts | None:
    """Modules as parts of code, with the requirements.txt beside that of the function; None where there are none."""
    if not modules.files and not modules.folders:
        return None
    own, files = function.partition(":")[0].partition(".")[0], dict(modules.files)
    for name, path in [*modules.files.items(), *modules.folders.items()]:
        root = path.parents[name.count("/")]
        if name.partition("/")[0].partition(".")[0] == own and (root / REQUIREMENTS).is_file():
            files[REQUIREMENTS] = root / REQUIREMENTS
    return CodeParts(files, modules.folders)


def search_path(folder: Path, env: Mapping[str, str]) -> list[str]:
    """Folders in which a program of a folder finds modules that are not installed."""
    return [str(folder), *filter(None, env.get("PYTHONPATH", "").split(":"))]


def function_remarks(function: str, code: Path | None, local: bool) -> Iterator[str]:
    """Look for `module:function` in the folder that travels with the job, or in this one, whose modules travel by
    themselves.

    Yields:
        What may fail.

    Raises:
        CallerError: The module is at hand and does not have the function, or cannot be imported by that name.
    """
    module, _, name = function.partition(":")
    if module.endswith(".py"):
        right = f"{module.removesuffix('.py')}:{name}"
        raise CallerError(
            f"function is {function!r}; a module is named without .py: `function={right}`", what="function"
        )
    folder = code or Path.cwd()
    file = module_file(folder, module)
    if file:
        yield from _attribute(file, module, name.partition(".")[0])
        return
    if code is None and not local:
        return
    first = module.partition(".")[0]
    if first != module and module_file(folder, first):
        raise CallerError(
            f"function is {function!r}, and {folder / first} has no module {module.partition('.')[2]!r}.",
            what="function",
        )
    if first in sys.stdlib_module_names or (local and importlib.util.find_spec(first)):
        return
    near = nearest(first, [path.stem for path in folder.glob("*.py")])
    if local and near:
        raise CallerError(
            f"function is {function!r}; neither {folder} nor this Python has a module {first!r}.{near}",
            "Correct it.",
            what="function",
        )
    where = "the Python that runs it" if local else f"the image or {folder.name}/requirements.txt"
    yield f"{folder} has no module {first!r}; it must come from {where}.{near}"


def takes_input(function: str, code: Path | None) -> bool | None:
    """True if a function of the folder that travels with the job has a parameter named `input`; None if only an import
    would tell."""
    module, _, name = function.partition(":")
    file = None if code is None else module_file(code, module)
    if file is None:
        return None
    try:
        target: ast.AST | None = ast.parse(file.read_bytes(), str(file))
    except (SyntaxError, ValueError):
        return None
    for part in name.split("."):
        target = next((node for node in getattr(target, "body", ()) if getattr(node, "name", "") == part), None)
    if not isinstance(target, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return None
    names = {argument.arg for argument in (*target.args.posonlyargs, *target.args.args, *target.args.kwonlyargs)}
    # A decorator may change what it is called with.
    return True if "input" in names else None if target.decorator_list else False


def module_file(folder: Path, module: str) -> Path | None:
    """The file of a module, as Python looks for it."""
    path = folder.joinpath(*module.split("."))
    return next((file for file in (path / "__init__.py", path.with_suffix(".py")) if file.is_file()), None)


def _attribute(file: Path, module: str, name: str) -> Iterator[str]:
    try:
        tree = ast.parse(file.read_bytes(), str(file))
    except (SyntaxError, ValueError) as error:
        where = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        yield f"{file.name}{where} cannot be parsed here ({error.args[0]}); a newer Python of the image might."
        return
    names = set(_names(tree))
    if name not in names and not names & {"*", "__getattr__"}:
        raise CallerError(
            f"The module {module} ({file}) has no function {name!r}.{nearest(name, names)}", what="function"
        )


def _names(tree: ast.Module) -> Iterator[str]:
    """Names that a module may define, wherever they are: a definition may depend on a condition."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.alias):
            yield node.asname or node.name.partition(".")[0]
