"""A Batch with only moto around it: shared by the tests of localcloud's Batch."""

from __future__ import annotations

import base64
import json
import math
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from localcloud.aws.accounts import moto, service_client
from localcloud.aws.batch import BatchApi, BatchWsgi, Host, Settings
from localcloud.aws.wsgi import serve_socket
from tests.localcloud.waiting import SECONDS, until
from tidemill.folders import while_needed

REGION = "us-west-2"
FAST: dict[str, Any] = {
    "reclaim_seconds": 0.8,
    "machine_boot_seconds": 0.05,
    "idle_seconds": 0.5,
    "batch_transition_seconds": 0.1,
    "relation_seconds": 0.6,
    "stop_seconds": 0.5,
}


def role(service: str) -> str:
    """A new role that the service may assume; its ARN."""
    statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    made = service_client("iam", REGION).create_role(RoleName=f"r-{uuid.uuid4()}", AssumeRolePolicyDocument=document)
    return made["Role"]["Arn"]


class Account:
    """A Batch on a port of its own, and the resources that jobs need.

    Attributes:
        batch: boto3's client of it.
        api: The Batch behind it.
        denied: Actions that ``authorize`` refuses.
        asked: What ``authorize`` was asked: (role, action, resource).
    """

    def __init__(self, state: Path, **settings: Any) -> None:
        self.denied: set[str] = set()
        self.asked: list[tuple[str, str, str]] = []
        listening = socket.create_server(("127.0.0.1", 0))
        self.port = listening.getsockname()[1]
        options = Settings(state, self.port, **(FAST | settings))
        self.api = BatchApi(options, Host(self._app, self._authorize))
        self._wsgi = BatchWsgi(self.api)
        self._served = serve_socket(listening, self._app)
        listening.close()
        self.batch = self.client("batch")
        self.ec2, self.logs = service_client("ec2", REGION), service_client("logs", REGION)
        vpc = self.ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        self.subnet = self.ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24")["Subnet"]["SubnetId"]
        self.instance_role = role("ec2.amazonaws.com")
        self.profile = self._profile()

    def client(self, name: str, **options: Any) -> Any:
        """A boto3 client of a service behind the port, which does not repeat what is refused."""
        return boto3.client(
            name,
            region_name=REGION,
            endpoint_url=f"http://127.0.0.1:{self.port}",
            aws_access_key_id="A",
            aws_secret_access_key="B",
            config=Config(retries={"max_attempts": 0}, **options),
        )

    def _app(self, environ: dict[str, Any], start_response: Any) -> Any:
        batch = "/batch/" in environ.get("HTTP_AUTHORIZATION", "")
        return (self._wsgi if batch else moto)(environ, start_response)

    def _authorize(self, role: str, action: str, resource: str, region: str) -> bool:
        self.asked.append((role, action, resource))
        return action not in self.denied

    def _profile(self) -> str:
        iam, name = service_client("iam", REGION), f"p-{uuid.uuid4()}"
        made = iam.create_instance_profile(InstanceProfileName=name)
        iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=self.instance_role.split("/")[-1])
        return made["InstanceProfile"]["Arn"]

    def template(self, user_data: str = "", **data: Any) -> dict[str, str]:
        """A launch template whose user data is this shell script in MIME; as an environment names it."""
        mime = (
            'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="=="\n\n--==\n'
            f'Content-Type: text/x-shellscript; charset="us-ascii"\n\n{user_data}\n--==--\n'
        )
        made = self.ec2.create_launch_template(
            LaunchTemplateName=f"t-{uuid.uuid4()}",
            LaunchTemplateData={"UserData": base64.b64encode(mime.encode()).decode(), **data},
        )
        return {"launchTemplateId": made["LaunchTemplate"]["LaunchTemplateId"], "version": "1"}

    def environment(self, name: str = "", wait: bool = True, **resources: Any) -> str:
        """A compute environment of small Spot machines; its ARN."""
        computed = {
            "type": "SPOT", "allocationStrategy": "SPOT_PRICE_CAPACITY_OPTIMIZED", "maxvCpus": 4,
            "instanceTypes": ["c6i.large", "c6i.xlarge"], "subnets": [self.subnet], "instanceRole": self.profile,
        }  # fmt: skip
        made = self.batch.create_compute_environment(
            computeEnvironmentName=name or f"e-{uuid.uuid4()}", type="MANAGED", computeResources=computed | resources
        )
        if wait:
            until(lambda: self.status_of(made["computeEnvironmentArn"]) == "VALID")
        return made["computeEnvironmentArn"]

    def status_of(self, environment: str) -> str | None:
        """Status of a compute environment, None when it is gone."""
        found = self.batch.describe_compute_environments(computeEnvironments=[environment])["computeEnvironments"]
        return found[0]["status"] if found else None

    def queue_status(self, queue: str) -> str | None:
        """Status of a queue, None when it is gone."""
        found = self.batch.describe_job_queues(jobQueues=[queue])["jobQueues"]
        return found[0]["status"] if found else None

    def queue(self, *environments: str, fair: bool = False, wait: bool = True, **more: Any) -> str:
        """A job queue over these environments (one is made if none is given); its ARN."""
        rungs = environments or (self.environment(),)
        if fair:
            policy = self.batch.create_scheduling_policy(name=f"s-{uuid.uuid4()}", fairsharePolicy={})
            more["schedulingPolicyArn"] = policy["arn"]
        order = [{"order": n, "computeEnvironment": each} for n, each in enumerate(rungs, 1)]
        made = self.batch.create_job_queue(
            jobQueueName=f"q-{uuid.uuid4()}", priority=1, computeEnvironmentOrder=order, **more
        )
        if wait:
            until(lambda: self.queue_status(made["jobQueueArn"]) == "VALID")
        return made["jobQueueArn"]

    def definition(self, *command: str, cpus: int = 1, memory: int = 256, more: Any = None, **container: Any) -> str:
        """A job definition; its ARN."""
        needs = [{"type": "VCPU", "value": str(cpus)}, {"type": "MEMORY", "value": str(memory)}]
        item = {"image": "image", "command": list(command), "resourceRequirements": needs} | container
        made = self.batch.register_job_definition(
            jobDefinitionName=f"d-{uuid.uuid4()}", type="container", containerProperties=item, **(more or {})
        )
        return made["jobDefinitionArn"]

    def run(self, queue: str, definition: str, size: int | None = None, **more: Any) -> str:
        """Submit; the job's id."""
        array = {"arrayProperties": {"size": size}} if size else {}
        name = more.pop("name", "job")
        return self.batch.submit_job(jobName=name, jobQueue=queue, jobDefinition=definition, **array, **more)["jobId"]

    def job(self, identity: str) -> dict[str, Any]:
        """DescribeJobs of one."""
        return self.batch.describe_jobs(jobs=[identity])["jobs"][0]

    def ended(self, identity: str, seconds: float = SECONDS) -> dict[str, Any]:
        """The job when it has ended."""
        return until(lambda: (j := self.job(identity))["status"] in ("SUCCEEDED", "FAILED") and j, seconds)

    def becomes(self, identity: str, status: str) -> dict[str, Any]:
        """The job when it has this status."""
        return until(lambda: (j := self.job(identity))["status"] == status and j)

    def lines(self, identity: str, group: str = "/aws/batch/job") -> list[str]:
        """What the last attempt of a job wrote."""
        stream = self.job(identity)["attempts"][-1]["container"]["logStreamName"]
        events = self.logs.get_log_events(logGroupName=group, logStreamName=stream, startFromHead=True)["events"]
        return [event["message"] for event in events]

    @contextmanager
    def still(self) -> Iterator[None]:
        """Stop time for Batch, so that a state that lasts a tenth of a second can be observed."""
        core = self.api._core
        with core.lock:
            core.run_due = lambda: 0.05
        try:
            yield
        finally:
            with core.lock:
                del core.run_due

    @contextmanager
    def lingering(self) -> Iterator[None]:
        """Relations between queues and environments outlast this, and end with it."""
        core, environments = self.api._core, self.api._environments.all
        settings = core.settings
        core.settings = replace(settings, relation_seconds=3600)
        try:
            yield
        finally:
            core.settings = settings
            with core.lock:
                for environment in environments.values():
                    lasting = {queue: until for queue, until in environment.relations.items() if until == math.inf}
                    environment.relations = lasting

    def stop(self) -> None:
        self.api.stop()
        self._served.close()


@contextmanager
def account(**settings: Any) -> Iterator[Account]:
    """An account of its own for a test, whose processes end with it."""
    with while_needed("batch") as state:
        made = Account(state, **settings)
        try:
            yield made
        finally:
            made.stop()
