"""A resource's input properties as its SDK declares them, under the names that the engine and stack files use."""

import inspect
import re
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

import pulumi

_NOT_INPUTS = ("self", "__self__", "resource_name", "opts", "__props__")
_NESTED = re.compile(r"ForwardRef\('(\w+Args)'\)")
Inputs = Mapping[str, type | None]
"""Classes of nested properties by name; None for plain values and for mappings with names of their own."""


@cache
def inputs_of(sdk_class: type) -> Inputs:
    """Input properties of a resource's class, or of a nested one; empty if its SDK does not tell."""
    made = None if issubclass(sdk_class, pulumi.Resource) else sdk_class.__init__
    made = getattr(sdk_class, "_internal_init", made)
    parameters = inspect.signature(made).parameters.values() if made else []
    module = sys.modules[sdk_class.__module__]
    return {
        _name(each.name): getattr(module, match[1], None) if (match := _NESTED.search(repr(each.annotation))) else None
        for each in parameters
        if each.name not in _NOT_INPUTS and each.kind is not each.VAR_KEYWORD
    }


def unknown_input(properties: Mapping[str, Any], inputs: Inputs) -> tuple[list[str | int], list[str]] | None:
    """The path of the first property that does not exist, and the names that do; None if all exist."""
    for name, value in properties.items():
        if inputs and name not in inputs:
            return [name], sorted(inputs)
        nested = inputs.get(name)
        for where, each in _mappings(value) if nested else ():
            if unknown := unknown_input(each, inputs_of(nested)):
                return [name, *where, *unknown[0]], unknown[1]
    return None


def _mappings(value: Any) -> list[tuple[list[int], Mapping[str, Any]]]:
    """A value that is a mapping, or the mappings of a list with their positions."""
    if isinstance(value, Mapping):
        return [([], value)]
    listed = enumerate(value) if isinstance(value, list) else ()
    return [([index], each) for index, each in listed if isinstance(each, Mapping)]


def _name(python_name: str) -> str:
    """``userData`` of ``user_data``."""
    return re.sub(r"_([a-z0-9])", lambda match: match[1].upper(), python_name)
