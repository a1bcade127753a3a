"""The package's schema: everything is described, and its required, plain and omitted parts are correct."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import pkgutil
import re
import tomllib
from collections.abc import Iterator
from typing import Any

import pulumi
import pytest
from pulumi.provider.experimental.util import camel_case

import components
from plugin.package import COMPONENTS, MODELS, Package
from tests.harness import ROOT

LEFT_OUT = {
    "AwsIdentity": "its roles may nothing until grant methods are called",
    "GcpIdentity": "its accounts may nothing until grant methods are called",
    "Protection": "a guard that Pipeline makes for itself",
}


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return json.loads(Package(list(COMPONENTS)).json)


def described(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every part of a schema that a reader of the documentation sees, with its place."""
    for token, resource in schema["resources"].items():
        yield token, resource
        for kind in ("inputProperties", "properties"):
            for name, value in resource[kind].items():
                yield f"{token} {kind} {name}", value
    for token, described in schema["types"].items():
        yield token, described
        for name, value in described["properties"].items():
            yield f"{token} {name}", value


def test_everything_is_described(schema):
    assert [where for where, value in described(schema) if not value.get("description", "").strip()] == []
    assert len(list(described(schema))) > 200


def test_descriptions_are_for_every_language(schema):
    python = re.compile(r"``|Args\(|\bNone\b")
    found = [where for where, value in described(schema) if python.search(value["description"])]
    assert found == []


def test_what_has_a_default_may_be_left_out(schema):
    for name, module in COMPONENTS.items():
        component = getattr(importlib.import_module(module), name)
        arguments = inspect.get_annotations(component.__init__)["args"]
        needed = {
            camel_case(field.name)
            for field in dataclasses.fields(arguments)
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        }
        resource = schema["resources"][f"tidemill:index:{name}"]
        assert set(resource["requiredInputs"]) == needed
        assert set(resource["inputProperties"]) == {camel_case(field.name) for field in dataclasses.fields(arguments)}


def test_defaults_and_ranges_are_said(schema):
    network = schema["resources"]["tidemill:index:AwsNetwork"]["inputProperties"]
    assert network["zones"]["description"].endswith("Default: 3.")
    rung = schema["types"]["tidemill:index:Rung"]["properties"]
    assert "Allowed: spot, on_demand. Default: spot." in rung["market"]["description"]
    assert "Allowed: at least 1, at most 100000. Default: 256." in rung["maxCpus"]["description"]
    capacity = schema["types"]["tidemill:index:Queue"]["properties"]["capacity"]["description"]
    assert 'Default: [{"market": "spot", "maxCpus": 256, ' in capacity


def test_what_steers_the_component_is_plain_and_what_may_come_from_another_resource_is_not(schema):
    network = schema["resources"]["tidemill:index:AwsNetwork"]["inputProperties"]
    assert {name for name, value in network.items() if not value.get("plain")} == {"vpcId", "subnetIds", "ipamPool"}
    for described in schema["types"].values():
        assert all(value["plain"] for value in described["properties"].values())
    outputs = [value for resource in schema["resources"].values() for value in resource["properties"].values()]
    assert not any(value.get("plain") for value in outputs)


def test_a_config_is_typed_down_to_its_last_key(schema):
    for (component, argument), model in MODELS.items():
        given = schema["resources"][f"tidemill:index:{component}"]["inputProperties"][camel_case(argument)]
        assert given["$ref"] == f"#/types/tidemill:index:{model.__name__}"
        keys = schema["types"][f"tidemill:index:{model.__name__}"]["properties"]
        assert set(keys) == {camel_case(name) for name in model.model_fields}
    queues = schema["types"]["tidemill:index:StackConfig"]["properties"]["queues"]
    assert queues["additionalProperties"]["$ref"] == "#/types/tidemill:index:Queue"


def test_every_component_is_in_the_package_or_left_out_for_a_reason():
    found = set()
    for info in pkgutil.walk_packages(components.__path__, "components."):
        if info.name.endswith("__main__") or ".reconciler_function" in info.name:
            continue
        module = importlib.import_module(info.name)
        found |= {
            name
            for name, value in vars(module).items()
            if inspect.isclass(value) and issubclass(value, pulumi.ComponentResource) and value.__module__ == info.name
        }
    assert found == set(COMPONENTS) | set(LEFT_OUT)


def test_the_package_has_the_projects_version(schema):
    assert schema["version"] == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_the_packages_libraries_are_the_locks_own():
    """`make lock` writes both files."""

    def pins(path: str) -> set[str]:
        return set(re.findall(r"^\S+==\S+", (ROOT / path).read_text(), re.MULTILINE))

    assert pins("plugin/requirements.txt") <= pins("requirements.txt")
    assert {"pulumi-aws", "pulumi-gcp"} <= {pin.partition("==")[0] for pin in pins("plugin/requirements.txt")}
