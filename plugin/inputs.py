"""Checks a component's inputs from another program against the package's schema.

The SDK's own mapping drops unknown keys, and reads a value that is not an object as an empty one.
"""

from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi.errors import InputPropertyError
from pulumi.output import Unknown
from pulumi.provider.experimental.analyzer import PropertyDefinition, TypeDefinition

from components.config.errors import nearest, shown

Properties = Mapping[str, PropertyDefinition]
Types = Mapping[str, TypeDefinition]


def check(inputs: Mapping[str, Any], properties: Properties, types: Types, path: str = "") -> None:
    """Refuse inputs that would not reach the component as written.

    Raises:
        InputPropertyError: an unknown key, a value that should be an object, or a value that is not known yet.
    """
    for key, value in inputs.items():
        where = f"{path}.{key}" if path else key
        if key not in properties:
            guess = nearest(key, properties)
            meant = f" Did you mean {guess}?" if guess else ""
            raise InputPropertyError(where, f"there is no {key} here; allowed: {', '.join(properties)}.{meant}")
        _check(value, properties[key], types, where)


def _check(value: Any, wanted: PropertyDefinition, types: Types, path: str) -> None:
    if value is None:
        return
    if isinstance(value, (pulumi.Output, Unknown)):
        parts = (wanted, wanted.items, wanted.additional_properties)
        if wanted.plain or any(part and _named(part, types) for part in parts):
            raise InputPropertyError(
                path,
                "it decides what is created, so it must be known before that. Pass a plain value, not a secret or an "
                "output of a resource.",
            )
        return
    if named := _named(wanted, types):
        check(_a(dict, value, path), named.properties, types, path)
    elif wanted.items:
        for index, item in enumerate(_a(list, value, path)):
            _check(item, wanted.items, types, f"{path}[{index}]")
    elif wanted.additional_properties:
        for key, item in _a(dict, value, path).items():
            _check(item, wanted.additional_properties, types, f"{path}.{key}")


def _named(wanted: PropertyDefinition, types: Types) -> TypeDefinition | None:
    """The type of an object with known keys."""
    return types.get((wanted.ref or "").rpartition(":")[2])


def _a(kind: type, value: Any, path: str) -> Any:
    """The value if it has the kind."""
    if not isinstance(value, kind):
        wanted = "an object" if kind is dict else "a list"
        raise InputPropertyError(path, f"{shown(value)} is not allowed. Allowed: {wanted}.")
    return value


def whole_numbers(value: Any) -> Any:
    """Inputs with 3 for 3.0: the wire format has no whole numbers, so every number arrives as a float."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: whole_numbers(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [whole_numbers(inner) for inner in value]
    return value
