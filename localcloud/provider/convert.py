"""Converts values between the engine's properties and a cloud's shapes, driven and checked by the cloud's own models.

A shape is botocore's or has the same attributes: `type_name`, `members` and `required_members` of a structure,
`member` of a list, `value` of a map, and `metadata` with `enum`, `min`, `max` and `pattern`.
"""

from __future__ import annotations

import base64
import datetime
import difflib
import json
import re
from typing import Any

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"  # the engine's sentinel for a value that a preview does not know yet


class RefusedError(Exception):
    """The type or the cloud's own model does not accept a value. The text names the property and what is allowed."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path, self.reason = path, reason


class NotImitatedError(RefusedError):
    """localcloud does not have a property; the cloud may."""


def nearest(name: str, known: Any) -> str:
    """Return ` (did you mean 'x'?)` for the nearest known name, or an empty text."""
    close = difflib.get_close_matches(name, list(known), 1, 0.5)
    return f" (did you mean '{close[0]}'?)" if close else ""


def has_unknown(value: Any) -> bool:
    """Whether a value is or contains the engine's unknown."""
    if isinstance(value, dict):
        return any(has_unknown(item) for item in value.values())
    if isinstance(value, list):
        return any(has_unknown(item) for item in value)
    return value == UNKNOWN


def parsed(value: Any) -> Any:
    """Parse a text that holds a JSON document; return everything else unchanged."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _member(name: str, shape: Any, path: str) -> str:
    wanted = name.lower()
    found = next((member for member in shape.members if member.lower() == wanted), None)
    if found is None:
        known = [name[:1].lower() + name[1:] for name in shape.members]
        reason = f"no such property{nearest(name, known)}; known here: {', '.join(known)}"
        raise NotImitatedError(f"{path}.{name}", reason)
    return found


def to_api(value: Any, shape: Any, path: str, names: dict[str, str]) -> Any:
    """Convert a property's value to a shape.

    Args:
        names: Nested property names to the cloud's where they differ: `count: acceleratorCount`, in only one place
            `guestAccelerators.count: …`, and into a deeper place `sourceImage: initializeParams.sourceImage`.

    Raises:
        RefusedError: The shape lacks a member or requires a missing one, or a type, enum or pattern is wrong.
    """
    if value is None or value == UNKNOWN:
        return value
    if shape.type_name == "structure":
        return _structure(parsed(value), shape, path, names)
    if shape.type_name == "list":
        return _list(value, shape, path, names)
    if shape.type_name == "any":
        return value
    if shape.type_name == "map":
        return _map(value, shape, path, names)
    return _scalar(value, shape, path)


def _map(value: Any, shape: Any, path: str, names: dict[str, str]) -> Any:
    if isinstance(value, list) and UNKNOWN in value:
        return UNKNOWN
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        value = _named(value)
    if not isinstance(value, dict):
        raise RefusedError(path, f"expected a map, got {value!r}")
    return {key: to_api(item, shape.value, f"{path}.{key}", names) for key, item in value.items()}


def _named(items: list[dict[str, Any]]) -> dict[str, Any]:
    """The SDK has a list of named objects where the cloud has a map; an `id` also stays in the object. Some labels are
    objects of key and value."""
    if all(item.keys() == {"key", "value"} for item in items):
        return {item["key"]: item["value"] for item in items}
    plain = [{key: part for key, part in item.items() if key != "name"} for item in items]
    return {item["name" if "name" in item else "id"]: rest for item, rest in zip(items, plain, strict=True)}


def _structure(value: Any, shape: Any, path: str, names: dict[str, str]) -> dict[str, Any]:
    if isinstance(value, list) and len(value) == 1:  # the SDK has a list of one where the cloud has a structure
        value = value[0]
    if isinstance(value, str) and "Key" in shape.members:  # only a tag's key, which DeleteTags accepts
        return {"Key": value}
    if isinstance(value, str) and set(shape.members) == {"SubscriptionType", "Address"}:
        return {"SubscriptionType": "EMAIL", "Address": value}
    if isinstance(value, str) and set(shape.members) == {"zone"}:
        return {"zone": value}
    if not isinstance(value, dict):
        raise RefusedError(path, f"expected an object, got {value!r}")
    result: dict[str, Any] = {}
    for key, item in value.items():
        plain = re.sub(r"\[\d+\]", "", f"{path}.{key}")
        *above, last = str(names.get(plain) or names.get(key, key)).split(".")
        target, inner = result, shape
        for part in above:
            target, inner = target.setdefault(part, {}), inner.members[part]
        member = _member(last, inner, path)
        target[member] = to_api(item, inner.members[member], f"{path}.{key}", names)
    result = {key: item for key, item in result.items() if item is not None}
    for missing in set(shape.required_members) - set(result):
        raise RefusedError(path, f"'{missing}' is required")
    return result


def _list(value: Any, shape: Any, path: str, names: dict[str, str]) -> list[Any]:
    keys = set(getattr(shape.member, "members", {}))
    if isinstance(value, dict) and keys in (
        {"Key", "Value"},
        {"Name", "Value"},
        {"key", "value"},
        {"TagKey", "TagValue"},
    ):
        key_name, value_name = sorted(keys, key=len)
        return [{key_name: key, value_name: item} for key, item in value.items()]
    items = value if isinstance(value, list) else [value]
    return [to_api(item, shape.member, f"{path}[{index}]", names) for index, item in enumerate(items)]


def _scalar(value: Any, shape: Any, path: str) -> Any:
    kind = shape.type_name
    try:
        if kind in ("integer", "long") and not isinstance(value, bool):
            value = int(value) if float(value) == int(float(value)) else float("nan")
        elif kind in ("double", "float"):
            value = float(value)
        elif kind == "boolean":
            words = {"true": True, "false": False, **shape.metadata.get("words", {})}
            value = words[str(value).lower()]
        elif kind == "blob":
            return value.encode() if isinstance(value, str) else value
        elif kind == "string" and not isinstance(value, str):
            if isinstance(value, (dict, list)):
                raise ValueError
            value = str(value).lower() if isinstance(value, bool) else f"{value:.15g}"
    except (ValueError, KeyError, TypeError):
        raise RefusedError(path, f"expected {kind}, got {value!r}") from None
    _limits(value, shape, path)
    return value


def _limits(value: Any, shape: Any, path: str) -> None:
    rules = shape.metadata
    enum = rules.get("enum")
    if enum and value not in enum:
        raise RefusedError(path, f"{value!r} is not one of {', '.join(enum)}{nearest(str(value), enum)}")
    size = len(value) if isinstance(value, str) else value
    if isinstance(size, (int, float)) and not isinstance(value, bool):
        low, high = rules.get("min"), rules.get("max")
        if (low is not None and size < low) or (high is not None and size > high):
            what = "length of " if isinstance(value, str) else ""
            raise RefusedError(path, f"{what}{value!r} is not within {low} and {high}")
    if isinstance(value, str) and (pattern := rules.get("pattern")) and UNKNOWN not in value:
        check_pattern(value, pattern, path)


def check_pattern(value: str, pattern: str, path: str) -> None:
    """Refuse a text that does not match a service model's pattern (patterns that only Java reads are skipped)."""
    try:
        matches = re.fullmatch(pattern, value, re.DOTALL)
    except re.error:
        return
    if not matches:
        raise RefusedError(path, f"{value!r} does not match {pattern}")


def from_api(value: Any, names: dict[str, str], capital: bool = True) -> Any:
    """Convert an answer to property names and JSON types.

    Args:
        names: The cloud's nested names to property names.
        capital: The cloud's names begin with a capital; property names do not.
    """
    if isinstance(value, dict):
        plain = {key: key[:1].lower() + key[1:] if capital else key for key in value}
        return {names.get(key, plain[key]): from_api(item, names, capital) for key, item in value.items()}
    if isinstance(value, list):
        return [from_api(item, names, capital) for item in value]
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value


def tag_map(tags: Any) -> dict[str, str]:
    """Return tags in any of AWS's forms (map, Key and Value, TagKey and TagValue) as a map, without AWS's own tags."""
    if isinstance(tags, list):
        tags = {tag.get("Key", tag.get("TagKey")): tag.get("Value", tag.get("TagValue")) for tag in tags}
    return {key: value for key, value in (tags or {}).items() if not key.startswith("aws:")}


def covers(wanted: Any, found: Any, is_set: bool = False) -> bool:
    """Whether the cloud's answer still contains what was requested; members that the cloud added do not count.

    JSON texts are compared as documents, sets without their order, and numbers also with their text.
    """
    wanted, found = parsed(wanted), parsed(found)
    if isinstance(wanted, dict) and isinstance(found, dict):
        return all(covers(value, found.get(key), is_set) for key, value in wanted.items() if value is not None)
    if isinstance(wanted, list) and isinstance(found, list):
        if is_set and not any(isinstance(item, (dict, list)) for item in wanted + found):
            return sorted(map(str, wanted)) == sorted(map(str, found))
        return len(wanted) == len(found) and all(covers(a, b, is_set) for a, b in zip(wanted, found, strict=True))
    if found is None:
        return wanted in (None, "", False, 0, [], {})
    return wanted == found or _plain(wanted) == _plain(found)


def _plain(value: Any) -> str:
    """Remove differences without meaning from a text: case, and the host of Google's self links."""
    return str(value).lower().removeprefix("https://www.googleapis.com/compute/v1/")
