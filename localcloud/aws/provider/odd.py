"""Rules that the table cannot express: conditional replacement, and what a type refuses beyond AWS's model."""

from __future__ import annotations

import re
from typing import Any

from localcloud.provider.convert import UNKNOWN, RefusedError, has_unknown
from localcloud.provider.table import lookup

SERVICE_LINKED = re.compile(r"arn:[^:]+:iam::\d{12}:role/aws-service-role/batch\.amazonaws\.com/")
UPDATABLE = {"BEST_FIT_PROGRESSIVE", "SPOT_CAPACITY_OPTIMIZED", "SPOT_PRICE_CAPACITY_OPTIMIZED"}
INFRASTRUCTURE = ["allocationStrategy", "bidPercentage", "ec2Configurations", "ec2KeyPair", "imageId", "instanceRole"]
INFRASTRUCTURE += ["instanceTypes", "launchTemplate", "tags"]


def replaces(rule: str, old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return the properties that replace a resource under a named condition.

    `compute_environment`: unless the service role is (and was) Batch's service-linked one and the allocation strategy
    is (and was) one that UpdateComputeEnvironment takes, every infrastructure property replaces. Source:
    https://github.com/hashicorp/terraform-provider-aws/blob/01606926/internal/service/batch/compute_environment.go,
    resourceComputeEnvironmentCustomizeDiff.
    """
    assert rule == "compute_environment", rule
    roles = [inputs.get("serviceRole") or "" for inputs in (old, new)]
    linked = all(not role or SERVICE_LINKED.match(role) for role in roles)
    if linked and all(lookup("computeResources.allocationStrategy", inputs) in UPDATABLE for inputs in (old, new)):
        return []
    fargate = str(lookup("computeResources.type", new)).startswith("FARGATE")
    properties = INFRASTRUCTURE + ([] if fargate else ["securityGroupIds", "subnets"])
    return [f"computeResources.{name}" for name in properties]


def check(inputs: dict[str, Any]) -> None:
    """Refuse what a type refuses beyond its model.

    Raises:
        RefusedError: See the source of each rule.
    """
    minutes = lookup("updatePolicy.jobExecutionTimeoutMinutes", inputs)
    if minutes is not None and not has_unknown(minutes) and not 1 <= minutes <= 360:
        # compute_environment.go: validation.IntBetween(1, 360), although the API accepts more
        raise RefusedError("updatePolicy.jobExecutionTimeoutMinutes", f"{minutes} is not within 1 and 360")
    actions = inputs.get("jobStateTimeLimitActions") or []
    for index, action in enumerate([] if actions == UNKNOWN else actions):
        seconds = lookup("it.maxTimeSeconds", {"it": action})
        if (
            seconds is not None and not has_unknown(seconds) and not 600 <= seconds <= 86400
        ):  # job_queue.go: int64validator.Between(600, 86400)
            raise RefusedError(
                f"jobStateTimeLimitActions[{index}].maxTimeSeconds", f"{seconds} is not within 600 and 86400"
            )
    seconds = lookup("timeout.attemptDurationSeconds", inputs)
    if seconds is not None and not has_unknown(seconds) and seconds < 60:  # job_definition.go: IntAtLeast(60)
        raise RefusedError("timeout.attemptDurationSeconds", f"{seconds} is below 60")
