"""Reads facts from AWS Batch about a job, its queue and its machines, for `tidemill explain` and `tidemill doctor`.

It makes at most `MOST_REQUESTS` calls, side by side. Each of them may be denied by itself; the others still count.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

from tidemill.clouds.aws.session import translated
from tidemill.clouds.findings import access_command
from tidemill.descriptor import Queue
from tidemill.errors import CloudError, one_line
from tidemill.explain.answer import Unseen
from tidemill.machines.quotas import QUOTAS, kind_of
from tidemill.services.backend import ArrayState
from tidemill.services.batch.model import AwsFacts, BatchQueue, Environment, Quota, Try, Turn

MOST_REQUESTS = 12
CHILDREN = 40
"""Children whose attempts are looked at: half of them wait, half have failed."""
COMMAND = access_command("s3://")
T = TypeVar("T")


class BatchReader:
    """The calls of one look. What is denied, or does not answer, is noted in `unseen`.

    Args:
        client: Makes a client of an AWS service.
    """

    def __init__(self, client: Callable[[str], Any]) -> None:
        self._make = client
        self._made: dict[str, Any] = {}
        self._lock = threading.Lock()
        self.unseen: list[Unseen] = []

    def _client(self, service: str) -> Any:
        """A client, made once: boto3 makes them slowly, and one at a time."""
        with self._lock:
            if service not in self._made:
                self._made[service] = self._make(service)
            return self._made[service]

    def job(self, region: str, queue: Queue, arrays: Sequence[ArrayState], user: str) -> AwsFacts:
        """Everything about one job.

        Args:
            region: Of the queue.
            queue: As the descriptor has it.
            arrays: What Batch still knows of the job.
            user: Our share identifier; empty when that is unknown.
        """
        arn = queue.aws.job_queue if queue.aws else ""
        waiting = [each for each in arrays if each.states.get("waiting") and not each.ended]
        failed = next((each for each in reversed(arrays) if each.states.get("failed") and each.size > 1), None)
        oldest = waiting[0] if waiting else None
        with ThreadPoolExecutor(4) as pool:
            about = pool.submit(self._guarded, "batch:DescribeJobQueues", lambda: self.queue(arn))
            turn = pool.submit(
                self._guarded, "batch:GetJobQueueSnapshot", lambda: self._turn(arn, {each.id for each in arrays})
            )
            quotas = [pool.submit(self._quota, quota) for quota in wanted_quotas(region, [queue])]
            heads = self._guarded("batch:ListJobs", lambda: self._children(oldest, "RUNNABLE")) or []
            ended = self._guarded("batch:ListJobs", lambda: self._children(failed, "FAILED")) or []
            ids = [each["jobId"] for each in [*heads[: CHILDREN // 2], *ended[: CHILDREN // 2]]]
            ids += [each.id for each in arrays if each.size == 1][:CHILDREN]
            tries = self._guarded("batch:DescribeJobs", lambda: self._tries(ids)) if ids else []
            own = [each.reason for each in waiting if each.reason]
            reasons = [*own, *(each["statusReason"] for each in heads if each.get("statusReason"))]
            return AwsFacts(
                queue=about.result(),
                reasons=list(dict.fromkeys(reasons)),
                waiting_since=min((each.created_at for each in waiting), default=None),
                tries=tries or [],
                turn=turn.result(),
                quotas=[each.result() for each in quotas],
                user=user,
            )

    def _guarded(self, action: str, ask: Callable[[], T]) -> T | None:
        try:
            return ask()
        except CloudError as error:
            denied = "denied" in str(error)
            self.unseen.append(Unseen(action, one_line(error.problem), COMMAND if denied else ""))
            return None

    def queue(self, arn: str) -> BatchQueue:
        """A job queue with its compute environments.

        Raises:
            CloudError: Batch does not tell.
        """
        batch = self._client("batch")
        with translated("batch:DescribeJobQueues"):
            queues = batch.describe_job_queues(jobQueues=[arn])["jobQueues"] if arn else []
        if not queues:
            return BatchQueue(arn)
        state = queues[0]
        names = [order["computeEnvironment"] for order in state.get("computeEnvironmentOrder", [])]
        limits = state.get("jobStateTimeLimitActions", [])
        made = BatchQueue(
            arn,
            state["state"],
            state["status"],
            state.get("statusReason", ""),
            None,
            {each["reason"]: each["maxTimeSeconds"] for each in limits},
        )
        if not made.there:
            return made
        environments = self._guarded("batch:DescribeComputeEnvironments", lambda: self._environments(names))
        return replace(made, environments=environments)

    def _environments(self, names: Sequence[str]) -> list[Environment]:
        if not names:
            return []
        batch = self._client("batch")
        with translated("batch:DescribeComputeEnvironments"):
            answer = batch.describe_compute_environments(computeEnvironments=list(names))["computeEnvironments"]
        order = {name: number for number, name in enumerate(names)}
        return [
            _environment(each) for each in sorted(answer, key=lambda one: order.get(one["computeEnvironmentArn"], 0))
        ]

    def _children(self, array: ArrayState | None, status: str) -> list[dict[str, Any]]:
        """Up to a hundred children in a status: Batch writes the reason for a wait on the first of them."""
        if array is None or array.size == 1:
            return []
        with translated("batch:ListJobs"):
            return self._client("batch").list_jobs(arrayJobId=array.id, jobStatus=status, maxResults=100)[
                "jobSummaryList"
            ]

    def _tries(self, ids: Sequence[str]) -> list[Try]:
        with translated("batch:DescribeJobs"):
            jobs = self._client("batch").describe_jobs(jobs=list(ids))["jobs"]
        return [one for job in jobs for attempt in job.get("attempts", []) for one in _ended(job["jobId"], attempt)]

    def _turn(self, arn: str, ours: set[str]) -> Turn:
        with translated("batch:GetJobQueueSnapshot"):
            answer = self._client("batch").get_job_queue_snapshot(jobQueue=arn)
        front = [
            each["jobArn"].rpartition("/")[2].partition(":")[0]
            for each in answer.get("frontOfQueue", {}).get("jobs", [])
        ]
        first = next((number for number, job in enumerate(front) if job in ours), None)
        use = answer.get("queueUtilization", {})
        top = use.get("fairshareUtilization", {}).get("topCapacityUtilization", [])
        return Turn(
            ahead=len(front) if first is None else first,
            seen=len(front),
            ours=first is not None,
            used=_cpus(use.get("totalCapacityUsage", [])),
            shares={each["shareIdentifier"]: _cpus(each.get("capacityUsage", [])) for each in top},
        )

    # ---- quotas -------------------------------------------------------------------------------------------------

    def _quota(self, quota: Quota) -> Quota:
        limit = self.quota(quota)
        if limit.limit is None and limit.code:
            self.unseen.append(Unseen("servicequotas:GetServiceQuota", limit.unseen, COMMAND))
        return limit

    def quota(self, quota: Quota) -> Quota:
        """The quota with its limit, or with the reason why that is not shown."""
        import botocore.exceptions

        if not quota.code:
            return quota
        try:
            answer = self._client("service-quotas").get_service_quota(ServiceCode="ec2", QuotaCode=quota.code)
        except botocore.exceptions.ClientError as error:
            return replace(quota, unseen=f"{quota.code} is not shown ({error.response['Error'].get('Code')})")
        except botocore.exceptions.BotoCoreError as error:
            return replace(quota, unseen=f"{quota.code}: Service Quotas does not answer ({error})")
        return replace(quota, limit=answer["Quota"]["Value"])


def wanted_quotas(region: str, queues: Sequence[Queue]) -> Iterator[Quota]:
    """The quotas that these queues need together, without their limits."""
    wanted: dict[tuple[str, str], int] = {}
    least: dict[tuple[str, str], int] = {}
    for queue in queues:
        for rung in queue.capacity:
            for kind in {kind_of(machine.type, rung.market) for machine in queue.machines}:
                key = (rung.market, kind)
                sizes = [machine.cpus for machine in queue.machines if kind_of(machine.type, rung.market) == kind]
                wanted[key] = wanted.get(key, 0) + rung.max_cpus
                least[key] = min([least.get(key, sizes[0]), *sizes])
    for key in sorted(wanted):
        unseen = "" if key in QUOTAS else "types of this class have a quota that is not looked at"
        yield Quota(*key, QUOTAS.get(key, ""), region, None, wanted[key], least[key], unseen)


def _environment(answer: Mapping[str, Any]) -> Environment:
    resources = answer.get("computeResources", {})
    return Environment(
        name=answer["computeEnvironmentName"],
        state=answer["state"],
        status=answer["status"],
        reason=answer.get("statusReason", ""),
        market={"SPOT": "spot", "EC2": "on_demand"}.get(resources.get("type", ""), ""),
        wanted=resources.get("desiredvCpus", 0),
        most=resources.get("maxvCpus", 0),
    )


def _ended(child: str, attempt: Mapping[str, Any]) -> Iterator[Try]:
    """The containers of an ended attempt, in either form of a job definition."""
    tasks = attempt.get("taskProperties", [])
    containers = [attempt["container"]] if "container" in attempt else [c for task in tasks for c in task["containers"]]
    for container in containers:
        status, at = attempt.get("statusReason", ""), attempt.get("stoppedAt", 0) / 1000
        yield Try(container.get("exitCode"), container.get("reason", ""), status, child, at)


def _cpus(usage: Sequence[Mapping[str, Any]]) -> float:
    return sum(each["quantity"] for each in usage if each.get("capacityUnit", "").lower() == "vcpu")
