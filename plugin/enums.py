"""Closed sets of texts as enums of the package's schema, so that editors offer them and compilers refuse others.

They are written into the finished schema: the SDK's own enums would turn a list of texts into empty objects.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pulumi.provider.experimental.util import camel_case
from pydantic import BaseModel

Schema = dict[str, Any]


def add_enums(schema: Schema, models: Iterable[type[BaseModel]], arguments: Mapping[tuple[str, str], str]) -> None:
    """Replace texts that a model allows few of by references to enums, in place.

    Args:
        schema: The package's schema.
        models: Models whose types the schema has; an enum is named after the model and the key, `RungMarket`.
        arguments: Enums that arguments of components take, by component and argument.
    """
    package, types = schema["name"], schema["types"]
    for model in models:
        document = model.model_json_schema()
        for name, described in {**document.get("$defs", {}), model.__name__: document}.items():
            properties = types.get(f"{package}:index:{name}", {}).get("properties", {})
            for key, value in described.get("properties", {}).items():
                if texts := _texts(value):
                    enum = f"{name}{camel_case(f'_{key}')}"
                    types[f"{package}:index:{enum}"] = _enum(texts, value.get("description"))
                    if camel_case(key) in properties:
                        _refer(properties[camel_case(key)], package, enum)
    for (component, argument), enum in arguments.items():
        _refer(schema["resources"][f"{package}:index:{component}"]["inputProperties"][argument], package, enum)


def _texts(value: Mapping[str, Any]) -> list[str]:
    """The texts that a key allows, or each value of its list; empty if there are too many to name."""
    choices = [value, value.get("items", {}), *value.get("anyOf", [])]
    found = next((choice["enum"] for choice in choices if choice.get("type") == "string" and "enum" in choice), [])
    return [*found]


def _enum(texts: list[str], description: str | None) -> Schema:
    values = [{"name": camel_case(f"_{text}"), "value": text} for text in texts]
    return {"type": "string", "description": description, "enum": values}


def _refer(described: Schema, package: str, enum: str) -> None:
    """Let a property, or each value of its list, have an enum as its type."""
    holder = described["items"] if described.get("type") == "array" else described
    holder.pop("type", None)
    holder["$ref"] = f"#/types/{package}:index:{enum}"
