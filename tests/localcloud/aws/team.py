"""A pipeline on an emulated Batch, with its store in memory."""

from __future__ import annotations

import itertools
from typing import Any

import boto3

from tests.localcloud.aws.batch.account import REGION, Account
from tests.localcloud.waiting import until
from tests.unit.client_fakes import descriptor, queue
from tidemill.client import Job, Pipeline
from tidemill.clouds.aws.account import AwsAccount
from tidemill.descriptor import AwsQueue, Image, Machine, Rung
from tidemill.services.batch.backend import AwsBatch
from tidemill.store import Store

SMALL = {"instanceTypes": ["c6i.xlarge"], "maxvCpus": 4}

LARGE = Machine(type="c6i.32xlarge", cpus=128, memory_mib=262144)


class Team:
    """A pipeline on an emulated Batch, with its store in memory."""

    def __init__(self, cloud: Account) -> None:
        self.cloud = cloud
        self.session = boto3.Session("A", "B", region_name=REGION)
        self._names = itertools.count()

    def submit(self, queue_arn: str, *command: str, chunks: int = 2, cpus: int = 1, **given: Any) -> Job:
        """A job of so many chunks whose container runs a command instead of a worker."""
        definition = self.cloud.definition(*command, more={"retryStrategy": {"attempts": 2}}, **given)
        images = {"default": Image(ref="r@sha256:0", job_definition=definition)}
        rungs = [Rung(market="spot", max_cpus=128)]
        made = queue(images=images, machines=[LARGE], capacity=rungs, aws=AwsQueue(job_queue=queue_arn))
        described = descriptor(queues={"cpu": made})
        backend = AwsBatch(described, AwsAccount(described, self.session))
        pipeline = Pipeline(described, Store.open("memory://"), backend)
        name = f"job{next(self._names)}"
        uris = [f"s3://raw/{n}" for n in range(chunks)]
        return pipeline.submit(["true"], uris, queue="cpu", name=name, chunk_size=1, cpus=cpus)

    def environment(self, **more: Any) -> str:
        """A compute environment of at most 4 vCPUs."""
        resources: dict[str, Any] = {**SMALL, **more}
        return self.cloud.environment(**resources)

    def queue(self, *environments: str, **more: Any) -> str:
        return self.cloud.queue(*(environments or (self.environment(),)), fair=True, **more)

    def busy(self, queue_arn: str, children: int = 4) -> None:
        """Somebody else's containers on a queue, until the end of the test."""
        job = self.cloud.run(queue_arn, self.cloud.definition("sleep", "600"), shareIdentifier="bob", size=children)
        until(lambda: self.cloud.job(f"{job}:0")["status"] == "RUNNING")
