"""`machines.zones` on both clouds. Recording mocks prove what is requested, not that a cloud accepts it."""

from typing import Any

import pytest

from tests.components.recording import Recorder
from tests.components.stacks import run_program, run_stack, settings


def with_zones(stack: str, *zones: str) -> dict[str, Any]:
    queues = settings(stack)["tidemill:queues"]
    return {
        name: queue | {"machines": queue.get("machines", {}) | {"zones": [*zones]}} for name, queue in queues.items()
    }


def subnets(recorder: Recorder) -> list[list[str]]:
    made = recorder.of("batch.ComputeEnvironment")
    return [environment.inputs["computeResources"]["subnets"] for environment in made]


def existing(*zones: str, recorder: Recorder) -> Recorder:
    network = {"existing": {"vpc_id": "vpc-12345678", "subnet_ids": [*recorder.subnets]}}
    values = settings("vision-dev") | {"tidemill:network": network, "tidemill:queues": with_zones("vision-dev", *zones)}
    return run_program(values, recorder=recorder)


@pytest.mark.parametrize("zones", [["a", "c"], ["us-west-2c", "a"]])
def test_machines_start_in_these_zones_of_a_new_network(zones: list[str]):
    made = run_stack("vision-dev", queues=with_zones("vision-dev", *zones), network={"create": {"zones": 3}})
    assert len(made.of("ec2.Subnet")) == 3
    assert {tuple(each) for each in subnets(made)} == {
        ("vision-dev-network-subnet-a-id", "vision-dev-network-subnet-c-id")
    }


def test_a_subnet_of_an_existing_network_is_looked_up():
    found = {"subnet-11111111": "us-west-2a", "subnet-22222222": "us-west-2b", "subnet-33333333": "us-west-2a"}
    made = existing("a", recorder=Recorder(subnets=found))
    assert {tuple(each) for each in subnets(made)} == {("subnet-11111111", "subnet-33333333")}


def test_a_zone_without_a_subnet_is_refused():
    found = {"subnet-11111111": "us-west-2a", "subnet-22222222": "us-west-2-lax-1b"}
    key = "tidemill:queues.cpu.machines.zones[1]"
    with pytest.raises(
        Exception, match=r"zones\[1\]: \"b\" is not allowed. Allowed: zones of the machines' subnets"
    ) as caught:
        existing("a", "b", recorder=Recorder(subnets=found))
    assert key in str(caught.value)
    assert "us-west-2a, us-west-2-lax-1b" in str(caught.value)


def test_a_subnet_that_cannot_be_read_is_one_line():
    recorder = Recorder(subnets={"subnet-11111111": ""})
    with pytest.raises(Exception, match=r"subnets that can be read.*InvalidSubnetID.NotFound") as caught:
        existing("a", recorder=recorder)
    assert "\n" not in str(caught.value)


def test_zones_that_sell_none_of_the_types_are_refused():
    values = settings("vision-dev") | {"tidemill:queues": with_zones("vision-dev", "b")}
    with pytest.raises(Exception, match=r"machines.zones: \[\"us-west-2b\"\] is not allowed"):
        run_program(values, recorder=Recorder(poor_zones={"us-west-2b"}))


def test_a_group_on_gcp_has_these_zones():
    made = run_stack("vision-gcp-dev", queues=with_zones("vision-gcp-dev", "f", "us-central1-a"))
    for group in made.of("compute.RegionInstanceGroupManager"):
        assert group.inputs["distributionPolicyZones"] == ["us-central1-a", "us-central1-f"]
    for group in run_stack("vision-gcp-dev").of("compute.RegionInstanceGroupManager"):
        assert "distributionPolicyZones" not in group.inputs


def test_a_zone_that_the_region_lacks_is_refused():
    with pytest.raises(
        Exception, match=r"zones\[0\]: \"d\" is not allowed. Allowed: zones of us-central1: us-central1-a"
    ):
        run_stack("vision-gcp-dev", queues=with_zones("vision-gcp-dev", "d"))
