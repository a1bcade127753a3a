"""Compute environments: their states, transitions and the requests that Batch refuses.

Sources are the API reference (https://docs.aws.amazon.com/batch/latest/APIReference/) and, for the order in which
they can be deleted, https://github.com/hashicorp/terraform-provider-aws/issues/46925.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from botocore.exceptions import ClientError

from localcloud.aws.accounts import ACCOUNT, service_client
from localcloud.aws.batch.catalog import Catalog, must_be_settled, page, valid_name
from localcloud.aws.batch.core import BatchError, Core, Json, invalid, left_out, refuse_left_out
from localcloud.aws.batch.instance_types import InstanceType, expand

SERVICE_ROLE = f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/batch.amazonaws.com/AWSServiceRoleForBatch"
EXCEEDING = {"BEST_FIT_PROGRESSIVE", "SPOT_CAPACITY_OPTIMIZED", "SPOT_PRICE_CAPACITY_OPTIMIZED"}
"""Allocation strategies that let an environment's infrastructure be updated in place:
https://docs.aws.amazon.com/batch/latest/userguide/updating-compute-environments.html"""
SCALING = {"minvCpus", "maxvCpus", "desiredvCpus"}


@dataclass
class Environment:
    """A compute environment.

    Attributes:
        detail: The answer of DescribeComputeEnvironments.
        relations: Queues that use it, or no longer do, and until when (monotonic) the relation lasts.
    """

    detail: Json
    region: str
    relations: dict[str, float] = field(default_factory=dict)

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


class Environments:
    """Their operations. Callers hold the core's lock.

    Attributes:
        all: Every environment.
        retire: Called with an environment, minutes (None: at once) and a callback when its machines must be replaced.
        cpus_of: Called with an environment; returns the vCPUs of its machines.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self.all: Catalog[Environment] = Catalog("compute-environment", "Compute Environment")
        self.retire: Callable[[Environment, float | None, Callable[[], None]], None]
        self.cpus_of: Callable[[Environment], int]

    def create_compute_environment(self, p: Json, region: str) -> Json:
        name = valid_name(p["computeEnvironmentName"], "computeEnvironmentName")
        identity = self.all.free(name, region)
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
        environment = self.all[identity] = Environment(detail, region)
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
        environment = self.all.find(p["computeEnvironment"], region)
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
        return {"computeEnvironmentName": detail["computeEnvironmentName"], "computeEnvironmentArn": environment.arn}

    def delete_compute_environment(self, p: Json, region: str) -> Json:
        environment = self.all.find(p["computeEnvironment"], region)
        must_be_settled(environment.detail, "delete")
        if environment.detail["state"] != "DISABLED":
            raise BatchError("Cannot delete, state must be DISABLED")
        if any(until > time.monotonic() for until in environment.relations.values()):
            raise BatchError("Cannot delete, found existing JobQueue relationship")
        environment.detail["status"] = "DELETING"

        def gone() -> None:
            self._core.after(self._core.settings.batch_transition_seconds, remove)

        def remove() -> None:
            del self.all[environment.arn]

        self.retire(environment, None, gone)
        return {}

    def describe_compute_environments(self, p: Json, region: str) -> Json:
        found = self.all.chosen(p.get("computeEnvironments"), region)
        return page("computeEnvironments", [self._described(each) for each in found], p)

    def _described(self, environment: Environment) -> Json:
        wanted = max(environment.resources["desiredvCpus"], self.cpus_of(environment))
        return environment.detail | {"computeResources": environment.resources | {"desiredvCpus": wanted}}


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
