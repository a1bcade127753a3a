"""A flat program that declares what a stack's program declares, without components, written from a run of that program.

Each resource is one statement with the same properties. Values from another resource are read from it, and in a text
through `Output.concat`, which is the least that a program can do. The mock cloud returns marks in place of ids and
ARNs, so the references can be found.
"""

from __future__ import annotations

import importlib
import re
from typing import Any

import pulumi
from pulumi._types import input_type_py_to_pulumi_names

from tests.components.recording import Made, Recorder
from tests.components.stacks import run_program

_MARK = re.compile(r"@@(.+?)\|(\w+)@@")
_OUTPUTS = {"arn": "arn", "arnPrefix": "arn_prefix", "latestVersion": "latest_version", "name": "name"}
_OUTPUTS |= {"bucket": "bucket", "keyId": "key_id", "allocationId": "allocation_id"}

_HEAD = """
import pulumi
import pulumi_aws as aws

aws.get_caller_identity()
aws.get_partition()
aws.get_region()
aws.get_availability_zones(state="available", filters=[{"name": "opt-in-status", "values": ["opt-in-not-required"]}])
r = {}
"""


class Marker(Recorder):
    """Returns a mark for every output that components read."""

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        """Record a resource, and return marks for what only the cloud knows."""
        super().new_resource(args)
        known = {key: value for key, value in args.inputs.items() if not isinstance(value, dict)}
        mark = f"@@{args.typ} {args.name}"
        marks = {key: f"{mark}|{output}@@" for key, output in _OUTPUTS.items() if key not in known}
        return f"{mark}|id@@", {**args.inputs, **marks}


def record(settings: dict[str, Any]) -> list[Made]:
    """Return what the stack's program creates from a config with full keys."""
    return [made for made in run_program(settings, recorder=Marker()).resources if made.type.startswith("aws:")]


def write(resources: list[Made]) -> str:
    """Return the text of a program that declares the resources one by one."""
    return _HEAD + "".join(_statement(made) for made in resources)


def _statement(made: Made) -> str:
    kind = _class(made.kind)
    inputs = "".join(f"    {_argument(kind, key)}={_expression(value)},\n" for key, value in made.inputs.items())
    options = "    opts=pulumi.ResourceOptions(protect=True),\n" if made.options["protect"] else ""
    return f"r[{made.type + ' ' + made.name!r}] = aws.{made.kind}(\n    {made.name!r},\n{inputs}{options})\n"


def _class(kind: str) -> type:
    module, _, name = kind.partition(".")
    return getattr(importlib.import_module(f"pulumi_aws.{module}"), name)


def _argument(kind: type, key: str) -> str:
    """Return the Python name of a resource's property."""
    module, name = importlib.import_module(kind.__module__), kind.__name__
    # Prefer the longer name, because the shorter may be another resource's property.
    arguments = getattr(module, f"{name}InitArgs", None) or getattr(module, f"{name}Args")
    return {value: name for name, value in input_type_py_to_pulumi_names(arguments).items()}[key]


def _expression(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_expression(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_expression(inner) for inner in value) + "]"
    if not isinstance(value, str) or not _MARK.search(value):
        return repr(value)
    parts, end = [], 0
    for mark in _MARK.finditer(value):
        parts += [repr(value[end : mark.start()])] if mark.start() > end else []
        parts.append(f"r[{mark[1]!r}].{mark[2]}")
        end = mark.end()
    parts += [repr(value[end:])] if end < len(value) else []
    return parts[0] if len(parts) == 1 else f"pulumi.Output.concat({', '.join(parts)})"
