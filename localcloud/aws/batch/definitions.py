"""Job definitions: their revisions, and the requests that Batch refuses."""

from __future__ import annotations

import json
import re

from localcloud.aws.batch.catalog import page, valid_name
from localcloud.aws.batch.core import BatchError, Json, arn, invalid, left_out, refuse_left_out
from localcloud.aws.batch.jobs import Task, with_empty_lists

BYTES = 24 * 1024
"""https://docs.aws.amazon.com/batch/latest/userguide/service_limits.html"""
LEFT_OUT = (
    "parameters", "nodeProperties", "eksProperties", "consumableResourceProperties", "schedulingPriority",
)  # fmt: skip


class Definitions:
    """Their operations. Callers hold the core's lock.

    Attributes:
        all: Every revision, by ARN.
    """

    def __init__(self) -> None:
        self.all: dict[str, Json] = {}

    def register_job_definition(self, p: Json, region: str) -> Json:
        name = valid_name(p["jobDefinitionName"], "jobDefinitionName")
        refuse_left_out(p, LEFT_OUT, "a job definition")
        if p["type"] != "container" or p.get("platformCapabilities", ["EC2"]) != ["EC2"]:
            raise left_out("a job definition that is not for EC2 containers")
        if len(json.dumps(p)) > BYTES:
            raise invalid("the job definition is larger than 24 KiB.")
        Task.of(p)
        check_retry(p.get("retryStrategy"))
        check_timeout(p.get("timeout"))
        same = [each["revision"] for each in self.all.values() if _is(each, name, region)]
        revision = max(same, default=0) + 1
        identity = arn(region, "job-definition", f"{name}:{revision}")
        self.all[identity] = {"containerOrchestrationType": "ECS", "tags": {}} | p | {
            "jobDefinitionArn": identity, "revision": revision, "status": "ACTIVE",
        }  # fmt: skip
        return {"jobDefinitionName": name, "jobDefinitionArn": identity, "revision": revision}

    def find(self, reference: str, region: str) -> Json:
        """Find a job definition by ARN, name:revision, or name (its newest active revision)."""
        name, _, revision = reference.rsplit("/", maxsplit=1)[-1].partition(":")
        every = [each for each in self.all.values() if _is(each, name, region)]
        active = [each for each in every if each["status"] == "ACTIVE"]
        found = [each for each in active if not revision or str(each["revision"]) == revision]
        if not found:
            raise BatchError(f"JobDefinition {reference} not found or is not active")
        return found[-1]

    def deregister_job_definition(self, p: Json, region: str) -> Json:
        self.find(p["jobDefinition"], region)["status"] = "INACTIVE"
        return {}

    def describe_job_definitions(self, p: Json, region: str) -> Json:
        found = [each for identity, each in self.all.items() if f":{region}:" in identity]
        if wanted := p.get("jobDefinitions"):
            names = [each.split("/")[-1] for each in wanted]
            found = [each for each in found if each["jobDefinitionArn"].split("/")[-1] in names]
        if name := p.get("jobDefinitionName"):
            found = [each for each in found if each["jobDefinitionName"] == name]
        if status := p.get("status"):
            found = [each for each in found if each["status"] == status]
        return page("jobDefinitions", [with_empty_lists(each) for each in found], p)


def _is(definition: Json, name: str, region: str) -> bool:
    return definition["jobDefinitionName"] == name and f":{region}:" in definition["jobDefinitionArn"]


def check_retry(strategy: Json | None) -> None:
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


def check_timeout(timeout: Json | None) -> None:
    if timeout is not None and timeout.get("attemptDurationSeconds", 0) < 60:
        raise invalid("attemptDurationSeconds must be at least 60.")
