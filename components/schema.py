"""The JSON schema of a stack file, for editors: ``python -m components.schema`` writes ``stacks/schema.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from components import machines
from components.config.checks.images import OTHER_IMAGE, STACKS_IMAGE
from components.config.load import DIRECTIONS, GCP_PLACES, PROJECT
from components.config.models import StackConfig

FILE = Path(__file__).parent.parent / "stacks" / "schema.json"

_PLACES = {
    "aws:region": {
        "type": "string",
        "pattern": rf"^[a-z]{{2,4}}(-[a-z]+)?-{DIRECTIONS}-\d$",
        "description": "The AWS region.",
    },
    "gcp:project": {
        "type": "string",
        "pattern": f"^{GCP_PLACES['gcp:project'][0]}$",
        "description": "The GCP project; normally one per team.",
    },
    "gcp:region": {
        "type": "string",
        "pattern": f"^{GCP_PLACES['gcp:region'][0]}$",
        "description": "The GCP region.",
    },
}
"""Required keys of the clouds' own providers."""

_TAGS = {
    "aws:assumeRoles": {
        "type": ["array", "string"],
        "description": "Roles to assume one after the other, as a list: [{roleArn: …}].",
    },
    "aws:defaultTags": {
        "type": ["object", "string"],
        "properties": {"tags": {"type": "object"}},
        "additionalProperties": False,
        "description": "Your own tags of every resource, under tags: {tags: {CostCenter: '4711'}}.",
    },
    "gcp:defaultLabels": {
        "type": ["object", "string"],
        "propertyNames": {"pattern": r"^[a-z][a-z0-9_-]{0,62}$"},
        "description": "Your own labels of every resource; keys and values are lower-case.",
    },
}
"""Keys of providers whose mistakes show late: a list that is none, resources without tags. As text they are JSON.
Source: https://www.pulumi.com/registry/packages/aws/installation-configuration/"""


def schema() -> dict[str, Any]:
    """JSON schema of ``Pulumi.<stack>.yaml``: our keys in full, other providers' keys unchecked."""
    model = StackConfig.model_json_schema()
    _complete(model["$defs"] | {"StackConfig": model})
    keys = {f"{PROJECT}:{name}": value for name, value in model["properties"].items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A Tidemill stack",
        "type": "object",
        "properties": {
            "config": {
                "type": "object",
                "properties": {**_PLACES, **_TAGS, **keys},
                "required": [f"{PROJECT}:{name}" for name in model["required"]],
                "if": {"properties": {f"{PROJECT}:cloud": {"const": "gcp"}}, "required": [f"{PROJECT}:cloud"]},
                "then": {"required": ["gcp:project", "gcp:region"]},
                "else": {"required": ["aws:region"]},
                # Allow keys of providers, but no unknown keys of ours.
                "patternProperties": {f"^(?!{PROJECT}:)": {}},
                "additionalProperties": False,
            }
        },
        "$defs": model["$defs"],
    }


def _complete(definitions: dict[str, Any]) -> None:
    """Add patterns of names and references for editors, which the models leave to rules between keys."""
    known = dict.fromkeys([*machines.families("aws"), *machines.families("gcp")])
    definitions["Machines"]["properties"]["families"]["items"] = {"type": "string", "enum": [*known]}
    images = definitions["Queue"]["properties"]["images"]
    (names,) = images["patternProperties"]
    reference = f"^(?:{STACKS_IMAGE.pattern}|{OTHER_IMAGE.pattern})$"
    images |= {"patternProperties": {names: {"type": "string", "pattern": reference}}, "required": ["default"]}
    for definition in definitions.values():
        for value in definition.get("properties", {}).values():
            # pydantic lists a mapping's allowed names, but does not exclude others.
            if "patternProperties" in value:
                value["additionalProperties"] = False


def text() -> str:
    """The file's content."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Write the file."""
    FILE.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
