"""Inputs from another program: anything that would be lost is refused, with its place and what to do."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest
from pulumi.errors import InputPropertyError
from pulumi.output import Unknown

from plugin.inputs import check, whole_numbers
from plugin.package import Package
from tests.components.recording import run

IMAGES = {"default": "registry://preprocess:1"}


@pytest.fixture(scope="module")
def package() -> Package:
    return Package(["Pipeline", "AwsNetwork"])


def refused(package: Package, component: str, inputs: dict[str, Any]) -> str:
    with pytest.raises(InputPropertyError) as error:
        check(inputs, package._component_defs[component].inputs, package._type_defs)
    return f"{error.value.property_path}: {error.value.reason}"


def config(**keys: Any) -> dict[str, Any]:
    return {"config": {"team": "vision", "environment": "dev", "queues": {"cpu": {"images": IMAGES}}, **keys}}


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        (config(quues={}), "config.quues: there is no quues here; allowed: team, "),
        (config(quues={}), "Did you mean queues?"),
        (config(queues={"cpu": {"images": IMAGES, "scratch_gib": 9.0}}), "config.queues.cpu.scratch_gib: there is no"),
        (config(queues={"cpu": {"images": IMAGES, "capacity": [{"maxCpu": 9.0}]}}), "capacity[0].maxCpu: there is no"),
        (config(network="public"), 'config.network: "public" is not allowed. Allowed: an object.'),
        (config(queues=["cpu"]), 'config.queues: ["cpu"] is not allowed. Allowed: an object.'),
        (config(data={"read": "s3://raw"}), 'config.data.read: "s3://raw" is not allowed. Allowed: a list.'),
        (config(workerImage=Unknown()), "config.workerImage: it decides what is created, so it must be known"),
    ],
)
def test_what_would_be_lost_is_refused(package, inputs, said):
    assert said in refused(package, "Pipeline", inputs)


def test_a_secret_config_is_refused(package):
    said = []
    run(lambda: said.append(refused(package, "Pipeline", {"config": pulumi.Output.secret({})})))
    assert "config: it decides what is created" in said[0]


def test_an_output_may_be_given_where_the_schema_says_so(package):
    def program() -> None:
        inputs = {"vpcId": pulumi.Output.from_input("vpc-1"), "subnetIds": Unknown(), "tags": None}
        check(inputs, package._component_defs["AwsNetwork"].inputs, package._type_defs)

    run(program)
    check(config(), package._component_defs["Pipeline"].inputs, package._type_defs)


def test_a_configs_key_may_be_an_output_where_nothing_is_decided_by_it(package):
    def program() -> None:
        existing = {"vpcId": pulumi.Output.from_input("vpc-12345678"), "subnetIds": [Unknown()]}
        inputs = config(network={"existing": existing}, permissionBoundary=Unknown(), store={"kmsKey": Unknown()})
        check(inputs, package._component_defs["Pipeline"].inputs, package._type_defs)

    run(program)
    for wrong in ({"network": Unknown()}, {"queues": {"cpu": Unknown()}}, {"store": {"versioning": Unknown()}}):
        assert "it decides what is created" in refused(package, "Pipeline", config(**wrong))


def test_whole_numbers_are_whole_again():
    assert repr(whole_numbers({"a": [1.0, 0.5, {"b": 3.0}], "c": "1.0"})) == "{'a': [1, 0.5, {'b': 3}], 'c': '1.0'}"
