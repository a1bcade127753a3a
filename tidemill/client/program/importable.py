"""A function that is given as an object: the name by which machines import it, and the folder that travels with it."""

from __future__ import annotations

import inspect
import sys
import sysconfig
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

from tidemill.errors import CallerError

_wrong = partial(CallerError, what="function")
_MOVE = "Write it as a function of a module, such as functions.py, and import it from there."


def shipped(function: Callable[..., Any]) -> tuple[str, Path | None]:
    """`module:function`, and the folder from which machines import the module; None where it must be installed there.

    Raises:
        CallerError: Machines cannot import it: it belongs to the program itself, or to another function.
    """
    if not callable(function):
        raise CallerError.about("function", function, "a function, or 'module:function'", _MOVE)
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not module or not name or isinstance(function, partial) or inspect.ismethod(function):
        raise _wrong(f"function is {_said(function)}, which has no name that machines could import it by.", _MOVE)
    _check_name(function, module, name)
    loaded = sys.modules.get(module)
    try:
        same = attrgetter(name)(loaded) is function
    except AttributeError:
        same = False
    if not same:
        raise _wrong(f"function is {_said(function)}, and {module}.{name} is something else.", _MOVE)
    return f"{module}:{name}", _folder(loaded, module)


def _said(function: object) -> str:
    name = getattr(function, "__qualname__", None)
    return f"a {type(function).__name__}" + (f", {name}" if name else "")


def _check_name(function: Callable[..., Any], module: str, name: str) -> None:
    if name.endswith("<lambda>"):
        raise _wrong("function is a lambda, which has no name that machines could import it by.", _MOVE)
    if "<locals>" in name:
        outer, _, inner = name.rpartition(".<locals>.")
        raise _wrong(
            f"function is {inner}, which is made inside {outer}; machines import functions, and do not get what it has "
            "captured.",
            f"{_MOVE} What differs from item to item can be the items' metadata (a parameter named `meta`), what does "
            "not a variable of env=.",
        )
    if module == "__main__":
        where = getattr(sys.modules["__main__"], "__file__", None)
        if where is None:
            raise _wrong(
                f"function is {name} of this session, and machines import functions from modules.",
                f"{_MOVE} In a notebook, `%%writefile functions.py` as the first line of the cell writes it.",
            )
        raise _wrong(
            f"function is {name} of {Path(where).name}, the program that starts the job; machines would start it again "
            "when they import it.",
            _MOVE,
        )


def _folder(module: Any, name: str) -> Path | None:
    """The folder in which a module is found by its name; None for one that is installed."""
    file = getattr(module, "__file__", None)
    if file is None:
        return None
    path = Path(file).resolve()
    if any(path.is_relative_to(place) for place in _installed()):
        return None
    parts = name.split(".")
    inner = path.parent if path.name == "__init__.py" else path.with_suffix("")
    if list(inner.parts[-len(parts) :]) != parts:
        raise _wrong(f"function is of the module {name}, which was loaded from {path}: another name.", _MOVE)
    root = inner.parents[len(parts) - 1]
    if root in (Path.home(), Path("/")):
        raise _wrong(
            f"function is of {path.name} in {root}, and machines would get all of that folder, logins included.",
            "Move the module into a folder of its own, or name what to send with code=.",
        )
    return root


def _installed() -> set[Path]:
    """Folders of installed packages: an image brings its own."""
    paths = sysconfig.get_paths()
    return {Path(paths[key]).resolve() for key in ("stdlib", "platstdlib", "purelib", "platlib")}
