"""Queues of arm64 machines, alone and next to others. It cannot prove that Batch and Compute Engine start them."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pulumi
import pytest

from tests.components.stacks import IMAGE, run_stack

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


def settings(template: dict[str, Any]) -> str:
    files = json.loads(template["metadata"]["user-data"].partition("\n")[2])["write_files"]
    return next(each["content"] for each in files if each["path"] == "/etc/tidemill/settings")


def test_axion_on_gcp():
    template, selections = group("c4a")
    assert selections == {}
    assert boot(template["disks"]) == (f"{COS}/cos-arm64-stable", "hyperdisk-balanced")
    assert GOOGLE[1] in settings(template)
    assert GOOGLE[0] not in settings(template)


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
    script = f'uname() {{ echo {machine}; }}\n{settings(template)}printf "%s\\n" "${{STEPS[@]}}"'
    steps = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, timeout=60).stdout
    assert [step for step in steps.splitlines() if step.startswith("tree ")] == [f"tree {worker}"]


def test_both_processors_need_both_workers():
    with pytest.raises(pulumi.RunError, match="only worker_image is set"):
        run_stack("demo-gcp", queues={"cpu": queue("n2", "t2a", cpus=16)}, worker_image=GOOGLE[0])
