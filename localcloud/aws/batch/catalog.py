"""Compute environments, queues and scheduling policies: their states, transitions and the requests that Batch refuses.

Sources are the API reference (https://docs.aws.amazon.com/batch/latest/APIReference/) and, for the order in which
compute environments can be deleted, https://github.com/hashicorp/terraform-provider-aws/issues/46925.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from botocore.exceptions import ClientError

from localcloud.aws.accounts import ACCOUNT, service_client
from localcloud.aws.batch.core import BatchError, Core, Json, arn, invalid, left_out, refuse_left_out
from localcloud.aws.batch.instance_types import InstanceType, expand

NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$")
SERVICE_ROLE = f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/batch.amazonaws.com/AWSServiceRoleForBatch"
EXCEEDING = {"BEST_FIT_PROGRESSIVE", "SPOT_CAPACITY_OPTIMIZED", "SPOT_PRICE_CAPACITY_OPTIMIZED"}
"""Allocation strategies that let an environment's infrastructure be updated in place:
https://docs.aws.amazon.com/batch/latest/userguide/updating-compute-environments.html"""
FAIR_LEFT_OUT = ("computeReservation", "shareDistribution")
Found = TypeVar("Found")
SCALING = {"minvCpus", "maxvCpus", "desiredvCpus"}


@dataclass
class Environment:
    """A compute environment.

    Attributes:
        detail: The answer of DescribeComputeEnvironments.
        leaving: Queues that no longer use it, and until when (monotonic) the relation lingers.
    """

    detail: Json
    region: str
    leaving: dict[str, float] = field(default_factory=dict)

    @property
    def arn(self) -> str:
        return self.detail["computeEnvironmentArn"]

    @property
    def resources(self) -> Json:
        return self.detail["computeResources"]

    @property
    def types(self) -> tuple[InstanceType, ...]:
        return expand(tuple(self.resources["instanceTypes"]))

    @property
    def placeable(self) -> bool:
        return self.detail["state"] == "ENABLED" and self.detail["status"] in ("VALID", "UPDATING")


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


def valid_name(name: str, what: str) -> str:
    """Return ``name`` if Batch accepts it; raise the error otherwise."""
    if not NAME.match(name):
        raise invalid(
            f"{what} {name!r} must be 1 to 128 letters, digits, hyphens and "
            f"underscores, and begin with a letter or digit."
        )
    return name


def must_be_settled(detail: Json, verb: str) -> None:
    """Refuse to change a resource that is still changing."""
    if detail["status"] in ("CREATING", "UPDATING", "DELETING"):
        raise BatchError(f"Cannot {verb}, resource is being modified.")


class Catalog:
    """Everything that exists before a job does, by ARN. Callers hold the core's lock.

    Attributes:
        retire: Called with an environment, minutes (None: at once) and a callback when its machines must be replaced.
        cpus_of: Called with an environment; returns the vCPUs of its machines.
        end_jobs: Called with the ARN of a queue that is being deleted; returns whether all its jobs have ended.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self.environments: dict[str, Environment] = {}
        self.queues: dict[str, Queue] = {}
        self.policies: dict[str, Json] = {}
        self.retire: Callable[[Environment, float | None, Callable[[], None]], None]
        self.cpus_of: Callable[[Environment], int]
        self.end_jobs: Callable[[str], bool]

    # Compute environments

    def environment(self, name: str, region: str) -> Environment:
        return _known(self.environments, _identity("compute-environment", name, region), f"Compute Environment {name}")

    def create_compute_environment(self, p: Json, region: str) -> Json:
        name = valid_name(p["computeEnvironmentName"], "computeEnvironmentName")
        identity = arn(region, "compute-environment", name)
        if identity in self.environments:
            raise BatchError("Object already exists", status=409)
        if p["type"] != "MANAGED" or "eksConfiguration" in p:
            raise left_out("an unmanaged or EKS compute environment")
        if p.get("state", "ENABLED") != "ENABLED":
            raise invalid("a compute environment must be created ENABLED.")
        resources = p.get("computeResources") or {}
        self._check_resources(resources)
        detail = {
            "computeEnvironmentName": name,
            "computeEnvironmentArn": identity,
            "ecsClusterArn": f"arn:aws:ecs:{region}:{ACCOUNT}:cluster/AWSBatch-{name}-{uuid.uuid4()}",
            "type": "MANAGED",
            "state": "ENABLED",
            "status": "CREATING",
            "statusReason": "",
            "computeResources": {"minvCpus": 0, "desiredvCpus": 0, "allocationStrategy": "BEST_FIT"} | resources,
            "serviceRole": p.get("serviceRole", SERVICE_ROLE),
            "updatePolicy": {"terminateJobsOnUpdate": False, "jobExecutionTimeoutMinutes": 30},
            "containerOrchestrationType": "ECS",
            "uuid": str(uuid.uuid4()),
            "tags": p.get("tags", {}),
        }
        detail |= {key: p[key] for key in ("context", "ecsSettings") if key in p}
        environment = self.environments[identity] = Environment(detail, region)
        self._settle(environment)
        return {"computeEnvironmentName": name, "computeEnvironmentArn": identity}

    def _check_resources(self, resources: Json) -> None:
        if resources.get("type") not in ("EC2", "SPOT"):
            raise left_out(f"computeResources.type {resources.get('type')}")
        for key in ("instanceTypes", "subnets", "instanceRole"):
            if not resources.get(key):
                raise invalid(f"{key} is required for EC2 and SPOT resources.")
        if resources.get("minvCpus", 0) > resources["maxvCpus"]:
            raise invalid("minvCpus must not be greater than maxvCpus.")
        refuse_left_out(resources, ["scalingPolicy", "managedInstancesProvider"], "computeResources")
        refuse_left_out(resources.get("launchTemplate", {}), ["overrides", "userdataType"], "launchTemplate")
        expand(tuple(resources["instanceTypes"]))

    def _settle(self, environment: Environment) -> None:
        """End a transition when its time has passed: VALID, or INVALID with the reason."""

        def look() -> None:
            problem = _missing(environment)
            with self._core.lock:
                environment.detail["status"] = "INVALID" if problem else "VALID"
                environment.detail["statusReason"] = problem or "ComputeEnvironment Healthy"
                self._core.changed.notify_all()

        self._core.after(self._core.settings.batch_transition_seconds, lambda: self._core.background(look))

    def update_compute_environment(self, p: Json, region: str) -> Json:
        environment = self.environment(p["computeEnvironment"], region)
        detail = environment.detail
        must_be_settled(detail, "update")
        if "eksConfiguration" in p or "unmanagedvCpus" in p:
            raise left_out("an unmanaged or EKS compute environment")
        changes = p.get("computeResources") or {}
        latest = changes.get("updateToLatestImageVersion", False)
        wanted = environment.resources | {k: v for k, v in changes.items() if k != "updateToLatestImageVersion"}
        self._check_resources(wanted)
        replaced = sorted(k for k, v in wanted.items() if environment.resources.get(k) != v and k not in SCALING)
        own_role = detail["serviceRole"] != SERVICE_ROLE
        if (replaced or latest) and (own_role or wanted["allocationStrategy"] not in EXCEEDING):
            raise invalid(
                f"{', '.join(replaced)} can only be updated with the "
                f"service-linked role and one of the allocation strategies {', '.join(sorted(EXCEEDING))}."
            )
        if wanted["desiredvCpus"] < environment.resources["desiredvCpus"]:
            raise BatchError("Manually scaling down compute environment is not supported.")
        detail["computeResources"] = wanted
        detail["updatePolicy"] = detail["updatePolicy"] | p.get("updatePolicy", {})
        detail |= {key: p[key] for key in ("state", "serviceRole", "context", "ecsSettings") if key in p}
        detail |= {"status": "UPDATING", "statusReason": ""}
        if replaced or latest:
            policy = detail["updatePolicy"]
            minutes = None if policy["terminateJobsOnUpdate"] else policy["jobExecutionTimeoutMinutes"]
            self.retire(environment, minutes, lambda: self._settle(environment))
        else:
            self._settle(environment)
        return {
            "computeEnvironmentName": detail["computeEnvironmentName"],
            "computeEnvironmentArn": environment.arn,
        }

    def delete_compute_environment(self, p: Json, region: str) -> Json:
        environment = self.environment(p["computeEnvironment"], region)
        must_be_settled(environment.detail, "delete")
        if environment.detail["state"] != "DISABLED":
            raise BatchError("Cannot delete, state must be DISABLED")
        lingering = any(until > time.monotonic() for until in environment.leaving.values())
        if lingering or any(environment.arn in queue.rungs for queue in self.queues.values()):
            raise BatchError("Cannot delete, found existing JobQueue relationship")
        environment.detail["status"] = "DELETING"

        def gone() -> None:
            self._core.after(self._core.settings.batch_transition_seconds, remove)

        def remove() -> None:
            del self.environments[environment.arn]

        self.retire(environment, None, gone)
        return {}

    # Job queues

    def queue(self, name: str, region: str) -> Queue:
        return _known(self.queues, _identity("job-queue", name, region), f"Job queue {name}")

    def create_job_queue(self, p: Json, region: str) -> Json:
        name = valid_name(p["jobQueueName"], "jobQueueName")
        identity = arn(region, "job-queue", name)
        if identity in self.queues:
            raise BatchError("Object already exists", status=409)
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
            detail["schedulingPolicyArn"] = self._policy(policy)["arn"]
        queue = self.queues[identity] = Queue(detail, region)
        self._settle_queue(queue)
        return {"jobQueueName": name, "jobQueueArn": identity}

    def _order(self, order: list[Json], region: str) -> list[Json]:
        if not 1 <= len(order) <= 3:
            raise invalid("a job queue has 1 to 3 compute environments.")
        environments = [self.environment(each["computeEnvironment"], region) for each in order]
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

    def _settle_queue(self, queue: Queue) -> None:
        def valid() -> None:
            queue.detail |= {"status": "VALID", "statusReason": "JobQueue Healthy"}

        self._core.after(self._core.settings.batch_transition_seconds, valid)

    def update_job_queue(self, p: Json, region: str) -> Json:
        queue = self.queue(p["jobQueue"], region)
        must_be_settled(queue.detail, "update")
        if policy := p.get("schedulingPolicyArn"):
            if "schedulingPolicyArn" not in queue.detail:
                raise invalid("a FIFO queue cannot get a scheduling policy.")
            queue.detail["schedulingPolicyArn"] = self._policy(policy)["arn"]
        elif policy is not None and "schedulingPolicyArn" in queue.detail:
            raise invalid("the scheduling policy can be replaced, not removed.")
        if "computeEnvironmentOrder" in p:
            before = set(queue.rungs)
            queue.detail["computeEnvironmentOrder"] = self._order(p["computeEnvironmentOrder"], region)
            for left in before - set(queue.rungs):
                until = time.monotonic() + self._core.settings.relation_seconds
                self.environments[left].leaving[queue.arn] = until
        queue.detail |= {key: p[key] for key in ("state", "priority", "jobStateTimeLimitActions") if key in p}
        queue.detail |= {"status": "UPDATING", "statusReason": ""}
        self._settle_queue(queue)
        return {"jobQueueName": queue.detail["jobQueueName"], "jobQueueArn": queue.arn}

    def delete_job_queue(self, p: Json, region: str) -> Json:
        queue = self.queue(p["jobQueue"], region)
        must_be_settled(queue.detail, "delete")
        if queue.detail["state"] != "DISABLED":
            raise BatchError("Cannot delete, state must be DISABLED")
        queue.detail["status"] = "DELETING"

        def gone() -> None:
            if not self.end_jobs(queue.arn):
                self._core.after(0.1, gone)
                return
            del self.queues[queue.arn]
            for environment in self.environments.values():
                environment.leaving.pop(queue.arn, None)

        self.end_jobs(queue.arn)
        self._core.after(self._core.settings.batch_transition_seconds, gone)
        return {}

    # Scheduling policies

    def _policy(self, identity: str) -> Json:
        return _known(self.policies, identity, f"Scheduling policy {identity}")

    def create_scheduling_policy(self, p: Json, region: str) -> Json:
        identity = arn(region, "scheduling-policy", valid_name(p["name"], "name"))
        refuse_left_out(p, ["quotaSharePolicy"], "a scheduling policy")
        refuse_left_out(p.get("fairsharePolicy", {}), FAIR_LEFT_OUT, "fairsharePolicy")
        if identity in self.policies:
            raise BatchError("Object already exists", status=409)
        fair = p.get("fairsharePolicy", {})
        self.policies[identity] = {
            "name": p["name"], "arn": identity, "fairsharePolicy": fair, "tags": p.get("tags", {}),
        }  # fmt: skip
        return {"name": p["name"], "arn": identity}

    def update_scheduling_policy(self, p: Json, region: str) -> Json:
        refuse_left_out(p.get("fairsharePolicy", {}), FAIR_LEFT_OUT, "fairsharePolicy")
        self._policy(p["arn"])["fairsharePolicy"] = p.get("fairsharePolicy", {})
        return {}

    def delete_scheduling_policy(self, p: Json, region: str) -> Json:
        self._policy(p["arn"])
        if any(queue.detail.get("schedulingPolicyArn") == p["arn"] for queue in self.queues.values()):
            raise invalid("the scheduling policy is used by a job queue.")
        del self.policies[p["arn"]]
        return {}

    def list_scheduling_policies(self, p: Json, region: str) -> Json:
        found = [{"arn": identity} for identity in self.policies if f":{region}:" in identity]
        return page("schedulingPolicies", found, p)

    def describe_scheduling_policies(self, p: Json, region: str) -> Json:
        return {"schedulingPolicies": [self.policies[each] for each in p["arns"] if each in self.policies]}

    def describe_compute_environments(self, p: Json, region: str) -> Json:
        every = {arn: self._described(each) for arn, each in self.environments.items()}
        return page("computeEnvironments", _chosen(every, "compute-environment", p, "computeEnvironments", region), p)

    def _described(self, environment: Environment) -> Json:
        wanted = max(environment.resources["desiredvCpus"], self.cpus_of(environment))
        return environment.detail | {"computeResources": environment.resources | {"desiredvCpus": wanted}}

    def describe_job_queues(self, p: Json, region: str) -> Json:
        every = {arn: each.detail for arn, each in self.queues.items()}
        return page("jobQueues", _chosen(every, "job-queue", p, "jobQueues", region), p)


def _identity(kind: str, name: str, region: str) -> str:
    """Return the ARN for an ARN or a name."""
    return name if name.startswith("arn:") else arn(region, kind, name)


def _known(every: dict[str, Found], identity: str, what: str) -> Found:
    if identity not in every:
        raise BatchError(f"{what} does not exist")
    return every[identity]


def _chosen(every: dict[str, Json], kind: str, p: Json, key: str, region: str) -> list[Json]:
    wanted = [_identity(kind, each, region) for each in p.get(key) or []]
    if wanted:
        return [every[each] for each in wanted if each in every]
    return [detail for identity, detail in every.items() if f":{region}:" in identity]


def page(key: str, found: list[Any], p: Json, most: int = 100) -> Json:
    """Return one page: ``maxResults`` of ``found``, starting at ``nextToken``."""
    token = p.get("nextToken") or "0"
    if not token.isdigit():
        raise invalid(f"nextToken {token!r} is not one of ours.")
    start = int(token)
    end = start + max(1, min(p.get("maxResults") or most, most))
    return {key: found[start:end]} | ({"nextToken": str(end)} if end < len(found) else {})


def _missing(environment: Environment) -> str | None:
    """Return a status reason for what the environment names but the account lacks."""
    resources, ec2 = environment.resources, service_client("ec2", environment.region)
    template = resources.get("launchTemplate")
    try:
        ec2.describe_subnets(SubnetIds=resources["subnets"])
        if groups := resources.get("securityGroupIds"):
            ec2.describe_security_groups(GroupIds=groups)
        iam = service_client("iam", environment.region)
        iam.get_instance_profile(InstanceProfileName=resources["instanceRole"].split("/")[-1])
        if template:
            ec2.describe_launch_template_versions(**template_version(template))
    except ClientError as error:
        return f"CLIENT_ERROR - {error.response['Error']['Message']}"
    return None


def template_version(template: Json) -> Json:
    """Return the parameters of DescribeLaunchTemplateVersions for an environment's ``launchTemplate``."""
    by = {
        "LaunchTemplateId": template.get("launchTemplateId"),
        "LaunchTemplateName": template.get("launchTemplateName"),
    }
    return {k: v for k, v in by.items() if v} | {"Versions": [template.get("version") or "$Default"]}
