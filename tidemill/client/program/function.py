"""Inspects a function without importing it: parses its module, where that is at hand."""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

from tidemill.errors import CallerError, nearest


def function_remarks(function: str, code: Path | None, local: bool) -> Iterator[str]:
    """Look for `module:function` in the folder that travels with the job, or in this one for a local run.

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
    folder = code or (Path.cwd() if local else None)
    if folder is None:
        if module_file(Path.cwd(), module):
            raise CallerError(
                f"function is {function!r}; {module} is a module of this folder, which the queue's machines do not "
                "have.",
                "Send the folder: `code='.'`. To run the image's own module of that name, submit from another folder.",
                what="function",
            )
        return
    file = module_file(folder, module)
    if file:
        yield from _attribute(file, module, name.partition(".")[0])
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
