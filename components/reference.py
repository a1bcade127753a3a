"""References: ``python -m components.reference`` writes ``docs/stack-keys.md`` and ``docs/stack-outputs.md``."""

import ast
import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from .config.bootstrap_models import PROJECT as BOOTSTRAP
from .config.bootstrap_models import BootstrapConfig
from .config.load import PROJECT
from .config.models import StackConfig
from .config.shared_models import PROJECT as SHARED
from .config.shared_models import SharedConfig

_HERE = Path(__file__).parent
FILE = _HERE.parent / "docs" / "stack-keys.md"
OUTPUTS_FILE = _HERE.parent / "docs" / "stack-outputs.md"

_HEAD = """\
# Keys of a stack file

`python -m components.reference` writes this page from the models that check the files. Its costs are rounded list
prices, without warranty; `python -m ops estimate` computes a stack's own. *Needed* marks a key without a default.
Editors complete the keys from [stacks/schema.json](../stacks/schema.json); `python -m ops check` checks the files.
[teams.md](teams.md) describes how to add a team's stack.
"""

_NOT_EXPORTED = ("descriptor", "descriptor_uri", "exports")
_OUTPUTS_HEAD = """\
# Outputs of a stack

`python -m components.reference` writes this page from the attributes of `Pipeline`. `pulumi stack output NAME` prints
one, `--json` a list or a mapping; another stack reads them by a `StackReference`. In a program of your own they are
attributes of the pipeline with the same names (`pipeline.security_group_id`; in other languages `securityGroupId`), to
be given to other resources: [composing.md](composing.md#what-a-pipeline-gives). An output that is empty in a stack is
left out.

| output | value |
|---|---|
| `pipeline_uri` | URI of `pipeline.json`: all that a user needs, apart from a login (`descriptor_uri`) |
"""
_OUTPUTS_END = """\
| `submitter_policy_arn` | AWS: the first of `submitter_policy_arns`, for stacks that read this name already. |

The outputs of the other projects: `backend_url`, `secrets_provider` and, with `ci`, CI's identities of
[bootstrap/](../README.md#on-your-account); `shared`, which teams' stacks read, and `registry_url` of
[shared/](teams.md#what-teams-share).
"""


_FILES = {
    PROJECT: "`stacks/Pulumi.<stack>.yaml`",
    SHARED.name: "`shared/Pulumi.<stack>.yaml`, the shared stack",
    BOOTSTRAP.name: "`bootstrap/Pulumi.<stack>.yaml`, the stack of an account or project",
}


def text() -> str:
    parts = [_HEAD]
    for model, project in ((StackConfig, PROJECT), (SharedConfig, SHARED.name), (BootstrapConfig, BOOTSTRAP.name)):
        parts += _document(model, project)
    return "\n".join(parts)


def outputs_text() -> str:
    return _OUTPUTS_HEAD + "".join(f"| `{name}` | {about} |\n" for name, about in outputs().items()) + _OUTPUTS_END


def outputs() -> dict[str, str]:
    """The attributes of `Pipeline` that a stack exports under their names, with their docstrings."""
    module = ast.parse((_HERE / "pipeline.py").read_text(encoding="utf-8"))
    (body,) = (node.body for node in module.body if isinstance(node, ast.ClassDef) and node.name == "Pipeline")
    described: dict[str, str] = {}
    for node, after in pairwise(body):
        if isinstance(node, ast.AnnAssign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            described[ast.unparse(node.target)] = " ".join(str(after.value.value).split())
    return {name: about for name, about in described.items() if name not in _NOT_EXPORTED}


def _document(model: type[BaseModel], project: str) -> Iterator[str]:
    """A table of the keys, then one per object type."""
    schema = model.model_json_schema()
    definitions = schema.get("$defs", {})
    where = _FILES[project]
    yield f"## {project}\n\nThe keys of {where}.\n"
    yield _table(schema, definitions, f"{project}:")
    for name, path in _objects(schema, definitions, f"{project}:").items():
        definition = definitions[name]
        yield f'### <a id="{name.lower()}"></a>{path}\n\n{_sentence(definition, definitions)}\n'
        yield _table(definition, definitions, "")


def _objects(schema: Mapping[str, Any], definitions: Mapping[str, Any], path: str) -> dict[str, str]:
    """The objects below a schema and their paths, in reading order."""
    paths: dict[str, str] = {}
    for key, value in schema.get("properties", {}).items():
        several = {"array": "[]", "object": ".*name*"}.get(value.get("type", ""), "")
        for name in _references(value):
            if name not in paths:
                here = f"{path}{key}{several}"
                paths = {**paths, name: here, **_objects(definitions[name], definitions, f"{here}."), **paths}
    return paths


def _sentence(value: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """A schema's own description; a key does not repeat its object's description."""
    described = value.get("description")
    if described is None and "$ref" in value:
        described = definitions[value["$ref"].rpartition("/")[2]].get("description", "")
    return " ".join((described or "").split()).replace("|", "\\|")


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        if "$ref" in value:
            yield value["$ref"].rpartition("/")[2]
        for key, inner in value.items():
            if key not in ("default", "examples"):
                yield from _references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _references(inner)


def _table(schema: Mapping[str, Any], definitions: Mapping[str, Any], prefix: str) -> str:
    rows = ["| key | type | default | description and cost |", "|---|---|---|---|"]
    for key, value in schema["properties"].items():
        default = "*needed*" if key in schema.get("required", []) else _default(value)
        sentence = _sentence(value, definitions)
        rows.append(f"| `{prefix}{key}` | {_type(value, definitions)} | {default} | {sentence} |")
    return "\n".join(rows) + "\n"


def _default(value: Mapping[str, Any]) -> str:
    default = value.get("default")
    if "$ref" in value:
        return "as below"
    if default in (None, {}, []):
        return "none"
    return f"`{json.dumps(default, ensure_ascii=False)}`"


def _type(value: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """The allowed type, with its range."""
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in value:
        kinds = [_type(each, definitions) for each in value["anyOf"] if each.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if "enum" in value or "const" in value:
        return ", ".join(f"`{each}`" for each in value.get("enum", [value.get("const")]))
    if value.get("type") == "array":
        return f"list of {_type(value['items'], definitions)}{_count(value, 'Items')}"
    if value.get("type") == "object":
        inner = [*value.get("patternProperties", {}).values(), value.get("additionalProperties")]
        kind = _type(inner[0], definitions) if isinstance(inner[0], Mapping) else "value"
        return f"name: {kind}{_count(value, 'Properties')}"
    names = {"integer": "whole number", "number": "number", "boolean": "true or false", "string": "text"}
    return names.get(value.get("type", ""), "value") + _range(value)


def _range(value: Mapping[str, Any]) -> str:
    if value.get("format") == "date":
        return ", a day"
    if "patternErrorMessage" in value:
        return f": {value['patternErrorMessage']}"
    low, high = value.get("minimum"), value.get("maximum")
    return f", {low:,} to {high:,}" if low is not None and high is not None else ""


def _count(value: Mapping[str, Any], of: str) -> str:
    low, high = value.get(f"min{of}", 0), value.get(f"max{of}")
    return f", {low} to {high}" if high is not None else ""


def main() -> None:
    FILE.write_text(text(), encoding="utf-8")
    OUTPUTS_FILE.write_text(outputs_text(), encoding="utf-8")


if __name__ == "__main__":
    main()
