"""The operations of AWS Batch."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import time

from botocore import xform_name

from localcloud.aws.batch.catalog import page, valid_name
from localcloud.aws.batch.controls import BatchControls
from localcloud.aws.batch.core import (
    BatchError,
    Core,
    Host,
    Json,
    Settings,
    arn,
    invalid,
    left_out,
    now_ms,
    refuse_left_out,
)
from localcloud.aws.batch.definitions import Definitions, check_retry, check_timeout
from localcloud.aws.batch.environments import Environments
from localcloud.aws.batch.fleet import BatchFleet
from localcloud.aws.batch.jobs import ENDED, Child, Job, Task, describe, summarize
from localcloud.aws.batch.machines import refused
from localcloud.aws.batch.queues import Queues
from localcloud.aws.batch.scheduler import Scheduler
from localcloud.machines import namespaces
from localcloud.machines.images import PullError, Registry
from localcloud.rates import TokenBucket

SUBMIT_BYTES = 30 * 1024
"""https://docs.aws.amazon.com/batch/latest/userguide/service_limits.html"""
SUBMIT_LEFT_OUT = (
    "nodeOverrides", "ecsPropertiesOverride", "eksPropertiesOverride", "consumableResourcePropertiesOverride",
    "schedulingPriorityOverride",
)  # fmt: skip
SNAPSHOT = 100
"""https://docs.aws.amazon.com/batch/latest/APIReference/API_FrontOfQueueDetail.html"""
MOST_DEPENDENCIES = 20
"""https://docs.aws.amazon.com/batch/latest/APIReference/API_SubmitJob.html"""


class BatchApi:
    """AWS Batch. Call it with an operation of the service model and the operation's parameters."""

    def __init__(self, settings: Settings, host: Host) -> None:
        for folder in ("machines", "root"):
            shutil.rmtree(settings.state_dir / folder, ignore_errors=True)
        self._core = Core(settings, host)
        self._definitions = Definitions()
        self._environments = Environments(self._core)
        self._queues = Queues(self._core, self._environments.all)
        self._parts = (self, self._definitions, self._environments, self._queues)
        self._fleet = BatchFleet(self._core, self._environments.all)
        self._environments.retire, self._environments.cpus_of = self._fleet.retire, self._fleet.cpus_of
        self._queues.end_jobs = self._end_jobs
        self._jobs: dict[str, Job] = {}
        self._submits = TokenBucket(settings.submit_rate, time.monotonic())
        self.control = BatchControls(self._core, self._fleet, self._jobs).by_name
        self._scheduler = Scheduler(self._core, self._fleet, self._environments.all, self._queues.queues)

    def __call__(self, operation: str, params: Json, principal: object, region: str) -> Json:
        """Answer one call.

        Args:
            operation: A name from the service model, such as ``SubmitJob``.
            params: Parameters that the model has validated.
            principal: The caller, who is already authorized.
            region: The region of the request's signature.

        Raises:
            BatchError: Batch refuses the call.
        """
        name = xform_name(operation)
        handler = next((found for part in self._parts if (found := getattr(part, name, None))), None)
        if handler is None:
            raise left_out(f"the operation {operation}")
        with self._core.lock:
            answer = handler(params, region)
            self._core.changed.notify_all()
            return json.loads(json.dumps(answer))

    def stop(self) -> None:
        """End every child, machine and thread."""
        self._core.stop()
        self._scheduler.join()
        self._fleet.close()
        self._core.join()

    def health(self) -> Json:
        """What a person needs to know about how children run here."""
        return {"namespaces": refused(self._core) or True, "machines": len(self._fleet.machines)}

    @property
    def registry(self) -> Registry:
        """The images that were pushed."""
        return self._core.registry

    # Jobs

    def submit_job(self, p: Json, region: str) -> Json:
        if not self._submits.take(self._core.settings.submit_rate, time.monotonic()):
            raise BatchError("Too Many Requests", "TooManyRequestsException", 429)
        refuse_left_out(p, SUBMIT_LEFT_OUT, "SubmitJob")
        if len(json.dumps(p)) > SUBMIT_BYTES:
            raise invalid("the job's payload is larger than 30 KiB.")
        name = valid_name(p["jobName"], "jobName")
        size = p.get("arrayProperties", {}).get("size")
        if size is not None and not 2 <= size <= 10_000:
            raise invalid(f"array size {size} must be 2 to 10000.")
        queue = self._queues.queues.find(p["jobQueue"], region)
        if queue.detail["state"] != "ENABLED" or queue.detail["status"] not in ("VALID", "UPDATING"):
            state = f"{queue.detail['state']} and {queue.detail['status']}"
            raise invalid(f"job queue {queue.arn} is {state}.")
        fair, share = "schedulingPolicyArn" in queue.detail, p.get("shareIdentifier")
        if fair != (share is not None):
            problem = "needs a shareIdentifier" if fair else "takes no shareIdentifier: it has no scheduling policy"
            raise invalid(f"job queue {queue.arn} {problem}.")
        if share is not None and not re.fullmatch(r"[A-Za-z0-9]{1,255}\*?", share):
            raise invalid(f"shareIdentifier {share!r} must be alphanumeric.")
        definition = self._definitions.find(p["jobDefinition"], region)
        check_retry(p.get("retryStrategy"))
        check_timeout(p.get("timeout"))
        job = Job(
            arn=arn(region, "job", ""),
            name=name,
            region=region,
            queue=queue.arn,
            definition=definition["jobDefinitionArn"],
            task=_overridden(Task.of(definition), p),
            share=share,
            size=size,
            retry={"attempts": 1} | (p.get("retryStrategy") or definition.get("retryStrategy") or {}),
            timeout=p.get("timeout") or definition.get("timeout"),
            tags=p.get("tags", {}),
            parameters=p.get("parameters", {}),
            propagate=p.get("propagateTags", definition.get("propagateTags", False)),
            depends_on=self._dependencies(p.get("dependsOn", [])),
        )
        self._refuse_image(job.task.container["image"])
        self._jobs[job.id] = job
        self._scheduler.submit(job)
        return {"jobArn": job.arn, "jobName": name, "jobId": job.id}

    def _refuse_image(self, reference: str) -> None:
        """Refuse an image that could not run here, which AWS has no reason to do."""
        with contextlib.suppress(PullError):
            if (reason := refused(self._core)) and self.registry.pinned(reference):
                raise BatchError(f"localcloud: {namespaces.needed(reference, reason)}")

    def _dependencies(self, wanted: list[Json]) -> list[Job]:
        if len(wanted) > MOST_DEPENDENCIES:
            raise invalid(f"a job depends on at most {MOST_DEPENDENCIES} jobs.")
        if any("type" in each for each in wanted):
            raise left_out("a dependency with a type")
        for each in wanted:
            if each["jobId"] not in self._jobs:
                raise BatchError(f"Job {each['jobId']} not found")
        return [self._jobs[each["jobId"]] for each in wanted]

    def _find(self, identity: str) -> tuple[Job, Child | None] | None:
        """Return the job with this id or ARN, and the child (None for an array's parent)."""
        identity, _, index = identity.rsplit("/", maxsplit=1)[-1].partition(":")
        job = self._jobs.get(identity)
        if job is None:
            return None
        if job.size is None:
            return None if index else (job, job.children[0])
        if not index:
            return job, None
        return (job, job.children[int(index)]) if index.isdigit() and int(index) < job.size else None

    def describe_jobs(self, p: Json, region: str) -> Json:
        if len(p["jobs"]) > 100:
            raise invalid("describe at most 100 jobs at once.")
        found = [each for identity in p["jobs"] if (each := self._find(identity))]
        return {"jobs": [describe(job, child) for job, child in found]}

    def list_jobs(self, p: Json, region: str) -> Json:
        if "multiNodeJobId" in p:
            raise left_out("multi-node jobs")
        if ("jobQueue" in p) == ("arrayJobId" in p):
            raise invalid("give exactly one of jobQueue and arrayJobId.")
        filters = p.get("filters", [])
        if len(filters) > 1:
            raise invalid("only one filter can be used at a time.")
        rows: list[tuple[Job, Child | None]]
        if "arrayJobId" in p:
            job = self._jobs.get(p["arrayJobId"].split("/")[-1])
            rows = [(job, child) for child in job.children] if job and job.size else []
            filters = []
        else:
            queue = self._queues.queues.find(p["jobQueue"], region).arn
            mine = sorted((job for job in self._jobs.values() if job.queue == queue), key=lambda job: -job.created)
            rows = [(job, None if job.size else job.children[0]) for job in mine]
        for each in filters:
            rows = [row for row in rows if _filtered(row[0], each.get("name"), each.get("values", []))]
        if not filters or (filters[0].get("name") == "SHARE_IDENTIFIER" and "jobStatus" in p):
            status = p.get("jobStatus", "RUNNING")
            rows = [row for row in rows if (row[1] or row[0]).status == status]
        answer = page("jobSummaryList", rows, p, 100 if filters else 1000)
        return answer | {"jobSummaryList": [summarize(*row) for row in answer["jobSummaryList"]]}

    def get_job_queue_snapshot(self, p: Json, region: str) -> Json:
        queue, now = self._queues.queues.find(p["jobQueue"], region).arn, now_ms()
        front, used = self._scheduler.front(queue, SNAPSHOT), self._scheduler.usage(queue)
        shares = [{"shareIdentifier": name, "capacityUsage": _vcpus(cpus)} for name, cpus in used.most_common() if name]
        return {
            "frontOfQueue": {
                "jobs": [{"jobArn": _arn_of(child), "earliestTimeAtPosition": child.job.created} for child in front],
                "lastUpdatedAt": now,
            },
            "queueUtilization": {
                "totalCapacityUsage": _vcpus(sum(used.values())),
                "fairshareUtilization": {"activeShareCount": len(shares), "topCapacityUtilization": shares},
                "lastUpdatedAt": now,
            },
        }

    def terminate_job(self, p: Json, region: str) -> Json:
        return self._end(p, "terminate")

    def cancel_job(self, p: Json, region: str) -> Json:
        return self._end(p, "cancel")

    def _end(self, p: Json, how: str) -> Json:
        found = self._find(p["jobId"])
        if found is None:
            raise BatchError(f"Job {p['jobId']} not found")
        job, child = found
        if child is None and job.status not in ENDED:
            setattr(job, "terminated" if how == "terminate" else "cancelled", p["reason"])
        for each in job.children if child is None else [child]:
            self._scheduler.end(each, how, p["reason"])
        return {}

    def _end_jobs(self, queue: str) -> bool:
        unfinished = [job for job in self._jobs.values() if job.queue == queue and job.status not in ENDED]
        for job in unfinished:
            job.terminated = "The job queue was deleted."
            for child in job.children:
                self._scheduler.end(child, "terminate", job.terminated)
        return not unfinished

    # Tags

    def _tagged(self, identity: str) -> dict[str, str]:
        for each in (self._environments.all, self._queues.queues):
            if identity in each:
                return each[identity].detail["tags"]
        for plain in (self._queues.policies, self._definitions.all):
            if identity in plain:
                return plain[identity]["tags"]
        if found := self._find(identity):
            return found[0].tags
        raise BatchError(f"Resource {identity} does not exist", status=404)

    def list_tags_for_resource(self, p: Json, region: str) -> Json:
        return {"tags": self._tagged(p["resourceArn"])}

    def tag_resource(self, p: Json, region: str) -> Json:
        tags = self._tagged(p["resourceArn"])
        if len(tags | p["tags"]) > 50:
            raise invalid("a resource has at most 50 tags.")
        tags |= p["tags"]
        return {}

    def untag_resource(self, p: Json, region: str) -> Json:
        for key in p["tagKeys"]:
            self._tagged(p["resourceArn"]).pop(key, None)
        return {}

    def tags(self, identity: str, region: str) -> dict[str, str]:
        """Return a resource's tags for ``aws:ResourceTag``; empty if the resource does not exist."""
        with self._core.lock:
            try:
                return dict(self._tagged(identity))
            except BatchError:
                return {}


def _vcpus(count: float) -> list[Json]:
    return [{"capacityUnit": "VCPU", "quantity": float(count)}]


def _arn_of(child: Child) -> str:
    return child.job.arn if child.index is None else f"{child.job.arn}:{child.index}"


def _overridden(task: Task, p: Json) -> Task:
    given = p.get("containerOverrides", {})
    if "vcpus" in given or "memory" in given or "instanceType" in given:
        raise left_out("vcpus, memory and instanceType in containerOverrides (use resourceRequirements)")
    return task.override(given)


def _filtered(job: Job, name: str | None, values: list[str]) -> bool:
    """Whether a filter value matches: https://docs.aws.amazon.com/batch/latest/APIReference/API_ListJobs.html"""
    if name in ("BEFORE_CREATED_AT", "AFTER_CREATED_AT"):
        return all(job.created < int(v) if name.startswith("B") else job.created > int(v) for v in values)
    facts = {
        "JOB_NAME": job.name.lower(),
        "JOB_DEFINITION": job.definition.split("/")[-1].split(":")[0],
        "SHARE_IDENTIFIER": job.share or "",
    }
    if name not in facts:
        raise invalid(f"{name!r} is not a filter.")
    wanted = [value.lower() if name == "JOB_NAME" else value for value in values]
    if name == "JOB_DEFINITION":
        wanted = [value.split("/")[-1].split(":")[0] for value in wanted]
    return any(facts[name].startswith(v[:-1]) if v.endswith("*") else facts[name] == v for v in wanted)
