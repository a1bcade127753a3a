"""Puts functions into moto's own classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Function = TypeVar("Function", bound=Callable[..., object])


def method(owner: type, name: str) -> Callable[[Function], Function]:
    """Make a function a method of a class, in place of the one of that name, when its module is imported."""

    def put(function: Function) -> Function:
        setattr(owner, name, function)
        return function

    return put
