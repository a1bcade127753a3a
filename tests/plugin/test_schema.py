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
from pulumi.output import Unknown
from pulumi.provider.experimental.util import camel_case

import components
from plugin.examples import Example, Reference
from plugin.inputs import check
from plugin.package import COMPONENTS, MODELS, Package
from tests.harness import ROOT

LEFT_OUT = {
    "AwsIdentity": "its roles may nothing until grant methods are called",
    "AwsSender": "its role may do nothing until grant methods are called",
    "GcpIdentity": "its accounts may nothing until grant methods are called",
    "Protection": "a guard that Pipeline makes for itself",
}


@pytest.fixture(scope="module")
def package() -> Package:
    return Package(list(COMPONENTS))


@pytest.fixture(scope="module")
def schema(package) -> dict[str, Any]:
    return json.loads(package.json)


def described(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every part of a schema that a reader of the documentation sees, with its place."""
    for token, resource in schema["resources"].items():
        yield token, resource
        for kind in ("inputProperties", "properties"):
            for name, value in resource[kind].items():
                yield f"{token} {kind} {name}", value
    for token, described in schema["types"].items():
        yield token, described
        for name, value in described.get("properties", {}).items():
            yield f"{token} {name}", value


def test_everything_is_described(schema):
    assert [where for where, value in described(schema) if not value.get("description", "").strip()] == []
    assert len(list(described(schema))) > 200


def test_descriptions_are_for_every_language(schema):
    python = re.compile(r"(?<!`)``(?!`)|Args\(|\bNone\b")
    texts = {
        where: re.sub("```python.*?```", "", value["description"], flags=re.DOTALL)
        for where, value in described(schema)
    }
    assert [where for where, text in texts.items() if python.search(text)] == []


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
    assert {name for name, value in network.items() if not value.get("plain")} == {
        "flowLogsKey",
        "ipamPool",
        "permissionBoundary",
        "subnetIds",
        "vpcId",
    }
    types = {token.rpartition(":")[2]: value.get("properties", {}) for token, value in schema["types"].items()}
    late = {f"{name}.{key}" for name, keys in types.items() for key, value in keys.items() if not value.get("plain")}
    assert late == {
        "Access.submitters",
        "Disks.kmsKey",
        "StackConfig.disks",
        "StackConfig.topics",
        "Topics.kmsKey",
        "Budget.billingAccount",
        *(f"Data.{key}" for key in ("read", "write", "kmsKeys")),
        *(f"ExistingNetwork.{key}" for key in ("vpcId", "subnetIds", "network", "subnetwork")),
        "FileSystem.kmsKey",
        "Logs.kmsKey",
        "Registry.kmsKey",
        *(f"Monitoring.{key}" for key in ("topic", "channels", "jobChannels")),
        "Mount.efs",
        "Mount.filestore",
        "NewNetwork.ipamPool",
        "Queue.secrets",
        "Store.kmsKey",
        "StackConfig.permissionBoundary",
        # Objects that hold such keys.
        *(f"StackConfig.{key}" for key in ("access", "budget", "data", "logs", "monitoring", "network", "store")),
        *(f"StackConfig.{key}" for key in ("fileSystems", "queues", "registry")),
        "Network.create",
        "Network.existing",
        "Queue.mounts",
    }
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


def test_the_package_says_what_it_is_and_where_it_comes_from(schema):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert schema["version"] == project["version"]
    assert (schema["homepage"], schema["repository"]) == (project["urls"]["Homepage"], project["urls"]["Repository"])
    assert schema["publisher"] == "Tidemill"
    assert {"logoUrl", "pluginDownloadURL"}.isdisjoint(schema)  # there is neither


def test_closed_sets_are_enums(schema):
    types = schema["types"]
    sets = {name.rpartition(":")[2]: [each["value"] for each in kind.get("enum", [])] for name, kind in types.items()}
    assert sets["RungMarket"] == ["spot", "on_demand"]
    assert sets["StackConfigCloud"] == ["aws", "gcp"]
    assert sets["NewNetworkEgress"] == ["public", "nat", "endpoints"]
    keys = types["tidemill:index:StackConfig"]["properties"]
    assert keys["allow"]["items"]["$ref"] == "#/types/tidemill:index:StackConfigAllow"
    egress = schema["resources"]["tidemill:index:AwsShared"]["inputProperties"]["egress"]
    assert egress["$ref"] == "#/types/tidemill:index:NewSharedNetworkEgress"
    assert "type" not in egress


@pytest.mark.parametrize("name", COMPONENTS)
def test_a_component_has_an_example_in_every_language(schema, name):
    text = schema["resources"][f"tidemill:index:{name}"]["description"]
    assert text.count("```python\n") == text.count("```typescript\n") == text.count("```yaml\n") == 1
    assert f'new tidemill.{name}("' in text


@pytest.mark.parametrize("name", COMPONENTS)
def test_the_package_takes_an_examples_inputs(package, name):
    example = Example(getattr(importlib.import_module(COMPONENTS[name]), name), "tidemill", set(COMPONENTS))
    for resource in example.resources.values():
        check(_unknown(resource.inputs), package._component_defs[resource.kind].inputs, package._type_defs)


def _unknown(value: Any) -> Any:
    """Inputs with an unknown value for each reference."""
    if isinstance(value, Reference):
        return Unknown()
    if isinstance(value, dict):
        return {key: _unknown(inner) for key, inner in value.items()}
    return [_unknown(inner) for inner in value] if isinstance(value, list) else value


def test_the_packages_libraries_are_the_locks_own():
    """`make lock` writes both files."""

    def pins(path: str) -> set[str]:
        return set(re.findall(r"^\S+==\S+", (ROOT / path).read_text(), re.MULTILINE))

    assert pins("plugin/requirements.txt") <= pins("requirements.txt")
    assert {"pulumi-aws", "pulumi-gcp"} <= {pin.partition("==")[0] for pin in pins("plugin/requirements.txt")}
