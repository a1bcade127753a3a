"""A function that is given as an object: how machines get it, and what travels with it.

By its name where they can import it, with its module and what that imports of the caller's own folders; else by value
(`tidemill.client.program.by_value`).
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any

from tidemill.client.program.function import ShippedFunction, by_name, parts_of
from tidemill.client.program.own_modules import OwnModules, is_installed
from tidemill.client.program.uses import is_named
from tidemill.code import PACKAGE, CodeParts
from tidemill.errors import CallerError
from tidemill.figures import counted

_wrong = partial(CallerError, what="function")


_LAZY = "which returns a {}: none of its code runs until somebody {} that, and a machine does not."


def shipped(
    function: Callable[..., Any] | str, item_class: type | None = None, item_type: str | None = None
) -> ShippedFunction:
    """Decide how a function travels.

    Args:
        function: The function, or its name.
        item_class: The class of the job's items, which travels with it.
        item_type: What else is known of them.

    Raises:
        CallerError: It is none, or uses what cannot leave this process.
    """
    if not isinstance(function, str) and not callable(function):
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
    modules = OwnModules()
    found = by_name(function) if isinstance(function, str) else None
    name = _named(function, made, modules) if found is None else found.name
    if item_class is not None:
        item_type = _named(item_class, made, modules)
    if found is not None and found.parts is not None:
        modules.files |= found.parts.files
        modules.folders |= found.parts.folders
    if made:
        from tidemill.client.program.by_value import by_value

        parts: CodeParts | None = by_value(_said(function), made, modules)
    else:
        parts = parts_of(modules, name)
    takes_input = "input" in _parameters(function) if callable(function) else found and found.takes_input
    return ShippedFunction(name, item_type, parts, takes_input)


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


def _named(value: Any, made: dict[str, Any], modules: OwnModules) -> str:
    """The name by which machines find a function or class. Its module is added to those that travel; what has no name
    is added to what is made for the job."""
    if is_named(value):
        _check_name(sys.modules[value.__module__], value.__module__)
        modules.add(value.__module__)
        return f"{value.__module__}:{value.__qualname__}"
    short = re.sub(r"\W", "", _name(value).rpartition(".")[2]) or "function"
    name = short if short not in made else f"{short}_{len(made)}"
    made[name] = value
    return f"{PACKAGE}:{name}"


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


def _check_name(module: Any, name: str) -> None:
    """Refuse a module that was loaded under another name than the one by which machines find its file."""
    file = getattr(module, "__file__", None)
    if file is None or is_installed(path := Path(file).resolve()):
        return
    parts = name.split(".")
    inner = path.parent if path.name == "__init__.py" else path.with_suffix("")
    if list(inner.parts[-len(parts) :]) != parts:
        raise _wrong(
            f"function is of the module {name}, which was loaded from {path}: another name.", "Import it by that name."
        )
