"""A function that is given as an object: how machines get it, and what travels with it.

By its name where they can import it, in the folder of its module; else by value (`tidemill.client.program.by_value`).
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tidemill.client.program.own_modules import is_installed
from tidemill.client.program.uses import is_named
from tidemill.code import PACKAGE, CodeParts
from tidemill.errors import CallerError
from tidemill.figures import counted

_wrong = partial(CallerError, what="function")


class ShippedFunction(NamedTuple):
    """A function on its way to machines.

    Attributes:
        name: `module:function`, as machines import it.
        item_type: How machines make the function's argument of an item; see `JobSpec.item_type`.
        folder: The folder that has its module; None where it must be installed there, or travels by value.
        parts: What travels of it by value; None where nothing does.
        takes_input: Whether a parameter is named `input`; None where only an import would tell.
    """

    name: str
    item_type: str | None
    folder: Path | None
    parts: CodeParts | None
    takes_input: bool | None


_LAZY = "which returns a {}: none of its code runs until somebody {} that, and a machine does not."


def shipped(
    function: Callable[..., Any] | str, item_class: type | None = None, item_type: str | None = None
) -> ShippedFunction:
    """Decide how a function travels.

    Args:
        function: The function.
        item_class: The class of the job's items, which travels with it.
        item_type: What else is known of them.

    Raises:
        CallerError: It is none, or uses what cannot leave this process.
    """
    by_name = isinstance(function, str)
    if not by_name and not callable(function):
        fix = "Give the function itself, or the name of one that machines can import."
        raise CallerError.about("function", function, "a function, or 'module:function'", fix)
    if inspect.isgeneratorfunction(function):
        raise _wrong(
            f"function is {_said(function)}, {_LAZY.format('generator', 'iterates')}", "Return a list instead."
        )
    if inspect.iscoroutinefunction(function):
        fix = "Give a plain function that calls `asyncio.run`."
        raise _wrong(f"function is {_said(function)}, {_LAZY.format('coroutine', 'awaits')}", fix)
    made: dict[str, Any] = {}
    name, folder = (function, None) if by_name else _named(function, made)
    if item_class is not None:
        item_type, of_class = _named(item_class, made)
        folder = folder or of_class
        if of_class not in (None, folder):
            made[item_class.__name__] = item_class
    parts = None
    if made:
        from tidemill.client.program.by_value import by_value

        parts = by_value(_said(function), made)
    takes_input = None if by_name else "input" in _parameters(function)
    return ShippedFunction(name, item_type, folder, parts, takes_input)


def check_call(function: Callable[..., Any], count: int) -> None:
    """Refuse a function that cannot be called with so many values of an item.

    Raises:
        CallerError: What it takes.
    """
    parameters = list(_parameters(function))
    given = {name: None for name in parameters[count:] if name in ("index", "meta", "output", "output_uri")}
    try:
        inspect.signature(function).bind(*[None] * count, **given)
    except TypeError as error:
        raise _wrong(
            f"function is {_said(function)}, which cannot be called with {counted(count, 'value')} an item: {error}.",
            "What does not differ from item to item can be bound: functools.partial.",
        ) from None
    except ValueError:  # nothing is known of it
        return


def _named(value: Any, made: dict[str, Any]) -> tuple[str, Path | None]:
    """The name by which machines find a function or class, and the folder of its module. One that has none is added to
    those that are made for the job."""
    if is_named(value):
        return f"{value.__module__}:{value.__qualname__}", _folder(sys.modules[value.__module__], value.__module__)
    short = re.sub(r"\W", "", _name(value).rpartition(".")[2]) or "function"
    name = short if short not in made else f"{short}_{len(made)}"
    made[name] = value
    return f"{PACKAGE}:{name}", None


def _name(function: Any) -> str:
    """The name that a function has for people."""
    if isinstance(function, partial):
        return _name(function.func)
    return getattr(function, "__qualname__", None) or type(function).__qualname__


def _said(function: Any) -> str:
    name = _name(function)
    return "a lambda" if name.endswith("<lambda>") else name.rpartition("<locals>.")[2]


def _parameters(function: Callable[..., Any]) -> Collection[str]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return ()


def _folder(module: Any, name: str) -> Path | None:
    """The folder in which a module is found by its name; None for one that is installed."""
    file = getattr(module, "__file__", None)
    if file is None:
        return None
    path = Path(file).resolve()
    if is_installed(path):
        return None
    parts = name.split(".")
    inner = path.parent if path.name == "__init__.py" else path.with_suffix("")
    if list(inner.parts[-len(parts) :]) != parts:
        raise _wrong(
            f"function is of the module {name}, which was loaded from {path}: another name.", "Import it by that name."
        )
    root = inner.parents[len(parts) - 1]
    if root in (Path.home(), Path("/")):
        raise _wrong(
            f"function is of {path.name} in {root}, and machines would get all of that folder, logins included.",
            "Move the module into a folder of its own, or name what to send with code=.",
        )
    return root
