"""The JSON schema of a stack file, for editors: ``python -m components.schema`` writes ``stacks/schema.json``."""

import json
from pathlib import Path
from typing import Any

from . import machines
from .config.checks.images import OTHER_IMAGE, STACKS_IMAGE
from .config.later import MARK
from .config.load import PROJECT
from .config.models import StackConfig
from .rooms import CLOUDS, cloud_room

FILE = Path(__file__).parent.parent / "stacks" / "schema.json"


def schema() -> dict[str, Any]:
    """JSON schema of ``Pulumi.<stack>.yaml``: our keys in full, other providers' keys unchecked."""
    model = StackConfig.model_json_schema()
    _complete(model["$defs"] | {"StackConfig": model})
    _without_mark(model)
    keys = {f"{PROJECT}:{name}": value for name, value in model["properties"].items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A Tidemill stack",
        "type": "object",
        "properties": {
            "config": {
                "type": "object",
                "properties": {**_of_clouds("PLACES"), **_of_clouds("TAGS"), **keys},
                "required": [f"{PROJECT}:{name}" for name in model["required"]],
                **_place(*CLOUDS),
                # Allow keys of providers, but no unknown keys of ours.
                "patternProperties": {f"^(?!{PROJECT}:)": {}},
                "additionalProperties": False,
            }
        },
        "$defs": model["$defs"],
    }


def _without_mark(schema: Any) -> None:
    """A stack file has no outputs of resources."""
    if isinstance(schema, dict):
        schema.pop(MARK, None)
    for value in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        _without_mark(value)


def _of_clouds(name: str) -> dict[str, Any]:
    """Keys of the clouds' own providers."""
    return {key: value for cloud in CLOUDS for key, value in getattr(cloud_room(cloud, "keys"), name).items()}


def _place(default: str, *others: str) -> dict[str, Any]:
    """The keys that a stack's cloud requires; a stack that names no cloud is on the default one."""
    found: dict[str, Any] = {"required": [*cloud_room(default, "keys").PLACES]}
    for cloud in others:
        chosen = {"properties": {f"{PROJECT}:cloud": {"const": cloud}}, "required": [f"{PROJECT}:cloud"]}
        found = {"if": chosen, "then": {"required": [*cloud_room(cloud, "keys").PLACES]}, "else": found}
    return found


def _complete(definitions: dict[str, Any]) -> None:
    """Add patterns of names and references for editors, which the models leave to rules between keys."""
    families = dict.fromkeys(family for cloud in CLOUDS for family in machines.families(cloud))
    definitions["Machines"]["properties"]["families"]["items"] = {"type": "string", "enum": [*families]}
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
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    FILE.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
