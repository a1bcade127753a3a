"""Job definitions and jobs: what a submit requests, and what describe and list return.

A plain job has one child; an array has thousands. Children use ``__slots__``, so 10,000 of them take a few megabytes
and no thread.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from dataclasses import dataclass, field

from localcloud.aws.batch.core import Json, invalid, left_out, now_ms, refuse_left_out
from localcloud.aws.batch.instance_types import Needs
from localcloud.aws.batch.metrics import MOVED, SUBMITTED, WAITED, metrics

WAITING = ("SUBMITTED", "PENDING", "RUNNABLE")
ENDED = ("SUCCEEDED", "FAILED")
STATUSES = (*WAITING, "STARTING", "RUNNING", *ENDED)
CONTAINER_LEFT_OUT = (
    "instanceType", "fargatePlatformConfiguration", "ephemeralStorage", "repositoryCredentials",
    "vcpus", "memory", "networkConfiguration",
)  # fmt: skip
LINUX_LEFT_OUT = ("maxSwap", "swappiness")


def _devices(container: Json) -> list[dict[str, str]]:
    return container.get("linuxParameters", {}).get("devices") or []


@dataclass(slots=True)
class Attempt:
    """One run of a child, as DescribeJobs reports it. Times are in milliseconds."""

    instance_arn: str
    task_arn: str
    log_stream: str | None
    started: int | None = None
    stopped: int | None = None
    exit_code: int | None = None
    reason: str | None = None
    status_reason: str = ""

    def describe(self) -> Json:
        container = {"networkInterfaces": []}
        container |= known(exitCode=self.exit_code, reason=self.reason, logStreamName=self.log_stream)
        where = {"containerInstanceArn": self.instance_arn, "taskArn": self.task_arn}
        times = known(startedAt=self.started, stoppedAt=self.stopped, statusReason=self.status_reason)
        return times | {"container": where | container}


class Child:
    """A job that runs: the only child of a plain job (index None), or one of an array."""

    __slots__ = ("attempts", "ending", "index", "job", "reason", "runnable_since", "status")

    def __init__(self, job: Job, index: int | None) -> None:
        self.job = job
        self.index = index
        self.status = "SUBMITTED"
        self.attempts: list[Attempt] = []
        self.reason: str | None = None
        self.ending: str | None = None  # TerminateJob or CancelJob
        self.runnable_since = 0.0

    @property
    def id(self) -> str:
        return self.job.id if self.index is None else f"{self.job.id}:{self.index}"

    def to(self, status: str, reason: str | None = None) -> None:
        """Change the status, and update the job's summary."""
        self.job.summary[self.status] -= 1
        self.job.summary[status] += 1
        self.job.count(MOVED[status], 1)
        if status == "STARTING":
            self.job.count(WAITED, (time.monotonic() - self.runnable_since) * 1000)
        self.status = status
        self.reason = reason
        if status in ENDED:
            self.job.stopped = now_ms()


@dataclass
class Task:
    """What a job runs.

    Attributes:
        container: ``containerProperties``, with overrides merged in: command, environment, resourceRequirements, …
    """

    container: Json

    @property
    def needs(self) -> Needs:
        """Return the resources that it requires of a machine."""
        asked = {each["type"]: each["value"] for each in self.container.get("resourceRequirements", [])}
        try:
            return Needs(int(asked["VCPU"]), int(asked["MEMORY"]), int(asked.get("GPU", "0")))
        except (KeyError, ValueError):
            raise invalid(
                f"Container resourceRequirements must name VCPU and MEMORY (and GPU) as whole numbers, got {asked}."
            ) from None

    @property
    def role(self) -> str:
        """ARN of the job's role, empty if it has none."""
        return self.container.get("jobRoleArn", "")

    @property
    def volumes(self) -> list[Json]:
        return self.container.get("volumes", [])

    @classmethod
    def of(cls, definition: Json) -> Task:
        """Return the task of a job definition or of the properties in a RegisterJobDefinition request.

        Raises:
            BatchError: It requires something that Batch refuses or that this emulation lacks.
        """
        if "containerProperties" not in definition:
            raise left_out("a job definition without containerProperties")
        task = cls(definition["containerProperties"])
        task.check()
        return task

    def check(self) -> None:
        self._check(self.container)
        for volume in self.volumes:
            refuse_left_out(volume, ["s3filesVolumeConfiguration"], "a volume")
            self._check_elastic(volume.get("efsVolumeConfiguration", {}))
        _ = self.needs

    def _check_elastic(self, volume: Json) -> None:
        """https://docs.aws.amazon.com/batch/latest/APIReference/API_EFSAuthorizationConfig.html"""
        wanted = volume.get("authorizationConfig", {})
        if wanted and volume.get("transitEncryption") != "ENABLED":
            raise invalid("EFS authorizationConfig requires transitEncryption to be ENABLED.")
        if wanted.get("accessPointId") and volume.get("rootDirectory", "/") != "/":
            raise invalid("With an EFS access point, rootDirectory must be omitted or set to /.")
        if wanted.get("iam") == "ENABLED" and not self.role:
            raise invalid("EFS IAM authorization requires a jobRoleArn.")

    def _check(self, container: Json) -> None:
        if not container.get("image"):
            raise invalid("Container image must not be null or empty.")
        if container.get("user", "root") not in ("root", "0") or container.get("privileged"):
            raise left_out("user or privileged in a container")
        log = container.get("logConfiguration", {"logDriver": "awslogs"})
        if log["logDriver"] != "awslogs" or log.get("secretOptions"):
            raise left_out(f"the log driver {log['logDriver']}")
        refuse_left_out(container, CONTAINER_LEFT_OUT, "a container")
        refuse_left_out(container.get("linuxParameters", {}), LINUX_LEFT_OUT, "linuxParameters")
        # Neuron devices are kept and ignored, as GPUs are: no machine here has them.
        if any(not each.get("hostPath", "").startswith("/dev/neuron") for each in _devices(container)):
            raise left_out("devices other than Neuron's")
        for each in container.get("environment", []):
            if each.get("name", "").startswith("AWS_BATCH"):
                raise invalid(f"the environment variable {each['name']} uses the reserved prefix AWS_BATCH.")
        volumes = {each["name"] for each in self.volumes}
        for mount in container.get("mountPoints", []):
            if mount["sourceVolume"] not in volumes:
                raise invalid(
                    f"mountPoint names the volume {mount['sourceVolume']!r}, "
                    f"which is not among the volumes {sorted(volumes)}."
                )

    def override(self, overrides: Json) -> Task:
        """Return this task with a submit's container overrides merged in."""
        container = dict(self.container)
        if "command" in overrides:
            container["command"] = overrides["command"]
        for key, name in (("environment", "name"), ("resourceRequirements", "type")):
            merged = {each[name]: each for each in [*container.get(key, []), *overrides.get(key, [])]}
            if merged:
                container[key] = list(merged.values())
        task = Task(container)
        task.check()
        return task


LISTS = ("command", "environment", "mountPoints", "resourceRequirements", "secrets", "ulimits")


def with_empty_lists(definition: Json) -> Json:
    """Return a job definition as DescribeJobDefinitions does, with an empty list for each missing one.

    Source: https://github.com/hashicorp/terraform-provider-aws/issues/19624, and the answers in the provider's tests.
    """
    properties = definition["containerProperties"]
    return definition | {"containerProperties": _filled(properties) | {"volumes": properties.get("volumes", [])}}


def _filled(container: Json) -> Json:
    filled = {**{name: [] for name in LISTS}, **container}
    if linux := container.get("linuxParameters"):
        filled["linuxParameters"] = {"devices": [], "tmpfs": [], **linux}
    if log := container.get("logConfiguration"):
        filled["logConfiguration"] = {"secretOptions": [], "options": {}, **log}
    return filled


def known(**values: object) -> Json:
    """Return the values that are not None."""
    return {key: value for key, value in values.items() if value is not None}


@dataclass
class Job:
    """One SubmitJob. Times are in milliseconds.

    Attributes:
        size: The size of the array, or None for a plain job.
        summary: Children by status.
        tags: Tags of the job and of its children.
        depends_on: Jobs that must have succeeded before its children become RUNNABLE.
    """

    arn: str
    name: str
    region: str
    queue: str
    definition: str
    task: Task
    share: str | None
    size: int | None
    retry: Json
    timeout: Json | None
    tags: dict[str, str]
    parameters: dict[str, str]
    """Shown, and part of its events; no command of ours has a place for them."""
    propagate: bool
    depends_on: list[Job] = field(default_factory=list)
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    created: int = field(default_factory=now_ms)
    stopped: int | None = None
    cancelled: str | None = None
    terminated: str | None = None

    def __post_init__(self) -> None:
        self.arn += self.id
        self.needs = self.task.needs
        indices = [None] if self.size is None else range(self.size)
        self.children = [Child(self, index) for index in indices]
        self.summary: Counter[str] = Counter(dict.fromkeys(STATUSES, 0))
        self.summary["SUBMITTED"] = len(self.children)
        self.count(SUBMITTED, len(self.children))

    def count(self, name: str, value: float) -> None:
        """Add a value to a metric of its queue."""
        metrics.add(self.region, self.queue.rpartition("/")[2], name, value, time.time())

    @property
    def status(self) -> str:
        """A plain job has the status of its child.

        An array is SUBMITTED, then PENDING until every child has ended, and then SUCCEEDED or FAILED.
        """
        if self.size is None:
            return self.children[0].status
        if self.summary["SUBMITTED"] == self.size:
            return "SUBMITTED"
        if self.summary["SUCCEEDED"] + self.summary["FAILED"] < self.size:
            return "PENDING"
        return "FAILED" if self.summary["FAILED"] else "SUCCEEDED"

    @property
    def statistics(self) -> Json:
        return {"size": self.size, "statusSummary": dict(self.summary), "statusSummaryLastUpdatedAt": now_ms()}


CHILD_FAILED = "Array Child Job failed"


def _common(job: Job, child: Child | None) -> Json:
    """Return what describe and list share (child None: of an array's parent)."""
    attempts = child.attempts if child else []
    last = attempts[-1] if attempts else None
    ended = (child.status if child else job.status) in ENDED
    gave_up = CHILD_FAILED if job.status == "FAILED" else None
    reason = child.reason if child else job.terminated or job.cancelled or gave_up
    content = {
        "jobArn": job.arn if child is None or child.index is None else f"{job.arn}:{child.index}",
        "jobId": child.id if child else job.id,
        "jobName": job.name,
        "status": child.status if child else job.status,
        "createdAt": job.created,
        "jobDefinition": job.definition,
        "isCancelled": (child.ending == "cancel") if child else bool(job.cancelled),
        "isTerminated": (child.ending == "terminate") if child else bool(job.terminated),
    }
    content |= known(
        shareIdentifier=job.share,
        statusReason=reason,
        startedAt=last.started if last else None,
        stoppedAt=(last.stopped if last and last.stopped else job.stopped) if ended else None,
    )
    if child is None:
        content["arrayProperties"] = job.statistics
    elif child.index is not None:
        content["arrayProperties"] = {"index": child.index}
    return content


def summarize(job: Job, child: Child | None) -> Json:
    """Return a row of ListJobs."""
    content = _common(job, child)
    if child and child.attempts:
        content["container"] = known(exitCode=child.attempts[-1].exit_code, reason=child.attempts[-1].reason)
    return content


def describe(job: Job, child: Child | None) -> Json:
    """Return an entry of DescribeJobs."""
    last = child.attempts[-1] if child and child.attempts else None
    content = {"startedAt": 0} | _common(job, child) | {
        "jobQueue": job.queue,
        "attempts": [each.describe() for each in child.attempts if each.stopped] if child else [],
        "retryStrategy": job.retry,
        "dependsOn": [{"jobId": each.id} for each in job.depends_on],
        "parameters": job.parameters,
        "tags": job.tags,
        "propagateTags": job.propagate,
        "platformCapabilities": ["EC2"],
    }  # fmt: skip
    content |= known(timeout=job.timeout)
    run = known(exitCode=last.exit_code, reason=last.reason, logStreamName=last.log_stream) if last else {}
    where = {"containerInstanceArn": last.instance_arn, "taskArn": last.task_arn} if last else {}
    content["container"] = job.task.container | run | where
    return content
