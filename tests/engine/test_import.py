"""What exists already can be taken over: a bucket, a registry and a queue. Read by localcloud's provider."""

import json
import time

import pytest

from tests.engine.inventory import client

PROGRAM = """
import json
import pulumi
import pulumi_aws as aws

ids = json.loads(pulumi.Config().require("ids"))

def take(name):
    return pulumi.ResourceOptions(import_=ids[name])

aws.s3.Bucket("store", bucket="old-store", opts=take("bucket"))
aws.ecr.Repository("images", name="old-images", image_tag_mutability="{mutability}",
                   image_scanning_configuration={{"scan_on_push": True}}, opts=take("repository"))
aws.batch.JobQueue(
    "queue",
    name="old-queue",
    state="ENABLED",
    priority=7,
    scheduling_policy_arn=ids["policy"],
    compute_environment_orders=[{{"order": 1, "compute_environment": ids["environment"]}}],
    tags={{"team": "vision"}},
    opts=take("queue"),
)
"""


def make_environment(cloud, batch) -> str:
    """A compute environment in the default VPC."""
    ec2, iam = client(cloud.env, "ec2"), client(cloud.env, "iam")
    profile = iam.create_instance_profile(InstanceProfileName="old")["InstanceProfile"]["Arn"]
    made = batch.create_compute_environment(
        computeEnvironmentName="old",
        type="MANAGED",
        state="ENABLED",
        computeResources={
            "type": "EC2",
            "maxvCpus": 4,
            "instanceTypes": ["c6i.large"],
            "instanceRole": profile,
            "subnets": [ec2.describe_subnets()["Subnets"][0]["SubnetId"]],
            "securityGroupIds": [ec2.describe_security_groups()["SecurityGroups"][0]["GroupId"]],
        },
    )
    return made["computeEnvironmentArn"]


def wait_valid(batch, environment: str, timeout: float = 20) -> None:
    deadline = time.monotonic() + timeout
    while True:
        answer = batch.describe_compute_environments(computeEnvironments=[environment])
        if answer["computeEnvironments"][0]["status"] == "VALID":
            return
        assert time.monotonic() < deadline, f"{environment} is not VALID within {timeout} s"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def ids(cloud) -> dict[str, str]:
    """What somebody made by hand before Tidemill came."""
    region = cloud.env["AWS_REGION"]
    client(cloud.env, "s3").create_bucket(Bucket="old-store", CreateBucketConfiguration={"LocationConstraint": region})
    scanning = {"scanOnPush": True}
    ecr = client(cloud.env, "ecr")
    ecr.create_repository(
        repositoryName="old-images", imageTagMutability="IMMUTABLE", imageScanningConfiguration=scanning
    )
    batch = client(cloud.env, "batch")
    environment = make_environment(cloud, batch)
    wait_valid(batch, environment)
    policy = batch.create_scheduling_policy(name="old-fair", fairsharePolicy={})["arn"]
    queue = batch.create_job_queue(
        jobQueueName="old-queue",
        state="ENABLED",
        priority=7,
        schedulingPolicyArn=policy,
        computeEnvironmentOrder=[{"order": 1, "computeEnvironment": environment}],
        tags={"team": "vision"},
    )["jobQueueArn"]
    return {
        "bucket": "old-store",
        "repository": "old-images",
        "queue": queue,
        "environment": environment,
        "policy": policy,
    }


@pytest.fixture
def project(new_project, ids):
    project = new_project("demo-aws")
    with project.config() as config:
        config["tidemill:ids"] = json.dumps(ids)
    return project


def test_an_import_takes_over_and_the_next_up_changes_nothing(project):
    with project.program(PROGRAM.format(mutability="IMMUTABLE")):
        run = project.up().ok()
        assert {step.op for step in run.steps} == {"import"}
        assert len(run.steps) == 3
        assert project.up("--expect-no-changes").ok().plan == []


def test_what_differs_is_updated_in_place_after_the_import(project, cloud):
    with project.program(PROGRAM.format(mutability="MUTABLE")):
        plan = project.up().ok().plan
    assert sorted(plan[:3]) == ["import Bucket store", "import JobQueue queue", "import Repository images"]
    assert plan[3:] == ["update Repository images"]
    (repository,) = client(cloud.env, "ecr").describe_repositories()["repositories"]
    assert repository["imageTagMutability"] == "MUTABLE"
