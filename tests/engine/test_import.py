"""The key `tidemill:imports` takes over existing resources: a bucket, a repository and a queue of Batch.

localcloud's provider reads them, and its table says what replaces a resource; AWS's own answers are not shown.
"""

import re
import time

import pytest

from tests.engine.inventory import client
from tests.harness import Project, Run

IMAGE = "registry://preprocess:1.4.1"


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


def wait_valid(batch, environment: str, timeout: float = 300) -> None:
    deadline = time.monotonic() + timeout
    while True:
        answer = batch.describe_compute_environments(computeEnvironments=[environment])
        if answer["computeEnvironments"][0]["status"] == "VALID":
            return
        assert time.monotonic() < deadline, f"{environment} is not VALID within {timeout} s"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def old_queue(cloud) -> str:
    """A queue made by hand before Tidemill, with work in it. Returns the ARN of the queue."""
    s3, batch = client(cloud.env, "s3"), client(cloud.env, "batch")
    s3.create_bucket(Bucket="old-store", CreateBucketConfiguration={"LocationConstraint": cloud.env["AWS_REGION"]})
    s3.create_bucket(Bucket="other-store", CreateBucketConfiguration={"LocationConstraint": cloud.env["AWS_REGION"]})
    s3.put_object(Bucket="old-store", Key="out/2025/result.json", Body=b"{}")
    client(cloud.env, "ecr").create_repository(repositoryName="team/old-images", imageTagMutability="MUTABLE")
    environment = make_environment(cloud, batch)
    wait_valid(batch, environment)
    policy = batch.create_scheduling_policy(name="old-fair", fairsharePolicy={})["arn"]
    order = [{"order": 1, "computeEnvironment": environment}]
    queue = {"state": "ENABLED", "priority": 7, "computeEnvironmentOrder": order}
    batch.create_job_queue(jobQueueName="old-fifo", **queue)
    return batch.create_job_queue(jobQueueName="old-queue", schedulingPolicyArn=policy, **queue)["jobQueueArn"]


@pytest.fixture(scope="module")
def project(new_project, old_queue) -> Project:
    project = new_project("demo-aws")
    with project.config() as config:
        config["tidemill:queues"]["cpu"]["images"] = {"default": IMAGE}
        config["tidemill:imports"] = {
            "store": "old-store",
            "repositories": {"preprocess": "team/old-images"},
            "queues": {"cpu": {"job_queue": old_queue}},
        }
    return project


def differing(run: Run, name: str) -> set[str]:
    """The properties of a resource that the preview lists for its update."""
    (line,) = (line for line in run.text.splitlines() if f"{name} update [diff: " in line)
    return set(re.split("[~+,-]", line.partition("[diff: ")[2].rstrip("]")))


def with_imports(project: Project, **changes) -> Run:
    """Preview with other values of `tidemill:imports`, then restore the file."""
    with project.config() as config:
        before = config["tidemill:imports"]
        config["tidemill:imports"] = before | changes
    run = project.run("preview", events=True)
    with project.config() as config:
        config["tidemill:imports"] = before
    return run


def test_an_import_takes_over_and_shows_first_what_differs(project, cloud):
    run = project.preview().ok()
    assert run.violations == []
    assert differing(run, "demo-local-registry-preprocess-team/old-images") >= {"imageTagMutability", "tags"}
    assert differing(run, "demo-local-cpu-queue-old-queue") >= {"computeEnvironmentOrders", "schedulingPolicyArn"}
    done = project.up().ok().steps
    assert {step.op for step in done} == {"import", "update", "create"}
    assert sorted(str(step) for step in done if step.op == "import") == [
        "import Bucket demo-local-store-bucket-old-store",
        "import JobQueue demo-local-cpu-queue-old-queue",
        "import Repository demo-local-registry-preprocess-team/old-images",
    ]
    (repository,) = client(cloud.env, "ecr").describe_repositories()["repositories"]
    assert repository["imageTagMutability"] == "IMMUTABLE"
    assert project.up("--expect-no-changes").ok().plan == []


def test_what_was_taken_over_keeps_its_names_and_its_data(project, cloud, old_queue):
    assert project.descriptor()["store"] == "s3://old-store"
    assert project.descriptor()["queues"]["cpu"]["aws"]["job_queue"] == old_queue
    s3, batch = client(cloud.env, "s3"), client(cloud.env, "batch")
    assert s3.get_object(Bucket="old-store", Key="out/2025/result.json")["Body"].read() == b"{}"
    (definition,) = batch.describe_job_definitions(status="ACTIVE")["jobDefinitions"]
    assert definition["containerProperties"]["image"].partition("/")[2] == "team/old-images:1.4.1"
    (queue,) = batch.describe_job_queues(jobQueues=["old-queue"])["jobQueues"]
    assert [order["computeEnvironment"].partition("/")[2][:20] for order in queue["computeEnvironmentOrder"]] == [
        "demo-local-cpu-spot-"
    ]


def test_what_was_taken_over_is_protected_and_what_holds_data_stays_when_the_stack_goes(project):
    kept = {}
    for kind in ("s3/bucket:Bucket", "ecr/repository:Repository", "batch/jobQueue:JobQueue"):
        (resource,) = project.resources(kind)
        assert resource["protect"] is True
        kept[kind] = resource.get("retainOnDelete", False)
    assert list(kept.values()) == [True, True, False]


def test_what_was_taken_over_is_not_given_up_by_an_edit_of_the_key(project):
    """The engine itself would put another import in the place of a protected bucket, and delete the bucket."""
    run = with_imports(project, store="other-store").refused()
    told = " ".join(run.text.split())
    assert "demo-local-store-bucket-old-store" in told
    assert "cannot be deleted because it is protected" in told


def test_a_queue_that_cannot_be_taken_over_is_one_line_in_the_preview(project, old_queue):
    fifo = old_queue.replace("old-queue", "old-fifo")
    run = with_imports(project, queues={"cpu": {"job_queue": fifo}}).refused()
    (error,) = (message for message in run.errors if "fair-share scheduling policy" in message)
    assert error.startswith("tidemill:imports.queues.cpu.job_queue")
    assert "\n" not in error.strip()
    assert "Traceback" not in run.text
