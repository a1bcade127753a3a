"""Job queues and scheduling policies: their states, transitions and the requests that Batch refuses."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from localcloud.aws.batch.catalog import Catalog, must_be_settled, page, valid_name
from localcloud.aws.batch.core import BatchError, Core, Json, invalid, left_out, refuse_left_out
from localcloud.aws.batch.environments import Environment

FAIR_LEFT_OUT = ("computeReservation", "shareDistribution")


@dataclass
class Queue:
    """A job queue; ``detail`` is the answer of DescribeJobQueues."""

    detail: Json
    region: str

    @property
    def arn(self) -> str:
        return self.detail["jobQueueArn"]

    @property
    def rungs(self) -> list[str]:
        order = sorted(self.detail["computeEnvironmentOrder"], key=lambda each: each["order"])
        return [each["computeEnvironment"] for each in order]


class Queues:
    """Their operations. Callers hold the core's lock.

    Attributes:
        queues, policies: Everything that exists.
        end_jobs: Called with the ARN of a queue that is being deleted; returns whether all its jobs have ended.
    """

    def __init__(self, core: Core, environments: Catalog[Environment]) -> None:
        self._core, self._environments = core, environments
        self.queues: Catalog[Queue] = Catalog("job-queue", "Job queue")
        self.policies: Catalog[Json] = Catalog("scheduling-policy", "Scheduling policy")
        self.end_jobs: Callable[[str], bool]

    def create_job_queue(self, p: Json, region: str) -> Json:
        name = valid_name(p["jobQueueName"], "jobQueueName")
        identity = self.queues.free(name, region)
        if "serviceEnvironmentOrder" in p or p.get("jobQueueType", "ECS") != "ECS":
            raise left_out("a job queue that is not of EC2 compute environments")
        detail = {
            "jobQueueName": name,
            "jobQueueArn": identity,
            "state": p.get("state", "ENABLED"),
            "status": "CREATING",
            "statusReason": "",
            "priority": p["priority"],
            "computeEnvironmentOrder": self._order(p.get("computeEnvironmentOrder", []), region),
            "jobQueueType": "ECS",
            "tags": p.get("tags", {}),
            "jobStateTimeLimitActions": p.get("jobStateTimeLimitActions", []),
        }
        if policy := p.get("schedulingPolicyArn"):
            detail["schedulingPolicyArn"] = self.policies.at(policy)["arn"]
        queue = self.queues[identity] = Queue(detail, region)
        self._relate(queue)
        self._settle_queue(queue)
        return {"jobQueueName": name, "jobQueueArn": identity}

    def _order(self, order: list[Json], region: str) -> list[Json]:
        if not 1 <= len(order) <= 3:
            raise invalid("a job queue has 1 to 3 compute environments.")
        environments = [self._environments.find(each["computeEnvironment"], region) for each in order]
        for environment in environments:
            if environment.detail["status"] not in ("VALID", "UPDATING"):
                raise invalid(
                    f"Compute Environment {environment.arn} is {environment.detail['status']}, it must be VALID."
                )
        if len({environment.types[0].architecture for environment in environments}) > 1:
            raise invalid("the compute environments mix CPU architectures.")
        return [
            {"order": each["order"], "computeEnvironment": environment.arn}
            for each, environment in zip(order, environments, strict=True)
        ]

    def _relate(self, queue: Queue, until: float = math.inf) -> None:
        for rung in queue.rungs:
            self._environments[rung].relations[queue.arn] = until

    def _settle_queue(self, queue: Queue) -> None:
        def valid() -> None:
            queue.detail |= {"status": "VALID", "statusReason": "JobQueue Healthy"}

        self._core.after(self._core.settings.batch_transition_seconds, valid)

    def update_job_queue(self, p: Json, region: str) -> Json:
        queue = self.queues.find(p["jobQueue"], region)
        must_be_settled(queue.detail, "update")
        if policy := p.get("schedulingPolicyArn"):
            if "schedulingPolicyArn" not in queue.detail:
                raise invalid("a FIFO queue cannot get a scheduling policy.")
            queue.detail["schedulingPolicyArn"] = self.policies.at(policy)["arn"]
        elif policy is not None and "schedulingPolicyArn" in queue.detail:
            raise invalid("the scheduling policy can be replaced, not removed.")
        if "computeEnvironmentOrder" in p:
            order, until = self._order(p["computeEnvironmentOrder"], region), self._core.settings.relation_seconds
            self._relate(queue, time.monotonic() + until)
            queue.detail["computeEnvironmentOrder"] = order
            self._relate(queue)
        queue.detail |= {key: p[key] for key in ("state", "priority", "jobStateTimeLimitActions") if key in p}
        queue.detail |= {"status": "UPDATING", "statusReason": ""}
        self._settle_queue(queue)
        return {"jobQueueName": queue.detail["jobQueueName"], "jobQueueArn": queue.arn}

    def delete_job_queue(self, p: Json, region: str) -> Json:
        queue = self.queues.find(p["jobQueue"], region)
        must_be_settled(queue.detail, "delete")
        if queue.detail["state"] != "DISABLED":
            raise BatchError("Cannot delete, state must be DISABLED")
        queue.detail["status"] = "DELETING"

        def gone() -> None:
            if not self.end_jobs(queue.arn):
                self._core.after(0.1, gone)
                return
            del self.queues[queue.arn]
            for environment in self._environments.values():
                environment.relations.pop(queue.arn, None)

        self.end_jobs(queue.arn)
        self._core.after(self._core.settings.batch_transition_seconds, gone)
        return {}

    def describe_job_queues(self, p: Json, region: str) -> Json:
        return page("jobQueues", [each.detail for each in self.queues.chosen(p.get("jobQueues"), region)], p)

    # Scheduling policies

    def create_scheduling_policy(self, p: Json, region: str) -> Json:
        identity = self.policies.free(valid_name(p["name"], "name"), region)
        refuse_left_out(p, ["quotaSharePolicy"], "a scheduling policy")
        refuse_left_out(p.get("fairsharePolicy", {}), FAIR_LEFT_OUT, "fairsharePolicy")
        fair = p.get("fairsharePolicy", {})
        self.policies[identity] = {
            "name": p["name"], "arn": identity, "fairsharePolicy": fair, "tags": p.get("tags", {}),
        }  # fmt: skip
        return {"name": p["name"], "arn": identity}

    def update_scheduling_policy(self, p: Json, region: str) -> Json:
        refuse_left_out(p.get("fairsharePolicy", {}), FAIR_LEFT_OUT, "fairsharePolicy")
        self.policies.at(p["arn"])["fairsharePolicy"] = p.get("fairsharePolicy", {})
        return {}

    def delete_scheduling_policy(self, p: Json, region: str) -> Json:
        self.policies.at(p["arn"])
        if any(queue.detail.get("schedulingPolicyArn") == p["arn"] for queue in self.queues.values()):
            raise invalid("the scheduling policy is used by a job queue.")
        del self.policies[p["arn"]]
        return {}

    def list_scheduling_policies(self, p: Json, region: str) -> Json:
        return page("schedulingPolicies", [{"arn": each["arn"]} for each in self.policies.chosen([], region)], p)

    def describe_scheduling_policies(self, p: Json, region: str) -> Json:
        return {"schedulingPolicies": [self.policies[each] for each in p["arns"] if each in self.policies]}
