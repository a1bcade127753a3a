"""Queues of arm64 machines, and of each kind of family: GPUs, accelerators of AWS, disks, ways to buy machines.

It cannot prove that Batch and Compute Engine start them.
"""

from __future__ import annotations

import base64
import json
import subprocess
from typing import Any

import pulumi
import pytest

from components.config import ConfigError, parse
from components.machines import families
from tests.components.recording import Recorder
from tests.components.stacks import (
    BLOCK,
    FAMILY_STACK,
    IMAGE,
    OWN_AMI,
    QUEUES,
    queue_of,
    recorder,
    run_program,
    run_stack,
    settings,
)  # fmt: skip
from tests.fields import about

REGISTRY = "123456789012.dkr.ecr.us-west-2.amazonaws.com/worker"
X86_64, ARM64 = (f"{REGISTRY}@sha256:{64 * each}" for each in "ab")
GOOGLE = [image.replace(REGISTRY, "us-central1-docker.pkg.dev/p/r/worker") for image in (X86_64, ARM64)]
LINK = "https://www.googleapis.com/compute/v1/"
COS = "projects/cos-cloud/global/images/family"


def queue(*families: str, **machines: Any) -> dict[str, Any]:
    return {"images": {"default": IMAGE}, "machines": {"families": list(families), **machines}}


def test_each_queue_on_aws_has_the_worker_of_its_machines():
    queues = {"cpu": queue("c7i"), "arm": queue("c7g", "m7g")}
    made = run_stack("demo-aws", queues=queues, worker_image=X86_64, worker_image_arm64=ARM64)
    pointers = {each.inputs["key"]: each.inputs["content"] for each in made.of("s3.BucketObjectv2")}
    assert pointers["machines/cpu/worker"] == X86_64
    assert pointers["machines/arm/worker"] == ARM64
    commands = {each.name: json.loads(each.inputs["containerProperties"]) for each in made.of("batch.JobDefinition")}
    assert {name.split("-")[-2]: each["command"][-1] for name, each in commands.items()} == {
        "cpu": X86_64,
        "arm": ARM64,
    }
    types = [
        each.inputs["computeResources"]["instanceTypes"]
        for each in made.of("batch.ComputeEnvironment")
        if "-arm-" in each.name
    ]
    assert {name.split(".")[0] for each in types for name in each} == {"c7g", "m7g"}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, ["worker_image", "worker_image_arm64"]),
        ({"worker_image": X86_64}, ["worker_image_arm64"]),
        ({"worker_image": X86_64, "worker_image_arm64": ARM64}, []),
    ],
)
def test_a_preview_names_each_worker_that_is_missing(given, wanted, monkeypatch):
    said: list[str] = []
    monkeypatch.setattr("pulumi.log.warn", lambda text, *_, **__: said.append(text))
    run_stack("demo-aws", preview=True, queues={"cpu": queue("c7i"), "arm": queue("c7g")}, **given)
    assert [text.partition(" ")[0] for text in said] == [f"tidemill:{key}" for key in wanted]


def group(*families: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Template and selections of the first rung of a queue on GCP."""
    workers = dict(zip(("worker_image", "worker_image_arm64"), GOOGLE, strict=True))
    made = run_stack("demo-gcp", queues={"cpu": queue(*families, cpus=16)}, **workers)
    template = made.of("compute.RegionInstanceTemplate")[0].inputs
    policy = made.of("compute.RegionInstanceGroupManager")[0].inputs.get("instanceFlexibilityPolicy", {})
    return template, {each["name"]: each for each in policy.get("instanceSelections", [])}


def boot(disks: list[dict[str, Any]]) -> tuple[str, str]:
    return disks[0]["sourceImage"], disks[0]["diskType"]


def boot_settings(template: dict[str, Any]) -> str:
    files = json.loads(template["metadata"]["user-data"].partition("\n")[2])["write_files"]
    return next(each["content"] for each in files if each["path"] == "/etc/tidemill/settings")


def test_axion_on_gcp():
    template, selections = group("c4a")
    assert selections == {}
    assert boot(template["disks"]) == (f"{COS}/cos-arm64-stable", "hyperdisk-balanced")
    assert GOOGLE[1] in boot_settings(template)
    assert GOOGLE[0] not in boot_settings(template)


def test_families_with_disks_of_their_own():
    template, selections = group("t2a", "c4a")
    assert boot(template["disks"]) == (f"{COS}/cos-arm64-stable", "pd-balanced")
    assert "disks" not in selections["t2a"]
    assert boot(selections["c4a"]["disks"]) == (f"{LINK}{COS}/cos-arm64-stable", "hyperdisk-balanced")
    sizes = {each["diskSizeGb"] for each in (*template["disks"], *selections["c4a"]["disks"])}
    assert len(sizes) == 1


@pytest.mark.parametrize(("machine", "worker"), [("x86_64", GOOGLE[0]), ("aarch64", GOOGLE[1])])
def test_both_processors_in_one_queue(machine, worker):
    template, selections = group("n2", "t2a")
    assert boot(template["disks"]) == (f"{COS}/cos-stable", "pd-balanced")
    assert boot(selections["t2a"]["disks"]) == (f"{LINK}{COS}/cos-arm64-stable", "pd-balanced")
    script = f'uname() {{ echo {machine}; }}\n{boot_settings(template)}printf "%s\\n" "${{STEPS[@]}}"'
    steps = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, timeout=60).stdout
    assert [step for step in steps.splitlines() if step.startswith("tree ")] == [f"tree {worker}"]


def test_both_processors_need_both_workers():
    with pytest.raises(pulumi.RunError, match="only worker_image is set"):
        run_stack("demo-gcp", queues={"cpu": queue("n2", "t2a", cpus=16)}, worker_image=GOOGLE[0])


@pytest.fixture(scope="module")
def made() -> dict[str, Recorder]:
    """The stacks of all these queues."""
    return {
        cloud: run_program(settings(FAMILY_STACK[cloud]) | {"tidemill:queues": queues}, recorder=recorder())
        for cloud, queues in QUEUES.items()
    }


@pytest.mark.parametrize(("cloud", "family"), [(cloud, family) for cloud in QUEUES for family in families(cloud)])
def test_a_stack_may_name_every_family(cloud, family):
    config = parse({"team": "t", "environment": "e", "cloud": cloud, "queues": {"q": queue_of(cloud, family)}})
    types = config.queues["q"].types(cloud)
    assert {machine.family for machine in types} == {family}


def of(made: Recorder, kind: str, *names: str) -> dict[str, Any]:
    """The inputs of the only resource of a kind with one of these names, after those of team and environment."""
    (found,) = [each for each in made.of(kind) if each.name.split("-dev-")[-1] in names]
    return found.inputs


@pytest.mark.parametrize("family", QUEUES["aws"])
def test_machines_get_an_image_with_their_driver(made, family):
    aws = made["aws"]
    resources = of(aws, "batch.ComputeEnvironment", f"{family}-spot", f"{family}-on-demand")["computeResources"]
    nvidia = families("aws")[family][0].gpus > 0
    assert resources["ec2Configurations"] == [{"imageType": "ECS_AL2023_NVIDIA" if nvidia else "ECS_AL2023"}]
    image = of(aws, "ec2.LaunchTemplate", f"{family}-machines").get("imageId")
    assert image == (OWN_AMI if family in ("g7", "inf2", "trn1") else None)


@pytest.mark.parametrize(("cpus", "lines"), [(2, 1), (4, 0)])
def test_the_smallest_gpu_machine_may_promise_more_memory_than_it_has(cpus, lines):
    queue = queue_of("aws", "g6f") | {"item": {"cpus": 2, "memory_mib": 4096, "gpus": 1}}
    queue["machines"] |= {"cpus": {"min": cpus, "max": 4}}
    made = run_program(settings(FAMILY_STACK["aws"]) | {"tidemill:queues": {"gpu": queue}})
    script = base64.b64decode(made.one("ec2.LaunchTemplate").inputs["userData"]).decode()
    assert script.count("\nsysctl -w vm.overcommit_memory=1\n") == lines


@pytest.mark.parametrize(("family", "count"), [("inf2", 1), ("trn1", 1), ("g6e", 0), ("c8i", 0)])
def test_a_container_gets_the_neuron_devices_of_its_machine(made, family, count):
    (definition,) = [each for each in made["aws"].of("batch.JobDefinition") if f"-{family}-" in each.name]
    devices = definition.document("containerProperties")["linuxParameters"].get("devices", [])
    paths = [f"/dev/neuron{number}" for number in range(count)]
    assert [(each["hostPath"], each["containerPath"]) for each in devices] == [(path, path) for path in paths]


def test_machines_start_in_a_capacity_block(made):
    template = of(made["aws"], "ec2.LaunchTemplate", "p5en-on-demand")
    assert template["instanceMarketOptions"] == {"marketType": "capacity-block"}
    target = template["capacityReservationSpecification"]["capacityReservationTarget"]
    assert target == {"capacityReservationId": "cr-0123456789abcdef0"}
    assert of(made["aws"], "batch.ComputeEnvironment", "p5en-on-demand")["computeResources"]["type"] == "EC2"


@pytest.mark.parametrize(
    ("family", "disk", "model", "gpus"),
    [
        ("c4", "hyperdisk-balanced", "SPOT", None),
        ("n4", "hyperdisk-balanced", "SPOT", None),
        ("n1-t4", "pd-balanced", "SPOT", [{"count": 1, "type": "nvidia-tesla-t4"}]),
        ("a2", "pd-balanced", "SPOT", None),
        ("a2-ultra", "pd-balanced", "SPOT", None),
        ("a3", "pd-balanced", "SPOT", None),
        ("a3-ultra", "hyperdisk-balanced", "RESERVATION_BOUND", None),
        ("a4", "hyperdisk-balanced", "RESERVATION_BOUND", None),
        ("g4", "hyperdisk-balanced", "SPOT", None),
        ("h3", "pd-balanced", "STANDARD", None),
        ("z3", "pd-balanced", "SPOT", None),
    ],
)
def test_a_template_has_the_disk_and_the_market_of_its_family(made, family, disk, model, gpus):
    template = of(made["gcp"], "compute.RegionInstanceTemplate", f"{family}-spot", f"{family}-on-demand")
    assert {each["diskType"] for each in template["disks"]} == {disk}
    assert template["scheduling"]["provisioningModel"] == model
    assert template.get("guestAccelerators") == gpus


@pytest.mark.parametrize(
    ("cloud", "family", "changes", "key", "fact"),
    [
        ("aws", "p3dn", {}, "machines.families[0]", "no longer have a driver for V100"),
        ("aws", "trn2u", {}, "machines.families[0]", "parts of an UltraServer"),
        ("aws", "g7", {"machines": {"image": None}}, "machines.image", "driver 595 or later"),
        ("aws", "t3", {}, "machines.families[0]", "no burstable machines"),
        ("aws", "inf2", {"machines": {"image": None}}, "machines.image", "neuron/recommended/image_id"),
        ("aws", "inf2", {"machines": {"cpus": {"min": 4, "max": 96}}}, "machines.cpus", "inf2.24xlarge with 6"),
        ("aws", "inf2", {"item": {"cpus": 1, "memory_mib": 1024}}, "item.cpus", "more than 2"),
        ("aws", "inf2", {"machines": {"families": ["inf2", "c7i"]}}, "machines.families", "a queue for inf2"),
        ("aws", "hpc7a", {"capacity": [{"market": "spot", "max_cpus": 64}]}, "capacity[0].market", "On-Demand"),
        ("aws", "g6e", BLOCK, "machines.zones", "one zone"),
        ("aws", "g6e", BLOCK | {"machines": {"zones": ["a"]}}, "capacity[0].block", "g6e.xlarge"),
        ("aws", "g6e", BLOCK | {"machines": {"cpus": {"min": 4, "max": 8}}}, "machines", "one type"),
        ("aws", "p5", {"capacity": [{"market": "on_demand", "max_cpus": 192, "block": True}]},
         "capacity[0].reservation", "the id of the Capacity Block"),
        ("gcp", "a3", {"capacity": [{"market": "on_demand", "max_cpus": 26}]}, "capacity[0].market", "only on Spot"),
        ("gcp", "a3-ultra", {"capacity": [{"market": "on_demand", "max_cpus": 224}]}, "capacity[0].market",
         "if reserved or on Spot"),
        ("gcp", "a4", {"capacity": [{"market": "on_demand", "max_cpus": 224}]}, "capacity[0].market",
         "if reserved or on Spot"),
        ("gcp", "h3", {"capacity": [{"market": "spot", "max_cpus": 88}]}, "capacity[0].market", "only On-Demand"),
        ("gcp", "g4", {"scratch": "local"}, "scratch", "z3 in this size"),
        ("gcp", "c4", {"capacity": [{"market": "spot", "max_cpus": 64, "block": True}]}, "capacity[0].block",
         "only on AWS"),
    ],
)  # fmt: skip
def test_what_a_family_cannot_do_is_one_line(cloud, family, changes, key, fact):
    base = queue_of(cloud, family) if family in families(cloud) else queue_of(cloud, "c8i")
    base["machines"] |= {"families": [family]}
    for name, value in changes.items():
        base[name] = base[name] | value if isinstance(value, dict) else value
    base["machines"] = {name: value for name, value in base["machines"].items() if value is not None}
    with pytest.raises(ConfigError, match=fact, check=about(f"tidemill:queues.q.{key}")):
        parse({"team": "t", "environment": "e", "cloud": cloud, "queues": {"q": base}})


@pytest.mark.parametrize(("zones", "place"), [([], "the region's zones"), (["b"], "us-central1-b")])
def test_a_family_that_no_zone_of_the_queue_sells_is_refused(zones, place):
    queue = queue_of("gcp", "a3")
    queue["machines"] |= {"zones": zones}
    values = settings(FAMILY_STACK["gcp"]) | {"tidemill:queues": {"gpu": queue}}
    unsold = set() if zones else {"a3-highgpu"}
    with pytest.raises(Exception, match=rf"queues\.gpu\.machines\.families.*sold in {place}; none has a3-highgpu-1g"):
        run_program(values, recorder=Recorder(unsold=unsold, poor_zones={"us-central1-b"}))


def test_a_zone_without_a_family_is_nothing_where_another_one_has_it():
    recorder = Recorder(poor_zones={"us-central1-a", "us-central1-b"})
    values = settings(FAMILY_STACK["gcp"]) | {"tidemill:queues": {"gpu": queue_of("gcp", "a3")}}
    assert run_program(values, recorder=recorder).of("compute.RegionInstanceTemplate")
