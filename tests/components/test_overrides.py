"""`tidemill:overrides`. The mocks run no transforms: tests/engine/test_previews.py shows the merged properties."""

import importlib
from typing import Any

import pulumi
import pytest

from components.overrides import Overrides, merged
from components.sdk_inputs import inputs_of, unknown_input
from tests.components.recording import run
from tests.components.stacks import run_stack

TEMPLATE = "vision-dev-cpu-machines"
MONITORED = {"notify": ["a@example.com"], "dashboard": True}


def refused(stack: str, overrides: dict[str, Any], says: str) -> None:
    with pytest.raises(pulumi.RunError, match=says):
        run_stack(stack, overrides=overrides)


@pytest.mark.parametrize(
    ("old", "new", "result"),
    [
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}}, {"a": {"b": 3, "c": 2}}),
        ({"a": {"b": {"c": 1}}, "d": 1}, {"a": {"b": {"c": None}}, "d": None, "e": None}, {"a": {"b": {}}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": [{"b": 1}]}, {"a": {"b": 2}}, {"a": {"b": 2}}),
        ({}, {"a": {"b": 1}}, {"a": {"b": 1}}),
    ],
)
def test_mappings_are_merged_and_the_rest_is_replaced(old: dict, new: dict, result: dict):
    before = repr(old)
    assert merged(old, new) == result
    assert repr(old) == before


def test_only_the_named_resource_changes():
    overrides = Overrides({"one": {"a": 1}, "Topic/two": {"a": 2}})

    def applied(name: str, token: str, *, custom: bool = True) -> Any:
        args = pulumi.ResourceTransformArgs(custom, token, name, {"b": 3}, pulumi.ResourceOptions())
        found = overrides.apply(args)
        return found and dict(found.props)

    assert applied("one", "aws:sns/topic:Topic") == {"a": 1, "b": 3}
    assert applied("two", "aws:sns/topic:Topic") == {"a": 2, "b": 3}
    assert applied("two", "aws:sns/topicPolicy:TopicPolicy") is None
    assert applied("one", "tidemill:index:Pipeline", custom=False) is None
    assert applied("three", "aws:sns/topic:Topic") is None


def test_a_value_that_is_not_known_yet_is_merged_when_it_is():
    seen: list[Any] = []

    def program() -> None:
        found = merged({"a": pulumi.Output.from_input({"b": 1, "c": 2})}, {"a": {"b": 3}})
        found["a"].apply(seen.append)

    run(program)
    assert seen == [{"b": 3, "c": 2}]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("vision-dev-cpu-machine", "Did you mean vision-dev-cpu-machines?"),
        ("Bucket/vision-dev-cpu-machines", r"Did you mean vision-dev-cpu-machines\?"),
        ("zzz", "Take a name from the preview"),
        ("vision-dev-cpu", "Did you mean vision-dev-cpu-"),
    ],
)
def test_a_name_that_no_resource_has_is_refused_with_the_nearest(name: str, says: str):
    refused("vision-dev", {name: {"monitoring": {"enabled": True}}}, rf"tidemill:overrides.*{says}")


def test_a_property_that_the_resource_has_not_is_refused_with_the_nearest():
    refused(
        "vision-dev", {TEMPLATE: {"monitorin": {}}}, rf"overrides.{TEMPLATE}.monitorin: .*Did you mean monitoring\?"
    )
    refused("vision-dev", {TEMPLATE: {"user_data": ""}}, r"Did you mean userData\?")
    options = {"metadataOptions": {"httpToken": "required"}}
    refused("vision-dev", {TEMPLATE: options}, r"metadataOptions.httpToken: .*Did you mean httpTokens\?")
    disks = {"blockDeviceMappings": [{"ebs": {}}, {"ebs": {"size": 5}}]}
    refused("vision-dev", {TEMPLATE: disks}, r"blockDeviceMappings\[1\].ebs.size: .*volumeSize")
    run_stack("vision-dev", overrides={TEMPLATE: {"tags": {"any name": "x"}, "metadataOptions": {"httpTokens": None}}})


def test_every_property_that_our_stacks_set_is_known():
    """Names are derived from the SDK's; one that it spells otherwise would be refused."""
    for stack in ("vision-prod", "vision-gcp-prod"):
        made = run_stack(stack, monitoring=MONITORED)
        for each in made.resources:
            package, module, kind = each.type.split(":")
            if package in ("aws", "gcp"):
                sdk = importlib.import_module(f"pulumi_{package}.{module.partition('/')[0]}")
                assert unknown_input(each.inputs, inputs_of(getattr(sdk, kind))) is None, each.name


def test_a_name_that_several_types_have_needs_the_type():
    name = next(made.name for made in run_stack("vision-gcp-dev").of("compute.RegionInstanceTemplate"))
    changes = {"minCpuPlatform": "Intel Ice Lake"}
    allowed = f"RegionAutoscaler/{name}, RegionInstanceGroupManager/{name}, RegionInstanceTemplate/{name}"
    refused("vision-gcp-dev", {name: changes}, f"{allowed}.*put the type before it")
    run_stack("vision-gcp-dev", overrides={f"RegionInstanceTemplate/{name}": changes})


def test_right_names_are_accepted_and_nothing_else_changes():
    plain, made = run_stack("vision-dev"), run_stack("vision-dev", overrides={TEMPLATE: {"monitoring": {}}})
    assert sorted(each.urn for each in made.resources) == sorted(each.urn for each in plain.resources)


def test_an_override_of_nothing_is_refused():
    with pytest.raises(pulumi.RunError, match=r"tidemill:overrides.x: {} is not allowed. Allowed: at least 1"):
        run_stack("vision-dev", overrides={"x": {}})
