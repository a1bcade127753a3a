"""Runs the resources and outputs of a Pulumi YAML program: interpolations, `${resource.output}` and `${configuration}`.

It sends what the engine gets from any language. It shows nothing of Pulumi's own language host for YAML.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pulumi

REFERENCE = re.compile(r"\$\{([\w-]+)(?:\.(\w+))?\}")


class Component(pulumi.ComponentResource):
    """A component of a package."""

    def __init__(self, kind: str, name: str, inputs: dict[str, Any]) -> None:
        super().__init__(kind, name, inputs | {"descriptorUri": None}, None, remote=True)

    @property
    def outputs(self) -> Any:
        return vars(self)


def filled(value: Any) -> Any:
    """A value of the file, with what its references mean."""
    if isinstance(value, dict):
        return {key: filled(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner) for inner in value]
    found = REFERENCE.fullmatch(value) if isinstance(value, str) else None
    if not found:
        return value
    name, output = found.groups()
    return getattr(made[name], output) if output else pulumi.Config().get_object(name)


program = json.loads(Path("program.json").read_text())
made: dict[str, Any] = {}
for name, resource in program["resources"].items():
    kind, inputs = resource["type"], filled(resource.get("properties", {}))
    if kind.startswith("tidemill:"):
        made[name] = Component(kind, name, inputs)
    else:
        made[name] = pulumi.CustomResource(kind, name, inputs | dict.fromkeys(["arn", "bucket"]))
for name, value in program["outputs"].items():
    pulumi.export(name, filled(value))
