"""The provider in the real Pulumi engine. It cannot prove what AWS accepts, only how the engine uses the provider."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from localcloud.cloud import Cloud
from tests.localcloud.waiting import until
from tests.warm import warmed

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("localcloud-provider-engine")]

PROGRAM = """
import json
import os

import pulumi
import pulumi_aws as aws

case = os.environ.get("CASE", "plain")

if case == "plain":
    store = aws.s3.Bucket("store", force_destroy=True)
    secret = pulumi.Output.secret("not to be read in a state")
    aws.s3.BucketObjectv2("object", bucket=store.id, key="a", content=secret)
    template = aws.ec2.LaunchTemplate("template", user_data=os.environ.get("DATA", "YQ=="))
    vpc = aws.ec2.Vpc("net", cidr_block="10.0.0.0/16")
    subnet = aws.ec2.Subnet("subnet", vpc_id=vpc.id, cidr_block="10.0.0.0/24")
    group = aws.ec2.SecurityGroup("group", vpc_id=vpc.id)
    trust = {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
    role = aws.iam.Role("role", assume_role_policy=json.dumps({"Version": "2012-10-17", "Statement": [trust]}))
    profile = aws.iam.InstanceProfile("profile", role=role.name)
    machines = aws.batch.ComputeEnvironment(
        "machines",
        type="MANAGED",
        compute_resources={
            "type": "SPOT",
            "allocation_strategy": "SPOT_PRICE_CAPACITY_OPTIMIZED",
            "min_vcpus": 0,
            "max_vcpus": int(os.environ.get("CPUS", "8")),
            "instance_types": ["c6i.large"],
            "instance_role": profile.arn,
            "subnets": [subnet.id],
            "security_group_ids": [group.id],
            "placement_group": os.environ.get("PLACEMENT"),
            "launch_template": {
                "launch_template_id": template.id,
                "version": template.latest_version.apply(str),
            },
        },
        opts=pulumi.ResourceOptions(protect="PROTECT" in os.environ),
    )
    orders = [{"order": 1, "compute_environment": machines.arn}]
    queue = aws.batch.JobQueue("queue", state="ENABLED", priority=1, compute_environment_orders=orders)
    pulumi.export("bucket", store.id)
    pulumi.export("queue", queue.arn)
    pulumi.export("tags", store.tags_all)
    pulumi.export("account", aws.get_caller_identity().account_id)
elif case == "refused":
    aws.s3.Bucket("store", acl="private")
elif case == "misspelled":
    aws.iam.Role("role", assume_role_policy="{}", name="not a name")
elif case == "imports":
    found = json.loads(os.environ["FOUND"])
    kept = lambda id: pulumi.ResourceOptions(import_=id)
    aws.s3.Bucket("bucket", bucket=found["bucket"], opts=kept(found["bucket"]))
    aws.ecr.Repository("images", name=found["images"], image_tag_mutability="IMMUTABLE", opts=kept(found["images"]))
    orders = [{"order": 1, "compute_environment": found["environment"]}]
    aws.batch.JobQueue(
        "queue",
        name=found["queue"].split("/")[-1],
        state="ENABLED",
        priority=1,
        compute_environment_orders=orders,
        opts=kept(found["queue"]),
    )
"""


class Project:
    """A small Pulumi project on a running localcloud."""

    def __init__(self, cloud: Cloud, folder: Path) -> None:
        self.cloud, self.folder = cloud, folder
        self.environment = warmed(cloud.env)
        (folder / "Pulumi.yaml").write_text("name: probe\nruntime: python\n")
        (folder / "__main__.py").write_text(PROGRAM)

    def start(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        """Start the CLI in its own session (the engine gives each plugin a process group)."""
        return subprocess.Popen(
            ["pulumi", *words, "--non-interactive"],
            cwd=self.folder,
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *words: str, fails: bool = False, **environment: str) -> str:
        """Run the CLI, check the exit code, and return its output."""
        process = self.start(*words, **environment)
        try:
            output, _ = process.communicate(timeout=600)
        finally:
            kill(process)
        assert (process.returncode != 0) is fails, output
        return output

    def client(self, service: str) -> Any:
        """A boto3 client of the deployer."""
        key = {name: self.environment[f"AWS_{name.upper()}"] for name in ("access_key_id", "secret_access_key")}
        named = {f"aws_{name}": value for name, value in key.items()}
        return boto3.client(service, "us-west-2", endpoint_url=self.cloud.url, **named)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("project")
    with Cloud(tmp_path_factory.mktemp("cloud"), batch_transition_seconds=0.1, relation_seconds=0.1) as cloud:
        project = Project(cloud, folder)
        project.run("stack", "init", "plain")
        project.run("config", "set", "--path", "aws:defaultTags.tags.team", "vision")
        project.run("config", "set", "aws:region", "us-west-2")
        project.run("up", "--yes", "--skip-preview")
        yield project


def test_secrets_tags_and_a_second_up(project: Project) -> None:
    state = project.run("stack", "export")
    assert "not to be read in a state" not in state
    outputs = json.loads(project.run("stack", "output", "--json"))
    assert outputs["tags"] == {"team": "vision"}
    assert outputs["account"] == "123456789012"
    body = project.client("s3").get_object(Bucket=outputs["bucket"], Key="a")["Body"].read()
    assert body == b"not to be read in a state"
    assert "unchanged" in project.run("up", "--yes", "--expect-no-changes")


def test_settings_of_the_provider_reach_what_took_them(project: Project) -> None:
    """A review would miss them otherwise: another region recreates everything regional."""
    project.run("config", "set", "--path", "aws:defaultTags.tags.team", "speech")
    assert re.search(r"~ \d+ to update", project.run("preview"))
    project.run("config", "set", "--path", "aws:defaultTags.tags.team", "vision")
    project.run("config", "set", "aws:region", "us-east-1")
    assert re.search(r"to replace|to be replaced|marked for protection", project.run("preview"))
    project.run("config", "set", "aws:region", "us-west-2")
    assert "to update" not in project.run("preview", "--expect-no-changes")


def test_a_changed_template_is_a_new_version_and_an_update_in_place(project: Project) -> None:
    said = project.run("preview", "--diff", DATA="Yg==")
    assert "replace" not in said
    assert 'version: "1" => [unknown]' in said
    assert "2 to update" in said


def test_a_preview_shows_what_replaces_and_protect_stops_it(project: Project) -> None:
    said = project.run("preview", "--diff", PLACEMENT="other")
    assert "+-aws:batch/computeEnvironment:ComputeEnvironment: (replace)" in said
    assert "+ placementGroup" in said
    project.run("up", "--yes", "--skip-preview", PROTECT="1")
    said = project.run("preview", fails=True, PLACEMENT="other", PROTECT="1")
    assert "unable to replace resource" in said
    project.run("up", "--yes", "--skip-preview")


def test_refresh_takes_over_what_changed_outside(project: Project) -> None:
    queue = json.loads(project.run("stack", "output", "--json"))["queue"]
    project.client("batch").update_job_queue(jobQueue=queue, priority=7)
    said = project.run("refresh", "--yes", "--skip-preview", "--diff")
    assert "priority: 1 => 7" in said
    assert "1 updated" in said
    said = project.run("preview", "--diff")
    assert "priority: 7 => 1" in said
    project.run("up", "--yes", "--skip-preview")


@pytest.mark.parametrize(
    ("case", "texts"),
    [
        ("refused", ["acl", "no such property of aws:s3/bucket:Bucket in localcloud"]),
        ("misspelled", ["'not a name' does not match"]),
    ],
)
def test_what_a_type_does_not_take_stops_the_preview(project: Project, case: str, texts: list[str]) -> None:
    said = project.run("preview", fails=True, CASE=case)
    assert all(text in said for text in texts), said
    assert "Traceback" not in said


def test_import_of_bucket_registry_and_queue(project: Project) -> None:
    project.client("s3").create_bucket(
        Bucket="found-bucket", CreateBucketConfiguration={"LocationConstraint": "us-west-2"}
    )
    project.client("ecr").create_repository(repositoryName="found-images", imageTagMutability="IMMUTABLE")
    batch = project.client("batch")
    environment = batch.describe_compute_environments()["computeEnvironments"][0]["computeEnvironmentArn"]
    orders = [{"order": 1, "computeEnvironment": environment}]
    made = batch.create_job_queue(jobQueueName="found", priority=1, state="ENABLED", computeEnvironmentOrder=orders)
    found = {
        "bucket": "found-bucket",
        "images": "found-images",
        "queue": made["jobQueueArn"],
        "environment": environment,
    }
    project.run("stack", "init", "imports")
    try:
        project.run("config", "set", "aws:region", "us-west-2")
        text = json.dumps(found)
        assert "3 imported" in project.run("up", "--yes", "--skip-preview", CASE="imports", FOUND=text)
        project.run("up", "--yes", "--expect-no-changes", CASE="imports", FOUND=text)
        project.run("destroy", "--yes", "--skip-preview")
    finally:
        project.run("stack", "select", "plain")


def test_an_interrupt_is_quiet_and_leaves_no_process(project: Project) -> None:
    process = project.start("up", "--yes", "--skip-preview", CPUS="16")
    try:
        until(lambda: len(session(process.pid)) >= 3)
        os.kill(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=600)
        until(lambda: not session(process.pid))
    finally:
        kill(process)
    assert "KeyboardInterrupt" not in output
    assert "Traceback" not in output


def session(leader: int) -> list[int]:
    """The running processes of a session."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[3]) == leader and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


def kill(process: subprocess.Popen[str]) -> None:
    """End the rest of a run, plugins included."""
    for pid in session(process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_destroy_leaves_nothing(project: Project) -> None:
    project.run("destroy", "--yes", "--skip-preview")
    assert json.loads(project.run("stack", "export"))["deployment"].get("resources", []) == []
    assert project.client("batch").describe_compute_environments()["computeEnvironments"] == []
