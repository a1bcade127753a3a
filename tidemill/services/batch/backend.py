"""AWS Batch: arrays of chunks as array jobs.

Facts used here, from the Batch API reference (https://docs.aws.amazon.com/batch/latest/APIReference/) and the service
quotas (https://docs.aws.amazon.com/batch/latest/userguide/service_limits.html): 50 SubmitJob per second and account,
no client token; arrays of 2 to 10,000; at most 20 dependencies of a job; DescribeJobs 100 ids per call; a request of at
most 30 KiB; a finished job is forgotten after a day or more; a JOB_NAME filter matches regardless of case and does not
see children.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tidemill.clouds.account import LogLine, LogSearch
from tidemill.clouds.aws.account import AwsAccount
from tidemill.clouds.aws.session import translated
from tidemill.descriptor import CANCELLED, Descriptor, Queue
from tidemill.errors import CallerError, CloudError
from tidemill.explain.answer import Unseen
from tidemill.explain.facts import CloudFacts
from tidemill.services.backend import Array, ArrayAddress, ArrayState, Backend, QueueState, Shape
from tidemill.services.batch import SERVICE
from tidemill.services.batch.facts import BatchReader
from tidemill.services.batch.model import AwsFacts
from tidemill.store import Store

if TYPE_CHECKING:
    pass

SUBMITS_A_SECOND = 40
DESCRIBE_IDS = 100
REQUEST_BYTES = 30 * 1024

_ASK_OWNER = "Ask the stack's owner to run `pulumi up`."
_STATES = {
    "SUBMITTED": "waiting",
    "PENDING": "waiting",
    "RUNNABLE": "waiting",
    "STARTING": "starting",
    "RUNNING": "running",
    "SUCCEEDED": "succeeded",
    "FAILED": "failed",
}


class AwsBatch(Backend):
    """The queues of one stack on AWS Batch, used with the caller's login."""

    service = SERVICE

    def __init__(self, descriptor: Descriptor, account: AwsAccount) -> None:
        self._descriptor, self.account, self._client = descriptor, account, account.client
        account.ask = lambda: self.queue_states(descriptor.queues)
        self._batch = self._client("batch")
        self._next_submit = 0.0

    def enqueue(self, shape: Shape, arrays: Sequence[Array]) -> None:
        for request in [submit_request(shape, array) for array in arrays]:
            self._pace()
            with translated("batch:SubmitJob"):
                self._batch.submit_job(**request)

    def _pace(self) -> None:
        now = time.monotonic()
        if now < self._next_submit:
            time.sleep(self._next_submit - now)
        self._next_submit = max(now, self._next_submit) + 1 / SUBMITS_A_SECOND

    def describe(self, queue: Queue, job: str, round_: int | None = None) -> list[ArrayState]:
        prefix = f"{job}-r" if round_ is None else f"{job}-r{round_}-a"
        ids = [entry["jobId"] for entry in self._list(queue, prefix)]
        details: list[ArrayState] = []
        for start in range(0, len(ids), DESCRIBE_IDS):
            with translated("batch:DescribeJobs"):
                answer = self._batch.describe_jobs(jobs=ids[start : start + DESCRIBE_IDS])
            details += [_state(entry) for entry in answer["jobs"]]
        return sorted(details, key=lambda state: (state.created_at, state.name))

    def _list(self, queue: Queue, prefix: str) -> Iterator[dict[str, Any]]:
        with translated("batch:ListJobs"):
            pages = self._batch.get_paginator("list_jobs").paginate(
                jobQueue=_queue_arn(queue), filters=[{"name": "JOB_NAME", "values": [f"{prefix}*"]}]
            )
            for page in pages:
                yield from page["jobSummaryList"]

    def failed_children(self, array: ArrayState) -> dict[int, str]:
        if not array.states.get("failed"):
            return {}
        if array.size == 1:
            return {0: array.reason or "failed"}
        with translated("batch:ListJobs"):
            pages = self._batch.get_paginator("list_jobs").paginate(arrayJobId=array.id, jobStatus="FAILED")
            children = [job for page in pages for job in page["jobSummaryList"]]
        return {int(job["jobId"].rsplit(":", 1)[1]): _reason(job) or "failed" for job in children}

    def cancel(self, arrays: Sequence[ArrayState], reason: str) -> int:
        waiting = [state for state in arrays if not state.ended]
        for state in waiting:
            with translated("batch:TerminateJob"):
                self._batch.terminate_job(jobId=state.id, reason=f"{CANCELLED}{reason}")
        return len(waiting)

    def child_logs(self, array: ArrayState, index: int, search: LogSearch) -> Iterator[LogLine]:
        child = array.id if array.size == 1 else f"{array.id}:{index}"
        with translated("batch:DescribeJobs"):
            jobs = self._batch.describe_jobs(jobs=[child])["jobs"]
        streams = _streams(jobs[0]) if jobs else []
        return self.account.stream_lines(streams, search) if streams else iter(())

    def queue_states(self, queues: dict[str, Queue]) -> dict[str, QueueState]:
        arns = {name: _queue_arn(queue) for name, queue in queues.items()}
        with translated("batch:DescribeJobQueues"):
            answer = self._batch.describe_job_queues(jobQueues=list(arns.values()))["jobQueues"]
        queues_by_arn = {queue["jobQueueArn"]: queue for queue in answer}
        return {name: _queue_state(queues_by_arn.get(arn)) for name, arn in arns.items()}

    def facts(self, queue: Queue, job: str, arrays: Sequence[ArrayState]) -> tuple[CloudFacts | None, list[Unseen]]:
        reader = self._reader()
        return reader.job(self._descriptor.region, queue, arrays, self._share()), reader.unseen

    def queue_facts(self, queue: Queue) -> tuple[CloudFacts | None, list[Unseen]]:
        reader = self._reader()
        return AwsFacts(reader.queue(_queue_arn(queue))), reader.unseen

    def _reader(self) -> BatchReader:
        return BatchReader(self._client)

    def _share(self) -> str:
        try:
            return self.account.user()
        except CloudError:
            return ""


def open_backend(descriptor: Descriptor, store: Store, account: AwsAccount) -> AwsBatch:
    return AwsBatch(descriptor, account)


def submit_request(shape: Shape, array: Array) -> dict[str, Any]:
    """The SubmitJob request of an array.

    Raises:
        CallerError: The request is larger than Batch accepts.
    """
    resources, slots = shape.resources, shape.slots
    needs = [
        {"type": "VCPU", "value": str(int(resources.cpus) * slots)},
        {"type": "MEMORY", "value": str(resources.memory_mib * slots)},
    ]
    if resources.gpus:
        needs.append({"type": "GPU", "value": str(resources.gpus * slots)})
    environment = [{"name": key, "value": value} for key, value in environment_of(array.address).items()]
    request: dict[str, Any] = {
        "jobName": array.name,
        "jobQueue": _queue_arn(shape.queue),
        "jobDefinition": _definition_arn(shape),
        "shareIdentifier": shape.user,
        "containerOverrides": {"resourceRequirements": needs, "environment": environment},
        # The alarm of a blocked queue names the job; it can read neither a tag nor a variable.
        "parameters": {"job": array.address.job},
        "tags": shape.tags,
        "propagateTags": True,
    }
    if shape.depends_on:
        request["dependsOn"] = [{"jobId": id_} for id_ in shape.depends_on]
    if array.size > 1:
        request["arrayProperties"] = {"size": array.size}
    size = len(json.dumps(request).encode())
    if size > REQUEST_BYTES:
        raise CallerError(f"the request for {array.name} has {size} bytes; AWS Batch accepts {REQUEST_BYTES}.")
    return request


def environment_of(address: ArrayAddress) -> dict[str, str]:
    """The variables that tell a worker which array it serves. Batch adds the child's index."""
    return {
        "TIDEMILL_JOB": address.job,
        "TIDEMILL_ROUND": str(address.round),
        "TIDEMILL_ARRAY": str(address.array),
        "TIDEMILL_JOB_SHA256": address.spec_sha256,
        "TIDEMILL_ROUND_SHA256": address.round_sha256,
    }


def _queue_arn(queue: Queue) -> str:
    if queue.aws is None:
        raise CloudError("the descriptor names no AWS job queue for this queue.", _ASK_OWNER)
    return queue.aws.job_queue


def _definition_arn(shape: Shape) -> str:
    arn = shape.queue.images[shape.image].job_definition
    if arn is None:
        raise CloudError(f"the descriptor names no job definition of image {shape.image!r}.", _ASK_OWNER)
    return arn


def _state(job: dict[str, Any]) -> ArrayState:
    array = job.get("arrayProperties", {})
    size = array.get("size", 1)
    counts = array.get("statusSummary") if size > 1 else {job["status"]: 1}
    states: dict[str, int] = {}
    for status, count in (counts or {}).items():
        if count and status in _STATES:
            states[_STATES[status]] = states.get(_STATES[status], 0) + count
    return ArrayState(
        name=job["jobName"],
        id=job["jobId"],
        size=size,
        states=states,
        ended=job["status"] in ("SUCCEEDED", "FAILED"),
        created_at=job.get("createdAt", 0) / 1000,
        reason=_reason(job),
    )


def _reason(job: dict[str, Any]) -> str | None:
    """Batch's words about a job. Of a failed one, only its container says why it did not start.

    Source: https://docs.aws.amazon.com/batch/latest/APIReference/API_ContainerSummary.html
    """
    newest = [job, *job.get("attempts", [])[-1:]] if job.get("status", "FAILED") == "FAILED" else []
    containers = [each.get("container", {}) for each in newest]
    reasons = [job.get("statusReason"), *(each.get("reason") for each in containers)]
    return ": ".join(dict.fromkeys(filter(None, reasons))) or None


def _streams(job: dict[str, Any]) -> list[str]:
    """Log streams of every attempt of a child, the running one included, without repetition."""
    runs = [run.get("container", {}) for run in (*job.get("attempts", []), job)]
    return list(dict.fromkeys(run["logStreamName"] for run in runs if run.get("logStreamName")))


def _queue_state(queue: dict[str, Any] | None) -> QueueState:
    if queue is None:
        return QueueState(False, False, "not there: the stack was changed or destroyed")
    accepting = queue["state"] == "ENABLED" and queue["status"] not in ("DELETING", "DELETED")
    # A disabled queue still finishes what it has.
    running = queue["status"] in ("VALID", "UPDATING", "CREATING")
    detail = f"{queue['state'].lower()}, {queue['status'].lower()}"
    reason = queue.get("statusReason")
    return QueueState(accepting, running, f"{detail}: {reason}" if reason and not running else detail)
