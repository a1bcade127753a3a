"""The operations of AWS Batch, and the controls with which tests and the demo steer the emulation."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import replace

from botocore import xform_name

from localcloud.aws.batch.catalog import Catalog, page, valid_name
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
from localcloud.aws.batch.jobs import ENDED, Child, Job, Task, describe, known, summarize, with_empty_lists
from localcloud.aws.batch.machines import Machine, refused
from localcloud.aws.batch.scheduler import Scheduler
from localcloud.machines import namespaces
from localcloud.machines.images import PullError, Registry

SUBMIT_BYTES = 30 * 1024
DEFINITION_BYTES = 24 * 1024
"""https://docs.aws.amazon.com/batch/latest/userguide/service_limits.html"""
SUBMIT_LEFT_OUT = (
    "nodeOverrides", "eksPropertiesOverride", "consumableResourcePropertiesOverride",
    "schedulingPriorityOverride",
)  # fmt: skip
SNAPSHOT = 100
"""https://docs.aws.amazon.com/batch/latest/APIReference/API_FrontOfQueueDetail.html"""
MOST_DEPENDENCIES = 20
"""https://docs.aws.amazon.com/batch/latest/APIReference/API_SubmitJob.html"""
DEFINITION_LEFT_OUT = (
    "parameters", "nodeProperties", "eksProperties", "consumableResourceProperties", "schedulingPriority",
)  # fmt: skip


class BatchApi:
    """AWS Batch. Call it with an operation of the service model and the operation's parameters."""

    def __init__(self, settings: Settings, host: Host) -> None:
        for folder in ("machines", "root"):
            shutil.rmtree(settings.state_dir / folder, ignore_errors=True)
        self._core = Core(settings, host)
        self._catalog = Catalog(self._core)
        self._scheduler = Scheduler(self._core, self._catalog)
        self._catalog.end_jobs = self._end_jobs
        self._definitions: dict[str, Json] = {}
        self._jobs: dict[str, Job] = {}
        self._tokens, self._refilled = float(settings.submit_rate), time.monotonic()
        self.control: dict[str, Callable[[Json], Json]] = {
            "reclaim": lambda p: self._of_a_machine(p, self._scheduler.reclaim),
            "rebalance": lambda p: self._of_a_machine(p, Machine.give_hint),
            "machines": self._machines,
            "children": self._children,
            "forget": self._forget,
            "settings": self._change_settings,
            "registry": lambda _: {"address": self._core.registry.address()},
            "placements": lambda _: {"placements": list(self._scheduler.placements)},
        }

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
        handler = getattr(self, name, None) or getattr(self._catalog, name, None)
        if handler is None:
            raise left_out(f"the operation {operation}")
        with self._core.lock:
            answer = handler(params, region)
            self._core.changed.notify_all()
            return json.loads(json.dumps(answer))

    def stop(self) -> None:
        """End every child, machine and thread."""
        self._core.stop()
        self._scheduler.close()

    def health(self) -> Json:
        """What a person needs to know about how children run here."""
        return {
            "namespaces": refused(self._core) or True,
            "machines": len(self._scheduler.machines),
        }

    @property
    def registry(self) -> Registry:
        """The images that were pushed."""
        return self._core.registry

    # Job definitions

    def register_job_definition(self, p: Json, region: str) -> Json:
        name = valid_name(p["jobDefinitionName"], "jobDefinitionName")
        refuse_left_out(p, DEFINITION_LEFT_OUT, "a job definition")
        if p["type"] != "container" or p.get("platformCapabilities", ["EC2"]) != ["EC2"]:
            raise left_out("a job definition that is not for EC2 containers")
        if len(json.dumps(p)) > DEFINITION_BYTES:
            raise invalid("the job definition is larger than 24 KiB.")
        Task.of(p)
        _check_retry(p.get("retryStrategy"))
        _check_timeout(p.get("timeout"))
        same = [each["revision"] for each in self._definitions.values() if _is(each, name, region)]
        revision = max(same, default=0) + 1
        identity = arn(region, "job-definition", f"{name}:{revision}")
        self._definitions[identity] = {"containerOrchestrationType": "ECS", "tags": {}} | p | {
            "jobDefinitionArn": identity, "revision": revision, "status": "ACTIVE",
        }  # fmt: skip
        return {"jobDefinitionName": name, "jobDefinitionArn": identity, "revision": revision}

    def _definition(self, reference: str, region: str) -> Json:
        """Find a job definition by ARN, name:revision, or name (its newest active revision)."""
        name, _, revision = reference.rsplit("/", maxsplit=1)[-1].partition(":")
        every = [each for each in self._definitions.values() if _is(each, name, region)]
        active = [each for each in every if each["status"] == "ACTIVE"]
        found = [each for each in active if not revision or str(each["revision"]) == revision]
        if not found:
            raise BatchError(f"JobDefinition {reference} not found or is not active")
        return found[-1]

    def deregister_job_definition(self, p: Json, region: str) -> Json:
        self._definition(p["jobDefinition"], region)["status"] = "INACTIVE"
        return {}

    def describe_job_definitions(self, p: Json, region: str) -> Json:
        found = [each for identity, each in self._definitions.items() if f":{region}:" in identity]
        if wanted := p.get("jobDefinitions"):
            names = [each.split("/")[-1] for each in wanted]
            found = [each for each in found if each["jobDefinitionArn"].split("/")[-1] in names]
        if name := p.get("jobDefinitionName"):
            found = [each for each in found if each["jobDefinitionName"] == name]
        if status := p.get("status"):
            found = [each for each in found if each["status"] == status]
        return page("jobDefinitions", [with_empty_lists(each) for each in found], p)

    # Jobs

    def submit_job(self, p: Json, region: str) -> Json:
        self._take_token()
        refuse_left_out(p, SUBMIT_LEFT_OUT, "SubmitJob")
        if len(json.dumps(p)) > SUBMIT_BYTES:
            raise invalid("the job's payload is larger than 30 KiB.")
        name = valid_name(p["jobName"], "jobName")
        size = p.get("arrayProperties", {}).get("size")
        if size is not None and not 2 <= size <= 10_000:
            raise invalid(f"array size {size} must be 2 to 10000.")
        queue = self._catalog.queue(p["jobQueue"], region)
        if queue.detail["state"] != "ENABLED" or queue.detail["status"] not in ("VALID", "UPDATING"):
            state = f"{queue.detail['state']} and {queue.detail['status']}"
            raise invalid(f"job queue {queue.arn} is {state}.")
        fair, share = "schedulingPolicyArn" in queue.detail, p.get("shareIdentifier")
        if fair != (share is not None):
            problem = "needs a shareIdentifier" if fair else "takes no shareIdentifier: it has no scheduling policy"
            raise invalid(f"job queue {queue.arn} {problem}.")
        if share is not None and not re.fullmatch(r"[A-Za-z0-9]{1,255}\*?", share):
            raise invalid(f"shareIdentifier {share!r} must be alphanumeric.")
        definition = self._definition(p["jobDefinition"], region)
        _check_retry(p.get("retryStrategy"))
        _check_timeout(p.get("timeout"))
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

    def _take_token(self) -> None:
        now, rate = time.monotonic(), self._core.settings.submit_rate
        self._tokens = min(rate, self._tokens + (now - self._refilled) * rate)
        self._refilled = now
        if self._tokens < 1:
            raise BatchError("Too Many Requests", "TooManyRequestsException", 429)
        self._tokens -= 1

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
            queue = self._catalog.queue(p["jobQueue"], region).arn
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
        queue, now = self._catalog.queue(p["jobQueue"], region).arn, now_ms()
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
        for each in (self._catalog.environments, self._catalog.queues):
            if identity in each:
                return each[identity].detail["tags"]
        for plain in (self._catalog.policies, self._definitions):
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

    # Controls

    def _of_a_machine(self, p: Json, do: Callable[[Machine], None]) -> Json:
        """Do something to a Spot machine without a notice: the one that is named, or the busiest."""
        with self._core.lock:
            wanted = p.get("instance")
            spot = [each for each in self._scheduler.machines.values() if each.spot and not each.doomed]
            chosen = [each for each in spot if (each.id == wanted if wanted else each.children)]
            if wanted and not chosen:
                raise ValueError(f"there is no Spot machine {wanted} without a notice")
            if not chosen:
                return {"instance": None}
            machine = max(chosen, key=lambda each: len(each.children))
            do(machine)
            return {"instance": machine.id, "children": sorted(child.id for child in machine.children)}

    def _change_settings(self, p: Json) -> Json:
        with self._core.lock:
            self._core.settings = replace(self._core.settings, **p)
        return {}

    def _machines(self, _: Json) -> Json:
        with self._core.lock:
            return {
                "machines": [
                    {
                        "instance": each.id,
                        "type": each.type.name,
                        "market": "spot" if each.spot else "on_demand",
                        "environment": each.environment.detail["computeEnvironmentName"],
                        "state": each.state,
                        "doomed": each.doomed,
                        "children": sorted(child.id for child in each.children),
                        "config": each.config,
                    }
                    for each in self._scheduler.machines.values()
                ]
            }

    def _children(self, _: Json) -> Json:
        with self._core.lock:
            every = [(child, child.run) for job in self._jobs.values() for child in job.children]
            return {
                "children": [
                    {"id": child.id, "name": child.job.name, "status": child.status, "attempts": len(child.attempts)}
                    | known(instance=run and run.machine.id, pid=run and run.pid)
                    for child, run in every
                ]
            }

    def _forget(self, _: Json) -> Json:
        with self._core.lock:
            finished = [identity for identity, job in self._jobs.items() if job.status in ENDED]
            for identity in finished:
                del self._jobs[identity]
            return {"forgotten": len(finished)}


def _vcpus(count: float) -> list[Json]:
    return [{"capacityUnit": "VCPU", "quantity": float(count)}]


def _arn_of(child: Child) -> str:
    return child.job.arn if child.index is None else f"{child.job.arn}:{child.index}"


def _is(definition: Json, name: str, region: str) -> bool:
    return definition["jobDefinitionName"] == name and f":{region}:" in definition["jobDefinitionArn"]


def _overridden(task: Task, p: Json) -> Task:
    plain, ecs = p.get("containerOverrides"), p.get("ecsPropertiesOverride")
    if (plain and task.ecs) or (ecs and not task.ecs):
        kind = "ecsProperties" if task.ecs else "containerProperties"
        raise invalid(f"the job definition has {kind}, the overrides do not fit.")
    if plain:
        if "vcpus" in plain or "memory" in plain or "instanceType" in plain:
            raise left_out("vcpus, memory and instanceType in containerOverrides (use resourceRequirements)")
        return task.override(plain)
    tasks = (ecs or {}).get("taskProperties", [])
    containers = [container for each in tasks for container in each.get("containers", [])]
    for container in containers:
        if container.get("name", task.container["name"]) != task.container["name"]:
            raise invalid(f"the job definition has no container {container['name']!r}.")
        task = task.override(container)
    return task


def _check_retry(strategy: Json | None) -> None:
    if strategy is None:
        return
    if not 1 <= strategy.get("attempts", 1) <= 10:
        raise invalid("retryStrategy.attempts must be 1 to 10.")
    rules = strategy.get("evaluateOnExit", [])
    if rules and "attempts" not in strategy:
        raise invalid("evaluateOnExit needs attempts.")
    if len(rules) > 5:
        raise invalid("evaluateOnExit has at most 5 rules.")
    allowed = {"onExitCode": r"[0-9]*\*?", "onReason": r"[\w.:\s-]*\*?", "onStatusReason": r"[\w.:\s-]*\*?"}
    for rule in rules:
        for key, pattern in allowed.items():
            if key in rule and not re.fullmatch(pattern, rule[key]):
                raise invalid(f"{key} {rule[key]!r} is not a pattern.")


def _check_timeout(timeout: Json | None) -> None:
    if timeout is not None and timeout.get("attemptDurationSeconds", 0) < 60:
        raise invalid("attemptDurationSeconds must be at least 60.")


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
