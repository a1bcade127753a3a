"""Check and diff of one resource, as its row of the table defines them: what a preview needs, without a cloud."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from .convert import UNKNOWN, NotImitatedError, RefusedError, check_pattern, has_unknown, nearest, parsed
from .table import Row, fill

Props = dict[str, Any]


def merged_tags(tags: Any, defaults: dict[str, str]) -> Any:
    """Merge a resource's tags over the provider's default tags (`tagsAll`)."""
    return UNKNOWN if has_unknown(tags) else {**defaults, **(tags or {})}


def check(this: Row, name: str, old: Props, new: Props, seed: bytes) -> Props:
    """Complete the inputs with defaults and the automatic name.

    Raises:
        RefusedError: A property is unknown or missing, or the cloud's model does not accept it.
    """
    _known(this, new)
    inputs = {**this.defaults, **{key: value for key, value in new.items() if value is not None}}
    if this.autoname:
        key = this.autoname["property"]
        if key not in inputs:
            inputs[key] = old.get(key) or _automatic(this, name, seed)
    for key in this.required:
        if key not in inputs:
            raise RefusedError(key, f"is required by {this.token}")
    for key, rule in this.allowed.items():
        value = inputs.get(key)
        if value is None or has_unknown(value):
            continue
        if isinstance(rule, str):
            check_pattern(value, rule, key)
        elif value not in rule:
            raise RefusedError(key, f"{value!r} is not one of {', '.join(map(str, rule))}")
    this.kind.check(this.token, inputs)
    context = {**inputs, "changed": inputs, "added": inputs}
    for step in this.steps():
        shape = this.kind.shape(step.get("service", this.service), step["op"])
        fill(step.get("params", {}), shape, context, this.names)
    return inputs


def checked(  # noqa: PLR0917
    this: Row, name: str, old: Props, new: Props, seed: bytes, left_out: Sequence[str] = ()
) -> Props:
    """`check`, without the properties below some paths that localcloud does not have.

    Args:
        left_out: Paths such as `ingress` and `metadataOptions.instanceMetadataTags`.
    """
    while True:
        try:
            return check(this, name, old, new, seed)
        except NotImitatedError as error:
            parts = re.findall(r"[^.\[\]]+", error.path)
            if not any(_along(parts, path.split(".")) for path in left_out):
                raise
            new = _without(new, parts)


def _along(one: list[str], other: list[str]) -> bool:
    """Whether one path leads to the other, or below it."""
    size = min(len(one), len(other))
    return one[:size] == other[:size]


def _without(value: Any, path: list[str]) -> Any:
    """A value without what is at a path."""
    first, *rest = path
    if isinstance(value, list):
        index = int(first)
        return [*value[:index], _without(value[index], rest), *value[index + 1 :]]
    kept = {key: item for key, item in value.items() if key != first}
    return {**kept, first: _without(value[first], rest)} if rest else kept


def _known(this: Row, inputs: Props) -> None:
    for key, value in inputs.items():
        if key not in this.properties:
            known = nearest(key, this.properties)
            raise NotImitatedError(key, f"no such property of {this.token} in localcloud{known}")
        members = this.properties[key]
        for member in value if members and isinstance(value, dict) else ():
            if member not in members:
                raise NotImitatedError(f"{key}.{member}", f"no such property{nearest(member, members)}")


def _automatic(this: Row, name: str, seed: bytes) -> str:
    """The name and seven random characters, which a provider refuses if they are too long together; it cuts none.

    Source: AutoName in https://github.com/pulumi/pulumi-terraform-bridge/blob/main/pkg/tfbridge/names.go
    """
    rule = this.autoname or {}
    made = f"{name.lower() if rule.get('lower') else name}-{hashlib.sha256(seed or name.encode()).hexdigest()[:7]}"
    if len(made) > rule["max"]:
        wanted = f"{name!r} plus 7 random characters has {len(made)}"
        raise RefusedError(rule["property"], f"the automatic name {wanted}; {this.token} takes at most {rule['max']}")
    return rule.get("prefix", "") + made


def _paths(old: Any, new: Any, path: str, sets: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the paths at which two inputs differ, with `add`, `delete` or `update`."""
    if old is None or new is None:
        if old is not new and not (old in ({}, []) or new in ({}, [])):
            yield path, "add" if old is None else "delete"
    elif isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            yield from _paths(old.get(key), new.get(key), f"{path}.{key}" if path else key, sets)
    elif isinstance(old, list) and isinstance(new, list):
        if path in sets:
            if sorted(map(repr, old)) != sorted(map(repr, new)):
                yield path, "update"
        elif len(old) != len(new):
            yield path, "update"
        else:
            for index, (before, after) in enumerate(zip(old, new, strict=True)):
                yield from _paths(before, after, f"{path}[{index}]", sets)
    elif parsed(old) != parsed(new) and str(old).lower() != str(new).lower():
        yield path, "update"


def diff(this: Row, old: Props, new: Props, ignored: list[str] | None = None) -> dict[str, tuple[str, bool]]:
    """Return what changes between two inputs: path to (add, delete or update; whether it replaces the resource)."""
    rules = [*this.replace, *(this.kind.replaces(this.replace_if, old, new) if this.replace_if else [])]
    found = {}
    for path, kind in _paths(old, new, "", this.sets):
        root = re.split(r"[.\[]", path)[0]
        plain = re.sub(r"\[\d+\]", "", path)
        kept = kind == "delete" and not {root, plain}.isdisjoint(this.computed)
        if root in (ignored or []) or path in (ignored or []) or kept:
            continue
        found[path] = (
            kind,
            any(plain == rule or plain.startswith(f"{rule}.") for rule in rules)
            or (kind != "update" and f"{plain}#" in rules),
        )
    return found
