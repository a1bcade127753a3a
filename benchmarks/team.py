"""A team's store and queue on localcloud for benchmarks of the client, without a stack or a machine that takes work."""

from __future__ import annotations

import contextlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3

from localcloud.cloud import Cloud
from tidemill.descriptor import AwsQueue, Descriptor, Image, Machine, Queue, Rung

REGION = "us-west-2"
BUCKET = "bench-store"
TIMEOUT_SECONDS = 300


@dataclass(frozen=True)
class Run:
    """A finished process: its output, wall and CPU seconds, and largest resident memory in MB."""

    out: str
    err: str
    seconds: float
    cpu_seconds: float
    megabytes: float


@dataclass(frozen=True)
class Team:
    """A pipeline whose machines never come."""

    cloud: Cloud
    folder: Path

    @property
    def env(self) -> dict[str, str]:
        """The environment of a user who submits."""
        return {**self.cloud.env, "TIDEMILL_PIPELINE": f"s3://{BUCKET}/pipeline.json"}

    def client(self, service: str) -> Any:
        """Return a boto3 client of this cloud."""
        return client(self.env, service)

    def tidemill(self, *arguments: str, env: Mapping[str, str] | None = None) -> Run:
        """Run the command line to its end."""
        return run(
            [str(Path(sys.executable).parent / "tidemill"), *arguments], {**self.env, **(env or {})}, self.folder
        )

    def calls(self) -> int:
        """Return how many requests this cloud has answered so far."""
        return sum(row["count"] for row in self.cloud.control("calls"))

    @contextlib.contextmanager
    def far_away(self, seconds: float) -> Iterator[Relay]:
        """Yield a relay to this cloud that delays and counts every request."""
        command = [sys.executable, "-m", "benchmarks.delay", self.cloud.url.rsplit(":", 1)[1], str(seconds)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
        try:
            yield Relay(process)
        finally:
            process.kill()
            process.wait()


class Relay:
    """A relay process (`benchmarks.delay`)."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.env = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._line()}"}

    def requests(self) -> int:
        """Return the number of requests so far."""
        assert self._process.stdin is not None
        self._process.stdin.write("?\n")
        self._process.stdin.flush()
        return self._line()

    def _line(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())


def client(env: Mapping[str, str], service: str) -> Any:
    """Return a boto3 client of the cloud that an environment names."""
    return boto3.client(
        service,
        region_name=REGION,
        endpoint_url=env["AWS_ENDPOINT_URL"],
        aws_access_key_id=env["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=env["AWS_SECRET_ACCESS_KEY"],
    )


def run(command: Sequence[str], env: Mapping[str, str], folder: Path) -> Run:
    """Run a process and measure it.

    Raises:
        RuntimeError: The process failed.
    """
    with (folder / "out").open("w+") as out, (folder / "err").open("w+") as err:
        start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        child = subprocess.Popen(command, env=dict(env), stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        try:
            highest = 0
            # The kernel's own figure of an ended child (ru_maxrss) starts with the memory of the forking process.
            while child.poll() is None and time.monotonic() < start + TIMEOUT_SECONDS:
                highest = max(highest, _high_water(child.pid))
                time.sleep(0.01)
            seconds = time.monotonic() - start
        finally:
            child.kill()
            child.wait()
        out.seek(0)
        err.seek(0)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
        done = Run(out.read(), err.read(), seconds, cpu, highest / 1024)
    if child.returncode:
        raise RuntimeError(f"{command} ended with {child.returncode}: {done.err[-2000:]}")
    return done


def _high_water(pid: int) -> int:
    """Return the largest resident memory of a process so far, in KiB."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    return 0


@contextlib.contextmanager
def team() -> Iterator[Team]:
    """Start a cloud with a store and a queue."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, Cloud(Path(folder) / "cloud") as cloud:
        made = Team(cloud, Path(folder))
        made.client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        body = _descriptor(made).model_dump_json().encode()
        made.client("s3").put_object(Bucket=BUCKET, Key="pipeline.json", Body=body)
        yield made


def _descriptor(made: Team) -> Descriptor:
    queue, definition = _queue(made)
    return Descriptor(
        team="bench",
        environment="dev",
        cloud="aws",
        region=REGION,
        account="123456789012",
        store=f"s3://{BUCKET}",
        queues={
            "cpu": Queue(
                images={"default": Image(ref="bench@sha256:0", job_definition=definition)},
                machines=[Machine(type="c7i.8xlarge", cpus=32, memory_mib=65536)],
                capacity=[Rung(market="spot", max_cpus=4000)],
                scratch_gib=100,
                aws=AwsQueue(job_queue=queue),
            )
        },
    )


def _queue(made: Team) -> tuple[str, str]:
    """Return the ARNs of a queue over a disabled environment, and of a job definition."""
    iam, ec2, batch = made.client("iam"), made.client("ec2"), made.client("batch")
    trust = {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    iam.create_role(RoleName="bench", AssumeRolePolicyDocument=document)
    profile = iam.create_instance_profile(InstanceProfileName="bench")["InstanceProfile"]["Arn"]
    iam.add_role_to_instance_profile(InstanceProfileName="bench", RoleName="bench")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24")["Subnet"]["SubnetId"]
    environment = batch.create_compute_environment(
        computeEnvironmentName="bench",
        type="MANAGED",
        computeResources={
            "type": "SPOT",
            "allocationStrategy": "SPOT_PRICE_CAPACITY_OPTIMIZED",
            "maxvCpus": 4000,
            "instanceTypes": ["c6i.large"],
            "subnets": [subnet],
            "instanceRole": profile,
        },
    )["computeEnvironmentArn"]
    _valid(lambda: batch.describe_compute_environments(computeEnvironments=[environment])["computeEnvironments"])
    policy = batch.create_scheduling_policy(name="bench", fairsharePolicy={})["arn"]
    queue = batch.create_job_queue(
        jobQueueName="bench",
        priority=1,
        schedulingPolicyArn=policy,
        computeEnvironmentOrder=[{"order": 1, "computeEnvironment": environment}],
    )["jobQueueArn"]
    _valid(lambda: batch.describe_job_queues(jobQueues=[queue])["jobQueues"])
    batch.update_compute_environment(computeEnvironment=environment, state="DISABLED")
    needs = [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "256"}]
    item = {"image": "bench", "command": ["true"], "resourceRequirements": needs}
    definition = batch.register_job_definition(jobDefinitionName="bench", type="container", containerProperties=item)[
        "jobDefinitionArn"
    ]
    return queue, definition


def _valid(look: Any) -> None:
    end = time.monotonic() + 30
    while look()[0]["status"] != "VALID":
        if time.monotonic() > end:
            raise RuntimeError("Batch did not become ready")
        time.sleep(0.05)
