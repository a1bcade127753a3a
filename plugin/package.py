"""The package's schema, from the components' own annotations and docstrings."""

import dataclasses
import importlib
import inspect
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pulumi
from pulumi import Inputs
from pulumi.provider import ConstructResult
from pulumi.provider.experimental.analyzer import ComponentDefinition, PropertyDefinition
from pulumi.provider.experimental.component import ComponentProvider
from pulumi.provider.experimental.schema import generate_schema
from pydantic import BaseModel

from components.config import FileSystem, Queue, StackConfig
from components.config.shared_models import NewSharedNetwork
from plugin.config_types import reference, types_of, with_default
from plugin.enums import add_enums
from plugin.examples import Example
from plugin.inputs import check, whole_numbers

PACKAGE = "tidemill"
_PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
VERSION: str = _PROJECT["version"]

COMPONENTS = {
    "Pipeline": "components.pipeline",
    "AwsArrivals": "components.aws.sending.arrivals",
    "AwsBatchQueue": "components.services.batch.batch_queue",
    "AwsBootstrap": "components.aws.bootstrap",
    "AwsBudget": "components.aws.budget",
    "AwsCi": "components.aws.ci.ci",
    "AwsFileSystem": "components.aws.file_system",
    "AwsLogs": "components.aws.logs",
    "AwsMonitoring": "components.aws.monitoring.monitoring",
    "AwsNetwork": "components.aws.network",
    "AwsRegistry": "components.aws.registry",
    "AwsShared": "components.aws.shared",
    "AwsStore": "components.aws.store",
    "GcpArrivals": "components.gcp.sending.arrivals",
    "GcpBootstrap": "components.gcp.bootstrap",
    "GcpBudget": "components.gcp.budget",
    "GcpCi": "components.gcp.ci",
    "GcpFileSystem": "components.gcp.file_system",
    "GcpLogs": "components.gcp.logs",
    "GcpMonitoring": "components.gcp.monitoring.monitoring",
    "GcpNetwork": "components.gcp.network",
    "GcpReconciler": "components.services.pubsub.reconciler",
    "GcpRegistry": "components.gcp.registry",
    "GcpSender": "components.gcp.sending.sender",
    "GcpShared": "components.gcp.shared",
    "GcpStore": "components.gcp.store",
    "GcpWorkerPool": "components.services.pubsub.worker_pool",
}
"""The package's components and their modules. The identities are left out: their roles have no permissions until a
program calls the grant methods of other components, and other languages cannot call methods."""

MODELS: dict[tuple[str, str], type[BaseModel]] = {
    ("Pipeline", "config"): StackConfig,
    ("AwsBatchQueue", "settings"): Queue,
    ("AwsFileSystem", "settings"): FileSystem,
    ("GcpFileSystem", "settings"): FileSystem,
    ("GcpWorkerPool", "settings"): Queue,
}
"""Arguments that a model of the stack config describes."""

ENUMS = {
    ("AwsNetwork", "egress"): "NewNetworkEgress",
    ("AwsShared", "egress"): "NewSharedNetworkEgress",
    ("GcpLogs", "archive"): "LogsArchive",
    ("GcpNetwork", "egress"): "NewNetworkEgress",
    ("GcpShared", "egress"): "NewSharedNetworkEgress",
}
"""Arguments that take the same few texts as a key of the stack config."""


class Package(ComponentProvider):
    """Components as the SDK's analyzer describes them, plus what it cannot see: defaults and the config's keys.

    Args:
        components: names of components of the package; their modules are imported.
    """

    def __init__(self, components: list[str]) -> None:
        classes = [getattr(importlib.import_module(COMPONENTS[name]), name) for name in components]
        super().__init__(classes, PACKAGE, version=VERSION)
        for kind in classes:
            definition = self._component_defs[kind.__name__]
            example = Example(kind, PACKAGE, set(COMPONENTS)).markdown()
            definition.description = f"{_without_python(kind)}\n\n{example}"
            _say_defaults(definition, inspect.get_annotations(kind.__init__)["args"])
            _without_none(definition.inputs, "left out")
            _without_none(definition.outputs, "nothing")
            self._describe_config(definition)

    def _describe_config(self, definition: ComponentDefinition) -> None:
        for name, python_name in definition.inputs_mapping.items():
            if model := MODELS.get((definition.name, python_name)):
                self._type_defs.update(types_of(model, PACKAGE))
                given = definition.inputs[name]
                given.type = given.additional_properties = None
                given.ref = reference(model.__name__, PACKAGE)
                keys = self._type_defs[model.__name__].properties.values()
                given.plain = True if all(key.plain for key in keys) else None

    def construct(
        self, name: str, resource_type: str, inputs: Inputs, options: pulumi.ResourceOptions | None = None
    ) -> ConstructResult:
        """Make a component with its children.

        Raises:
            InputPropertyError: an input does not match the schema.
        """
        properties = self._component_defs[resource_type.rpartition(":")[2]].inputs
        check(inputs, properties, self._type_defs)
        return super().construct(name, resource_type, whole_numbers(inputs), options)

    @property
    def json(self) -> str:
        definitions = self._component_defs, self._type_defs, self._dependencies
        schema = generate_schema(PACKAGE, VERSION, None, *definitions).to_json()
        enums = {place: enum for place, enum in ENUMS.items() if place[0] in self._component_defs}
        add_enums(schema, {*MODELS.values(), NewSharedNetwork}, enums)
        urls = _PROJECT["urls"]
        schema |= {
            "displayName": "Tidemill",
            "description": _PROJECT["description"],
            "publisher": "Tidemill",
            "repository": urls["Repository"],
            "homepage": urls["Homepage"],
            "license": _PROJECT["license"],
            "keywords": ["category/infrastructure", "kind/component"],
        }
        return re.sub(r"(?<!`)``(?!`)", "`", json.dumps(schema))  # descriptions are Markdown


def _without_python(component: type) -> str:
    """A component's docstring without its Python example."""
    text, _, _ = inspect.cleandoc(component.__doc__ or "").partition("\n\nExample:")
    return text


def _without_none(properties: dict[str, PropertyDefinition], word: str) -> None:
    """Other languages have other names for Python's None."""
    for given in properties.values():
        given.description = re.sub(r"\bNone\b", word, given.description or "")


def _say_defaults(definition: ComponentDefinition, arguments: Any) -> None:
    """Make an argument with a default optional, and describe the default."""
    names = {python: name for name, python in definition.inputs_mapping.items()}
    for field in dataclasses.fields(arguments):
        given = definition.inputs[names[field.name]]
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        if default is not dataclasses.MISSING:
            given.optional = True
            given.description = with_default(given.description, default)
