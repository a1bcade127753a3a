"""A machine image of the team's own. That its machines work shows only on a cloud (docs/first-account.md)."""

from typing import Any

import pulumi
import pytest

from components.services.pubsub.instance_group import IMAGES
from tests.components.recording import Recorder
from tests.components.stacks import run_program, run_stack, settings

AMI = "ami-0123456789abcdef0"
GOOD: dict[str, Any] = {
    "architecture": "x86_64",
    "platform": "",
    "rootDeviceName": "/dev/xvda",
    "state": "available",
    "blockDeviceMappings": [
        {"deviceName": "/dev/xvda", "ebs": {"volume_size": "30"}, "noDevice": "", "virtualName": ""},
        {"deviceName": "/dev/xvdb", "ebs": {"volume_size": "9000"}, "noDevice": "", "virtualName": ""},
    ],
}


def queues(stack: str, image: str) -> dict[str, Any]:
    found = settings(stack)["tidemill:queues"]
    return {name: queue | {"machines": queue.get("machines", {}) | {"image": image}} for name, queue in found.items()}


def previewed(found: dict[str, Any] | str | None) -> Recorder:
    images = {} if found is None else {AMI: found}
    values = settings("vision-dev") | {"tidemill:queues": queues("vision-dev", AMI)}
    return run_program(values, recorder=Recorder(images=images))


def test_machines_on_aws_start_from_it_and_keep_their_kind():
    """By the template: the provider would read the removal of an `imageIdOverride` as no change."""
    made = previewed(GOOD)
    assert {template.inputs["imageId"] for template in made.of("ec2.LaunchTemplate")} == {AMI}
    for environment in made.of("batch.ComputeEnvironment"):
        assert environment.inputs["computeResources"]["ec2Configurations"] == [{"imageType": "ECS_AL2023"}]
    assert all("imageId" not in template.inputs for template in run_stack("vision-dev").of("ec2.LaunchTemplate"))


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (None, "an image of this region that this account may use"),
        (GOOD | {"architecture": "arm64"}, "an image for x86_64.*this one is for arm64"),
        (GOOD | {"rootDeviceName": "/dev/sda1"}, "root device /dev/xvda, .*this one has /dev/sda1"),
        (GOOD | {"platform": "windows"}, "a Linux image"),
        (GOOD | {"state": "pending"}, "available, this one is pending"),
        (
            GOOD | {"blockDeviceMappings": [GOOD["blockDeviceMappings"][0] | {"ebs": {"volume_size": "9000"}}]},
            "at most 150 GiB.*this one has 9000.*Raise scratch_gib",
        ),
    ],
)
def test_an_image_that_does_not_fit_is_refused(found: dict[str, Any] | None, says: str):
    with pytest.raises(pulumi.RunError, match=rf"machines.image: .{AMI}. is not allowed. Allowed: .*{says}"):
        previewed(found)


def test_a_login_that_may_not_see_images_can_preview(caplog: pytest.LogCaptureFixture):
    made = previewed("UnauthorizedOperation: ec2:DescribeImages")
    assert made.of("batch.ComputeEnvironment")
    assert "Could not check the machine image of queue cpu" in caplog.text


COS: dict[str, Any] = {"status": "READY", "diskSizeGb": 10, "architecture": "X86_64"}


def on_gcp(found: dict[str, Any] | str | None, name: str = "family/cos-hardened") -> Recorder:
    image = f"projects/team-images/global/images/{name}"
    images = {} if found is None else {name.removeprefix("family/"): found}
    values = settings("vision-gcp-dev") | {"tidemill:queues": queues("vision-gcp-dev", image)}
    return run_program(values, recorder=Recorder(images=images))


@pytest.mark.parametrize("name", ["cos-hardened-1", "family/cos-hardened"])
@pytest.mark.parametrize(
    ("found", "says"),
    [
        (None, "(an image|a family with an image) that exists in team-images. Correct the name"),
        (COS | {"status": "PENDING"}, "ready, this one is PENDING"),
        (COS | {"diskSizeGb": 9000}, "at most 150 GiB.*this one has 9000.*Raise scratch_gib"),
        (COS | {"architecture": "ARM64"}, "an image for x86_64.*the other processor"),
    ],
)
def test_an_image_on_gcp_that_does_not_fit_is_refused(found: dict[str, Any] | None, says: str, name: str):
    with pytest.raises(pulumi.RunError, match=rf"machines.image: .*{name}. is not allowed. Allowed: .*{says}"):
        on_gcp(found, name)


@pytest.mark.parametrize(
    "found",
    [
        {key: value for key, value in COS.items() if key != "architecture"},
        "googleapi: Error 403: Required 'compute.images.getFromFamily' permission",
    ],
)
def test_an_old_image_and_one_that_the_login_may_not_see_are_not_refused(found: dict[str, Any] | str):
    assert on_gcp(found).of("compute.RegionInstanceTemplate")


def test_machines_on_gcp_start_from_it():
    image = "projects/team-images/global/images/family/cos-hardened"
    made = on_gcp(COS)
    assert {each.inputs["disks"][0]["sourceImage"] for each in made.of("compute.RegionInstanceTemplate")} == {image}
    made = run_stack("vision-gcp-dev")
    assert {each.inputs["disks"][0]["sourceImage"] for each in made.of("compute.RegionInstanceTemplate")} == {
        IMAGES["x86_64"]
    }
