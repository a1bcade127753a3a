"""Puts functions into moto's own classes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., object])


def method(owner: type, name: str) -> Callable[[Function], Function]:
    """Make a function a method of a class, in place of the one of that name, when its module is imported."""

    def put(function: Function) -> Function:
        setattr(owner, name, function)
        return function

    return put


def check(owner: type, name: str, argument: str, refuse: Callable[[Any], None]) -> None:
    """Let a function see an argument of a method (None if it is not given) before each call, which it may refuse."""
    original = getattr(owner, name)
    signature = inspect.signature(original)

    @functools.wraps(original)
    def checked(*args: Any, **named: Any) -> Any:
        refuse(signature.bind(*args, **named).arguments.get(argument))
        return original(*args, **named)

    setattr(owner, name, checked)
