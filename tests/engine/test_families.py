"""Queues of each kind of family on both clouds: they come up, settle and go.

localcloud starts no machine here, and has neither drivers nor disks: those show in an account only.
"""

import json

from tests.components.stacks import OWN_AMI, QUEUES
from tests.engine.google import purgeable_demo
from tests.engine.inventory import client
from tests.harness import Project


def own_image(cloud) -> str:
    """An image as ECS publishes it for Neuron, under an id of this region."""
    ec2 = client(cloud.env, "ec2")
    disk = {"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 30, "DeleteOnTermination": True}}
    return ec2.register_image(
        Name="al2023-ami-ecs-neuron",
        Architecture="x86_64",
        RootDeviceName="/dev/xvda",
        BlockDeviceMappings=[disk],
        VirtualizationType="hvm",
    )["ImageId"]


def settles_and_goes(project: Project) -> None:
    assert {step.op for step in project.up().ok().steps} == {"create"}
    assert project.refresh("--expect-no-changes").ok()
    assert project.up("--expect-no-changes").ok().plan == []
    project.destroy().ok()
    assert project.resources() == []


def test_a_stack_on_aws_has_every_kind(cloud, new_project):
    project = new_project("demo-aws")
    image = own_image(cloud)
    with project.config() as config:
        config["tidemill:allow"] = ["purge"]
        sold = {name: queue for name, queue in QUEUES["aws"].items() if name != "hpc7a"}  # not in us-west-2
        config["tidemill:queues"] = json.loads(json.dumps(sold).replace(OWN_AMI, image))
    settles_and_goes(project)


def test_a_stack_on_gcp_has_every_kind(tmp_path_factory):
    with purgeable_demo(tmp_path_factory) as project:
        with project.config() as config:
            config["tidemill:queues"] = QUEUES["gcp"]
        settles_and_goes(project)
