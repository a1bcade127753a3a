"""`tidemill:overrides` on localcloud, which does not have every property that a provider has."""

from collections.abc import Iterator, Mapping
from typing import Any

from ops.review.diffs import at, parts

Overrides = Mapping[str, Mapping[str, Any]]
"""Properties by the name of a resource, or by its type and name: `LaunchTemplate/x-machines`."""


def by_resource(overrides: Overrides) -> dict[str, list[str]]:
    """The paths that overrides set, by the resource's name."""
    found: dict[str, list[str]] = {}
    for key, properties in overrides.items():
        found.setdefault(_name(key), []).extend(_paths(properties))
    return found


def not_judged(preview: Mapping[str, Any]) -> dict[str, list[str]]:
    """The paths that a preview document's overrides set and its resources lack, by the override's key."""
    steps = (preview["preview"] or {}).get("steps", ())
    found: dict[str, list[str]] = {}
    for key, properties in preview["overrides"].items():
        kind = key.rpartition("/")[0]
        for step in steps:
            *_, types, name = step["urn"].split("::", 3)
            if name == _name(key) and types.endswith(f":{kind}" if kind else "") and step.get("newState"):
                inputs = step["newState"].get("inputs") or {}
                if left := [path for path in _paths(properties) if at(inputs, parts(path)) is None]:
                    found[key] = left
    return found


def _name(key: str) -> str:
    return key.rpartition("/")[2]


def _paths(value: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """Paths of values that are not mappings; null removes a property, so it sets none."""
    for key, inner in value.items():
        path = f"{above}.{key}" if above else str(key)
        if isinstance(inner, Mapping) and inner:
            yield from _paths(inner, path)
        elif inner is not None:
            yield path
