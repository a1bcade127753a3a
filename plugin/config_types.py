"""A stack config's models as types of the package's schema, so that other languages can complete and check them."""

import json
from collections.abc import Mapping
from typing import Any

from pulumi.provider.experimental.analyzer import PropertyDefinition, PropertyType, TypeDefinition
from pulumi.provider.experimental.util import camel_case
from pydantic import BaseModel

from components.config.later import MARK

_DEFS = "#/$defs/"
_RANGES = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "minItems": "at least {} of them",
    "maxItems": "at most {} of them",
    "minProperties": "at least {} of them",
    "maxProperties": "at most {} of them",
}

Schema = Mapping[str, Any]


def types_of(model: type[BaseModel], package: str) -> dict[str, TypeDefinition]:
    """A model and every model in it, by name, from their JSON schema.

    A config decides what is created, so its keys are plain: known before anything is. Not so the keys whose values may
    come from another resource, and the objects that such keys are in: what is plain has only plain values.
    """
    schema = model.model_json_schema()
    models = {**schema.get("$defs", {}), model.__name__: schema}
    return {name: _type(name, models, package) for name in models}


def reference(name: str, package: str) -> str:
    """How a schema refers to a model's type."""
    return f"#/types/{package}:index:{name}"


def with_default(text: str | None, default: Any) -> str:
    """A sentence plus the key's default; empty lists and objects are not mentioned."""
    text = text or ""
    return text if default in (None, [], {}) else f"{text} Default: {_shown(default)}."


def _type(name: str, models: Mapping[str, Schema], package: str) -> TypeDefinition:
    schema = models[name]
    properties, required = schema.get("properties", {}), schema.get("required", [])
    return TypeDefinition(
        name=name,
        type=PropertyType.OBJECT,
        properties={
            camel_case(key): _property(value, models, package, optional=key not in required)
            for key, value in properties.items()
        },
        properties_mapping={camel_case(key): key for key in properties},
        module=__name__,
        python_type=dict,
        description=schema.get("description"),
    )


def _property(
    schema: Schema, models: Mapping[str, Schema], package: str, *, optional: bool = False
) -> PropertyDefinition:
    kind = _not_null(schema)
    named = kind["$ref"].removeprefix(_DEFS) if "$ref" in kind else None
    described = schema.get("description") or (models[named].get("description") if named else None)
    plain = None if _has_outputs(schema, models) else True
    definition = PropertyDefinition(optional=optional, plain=plain, description=_sentence(described, schema, kind))
    if named:
        definition.ref = reference(named, package)
    elif "type" not in kind:
        definition.ref = "pulumi.json#/Any"  # one of several types: its sentence says which
    else:
        definition.type = PropertyType(kind["type"])
    if definition.type is PropertyType.ARRAY:
        definition.items = _property(kind.get("items", {}), models, package)
    if definition.type is PropertyType.OBJECT:
        definition.additional_properties = _property(_values(kind), models, package)
    return definition


def _has_outputs(schema: Any, models: Mapping[str, Schema]) -> bool:
    """True if a value of the schema may be an output, or have one in it."""
    if isinstance(schema, list):
        return any(_has_outputs(each, models) for each in schema)
    if not isinstance(schema, Mapping):
        return False
    if reference := schema.get("$ref"):
        return _has_outputs(models[reference.removeprefix(_DEFS)], models)
    named = (value for key in ("properties", "patternProperties") for value in schema.get(key, {}).values())
    parts = (schema.get(key) for key in ("anyOf", "items", "additionalProperties"))
    return MARK in schema or any(_has_outputs(each, models) for each in (*parts, *named))


def _values(kind: Schema) -> Schema:
    """The type of a mapping's values, empty for any; a pattern of its keys goes into the description."""
    named = [*kind.get("patternProperties", {}).values(), kind.get("additionalProperties")]
    return next((each for each in named if isinstance(each, Mapping)), {})


def _not_null(schema: Schema) -> Schema:
    """A schema without its "or null": optional keys are "this or null" in a JSON schema; a package uses `required`."""
    choices = [choice for choice in schema.get("anyOf", []) if choice.get("type") != "null"]
    return choices[0] if len(choices) == 1 else schema


def _sentence(described: str | None, schema: Schema, kind: Schema) -> str | None:
    """A key's purpose, allowed values and default."""
    if described is None:
        return None
    allowed = [", ".join(map(str, kind["enum"]))] if "enum" in kind else []
    allowed += [words.format(kind[key]) for key, words in _RANGES.items() if key in kind]
    text = f"{described} Allowed: {', '.join(allowed)}." if allowed else described
    simple = "$ref" not in kind and kind.get("type") != "object"
    return with_default(text, schema.get("default") if simple else None)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(_named(value))


def _named(value: Any) -> Any:
    """A default with its keys as the schema has them."""
    if isinstance(value, dict):
        return {camel_case(key): _named(inner) for key, inner in value.items()}
    return [_named(inner) for inner in value] if isinstance(value, list) else value
