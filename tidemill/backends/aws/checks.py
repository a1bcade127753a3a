"""What `tidemill doctor` asks AWS: login, queues and their machines, images, quotas."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tidemill.backends.aws.session import client, default_session, translated
from tidemill.backends.findings import UP, Finding
from tidemill.descriptor import Descriptor, Image, Queue
from tidemill.errors import CloudError

if TYPE_CHECKING:
    import boto3

_ECR = re.compile(
    r"(?P<registry>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?/"
    r"(?P<repository>[^@:]+)(?:@(?P<digest>sha256:[0-9a-f]{64})|:(?P<tag>[^@:]+))"
)

_STANDARD = "acdhimrtz"
QUOTAS = {
    ("spot", "standard"): "L-34B43A08",
    ("spot", "g"): "L-3819A6DF",
    ("spot", "p"): "L-7212CCBC",
    ("on_demand", "standard"): "L-1216C47A",
    ("on_demand", "g"): "L-DB2E81BA",
    ("on_demand", "p"): "L-417A185B",
}
"""Quotas of vCPUs by market and class of types, "All ... Spot Instance Requests" and "Running On-Demand ... instances".
Other classes have quotas of their own and are not looked at.
Source: https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html"""


class AwsChecks:
    """Asks with the caller's own login; without a region or session, those of the default profile."""

    def __init__(self, region: str | None, session: boto3.Session | None = None) -> None:
        self._session = session or default_session()
        self._region = region or self._session.region_name or "us-east-1"

    # ---- login --------------------------------------------------------------------------------------------------

    def login(self) -> tuple[Finding, str | None]:
        """Who the caller is, and the account's id; None without a valid login."""
        try:
            with translated("sts:GetCallerIdentity"):
                caller = client("sts", self._region, self._session).get_caller_identity()
        except CloudError as error:
            return Finding("login", "fault", str(error), self._login_command()), None
        return Finding("login", "ok", f"{caller['Arn']} ({self._origin()})"), caller["Account"]

    def _origin(self) -> str:
        credentials = self._session.get_credentials()
        method = credentials.method if credentials else ""
        return "keys of the environment" if method == "env" else f"profile {self._session.profile_name}, {method}"

    def _login_command(self) -> str:
        if os.environ.get("AWS_ACCESS_KEY_ID"):
            return "unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN"
        profile = self._session.profile_name
        settings = self._session._session.full_config["profiles"].get(profile, {})
        if settings.keys() & {"sso_session", "sso_start_url"}:
            return f"aws sso login --profile {profile}"
        if "credential_process" in settings:
            return settings["credential_process"]
        return f"aws configure --profile {profile}"

    # ---- queues -------------------------------------------------------------------------------------------------

    def pipeline(self, descriptor: Descriptor) -> Iterator[Finding]:
        """Queues, images and quotas of a pipeline."""
        for name, queue in sorted(descriptor.queues.items()):
            yield self._guarded(f"queue {name}", lambda name=name, queue=queue: self._queue(name, queue))
            for image_name, image in sorted(queue.images.items()):
                check = f"image {name}/{image_name}"
                yield self._guarded(check, lambda check=check, image=image: self.image(check, image))
        yield from self._quotas(descriptor)

    def _guarded(self, check: str, look: Any) -> Finding:
        try:
            return look()
        except CloudError as error:
            return Finding(check, "fault", str(error), "pulumi stack output submitter_policy_arn", owner=True)

    def _queue(self, name: str, queue: Queue) -> Finding:
        check, arn = f"queue {name}", queue.aws.job_queue if queue.aws else ""
        batch = client("batch", self._region, self._session)
        with translated("batch:DescribeJobQueues"):
            found = batch.describe_job_queues(jobQueues=[arn])["jobQueues"] if arn else []
        if not found or found[0]["status"] in ("DELETING", "DELETED"):
            return Finding(check, "fault", "is not there: the stack was changed or destroyed", UP, owner=True)
        state = found[0]
        if state["state"] != "ENABLED":
            command = f"aws batch update-job-queue --job-queue {arn} --state ENABLED --region {self._region}"
            return Finding(check, "fault", "is disabled: it takes no jobs", command, owner=True)
        environments = [order["computeEnvironment"] for order in state.get("computeEnvironmentOrder", [])]
        with translated("batch:DescribeComputeEnvironments"):
            machines = batch.describe_compute_environments(computeEnvironments=environments)["computeEnvironments"]
        for machine in machines:
            if problem := self._environment(check, machine):
                return problem
        if state["status"] == "INVALID" or not machines:
            reason = state.get("statusReason") or "no compute environment"
            return Finding(check, "fault", f"cannot start machines: {reason}", UP, owner=True)
        return Finding(check, "ok", f"enabled, {state['status'].lower()}: {queue.ladder}")

    def _environment(self, check: str, machine: dict[str, Any]) -> Finding | None:
        name = machine["computeEnvironmentName"]
        if machine["state"] != "ENABLED":
            command = f"aws batch update-compute-environment --compute-environment {name} --state ENABLED"
            command += f" --region {self._region}"
            return Finding(check, "fault", f"{name} is disabled: no machine starts", command, owner=True)
        if machine["status"] == "INVALID":
            reason = machine.get("statusReason", "no reason given")
            return Finding(check, "fault", f"{name} is invalid: {reason}", UP, owner=True)
        return None

    # ---- images -------------------------------------------------------------------------------------------------

    def image(self, check: str, image: Image) -> Finding:
        """Whether an image's job definition is active and its registry holds it.

        Raises:
            CloudError: Batch does not tell.
        """
        definition = image.job_definition or ""
        batch = client("batch", self._region, self._session)
        with translated("batch:DescribeJobDefinitions"):
            found = batch.describe_job_definitions(jobDefinitions=[definition])["jobDefinitions"] if definition else []
        if not found or found[0]["status"] != "ACTIVE":
            return Finding(check, "fault", f"{definition or 'its job definition'} is not active", UP, owner=True)
        place = _ECR.fullmatch(image.ref)
        if place is None:
            return Finding(check, "unknown", f"{image.ref} is in a registry this check cannot query")
        return self._in_registry(check, image.ref, place)

    def _in_registry(self, check: str, ref: str, place: re.Match[str]) -> Finding:
        import botocore.exceptions

        wanted = {"imageDigest": place["digest"]} if place["digest"] else {"imageTag": place["tag"]}
        try:
            answer = client("ecr", place["region"], self._session).describe_images(
                registryId=place["registry"], repositoryName=place["repository"], imageIds=[wanted]
            )
        except botocore.exceptions.ClientError as error:
            code = error.response["Error"].get("Code", "")
            if code in ("ImageNotFoundException", "RepositoryNotFoundException"):
                return Finding(check, "fault", f"{ref} is not in the registry", f"docker push {ref}", owner=True)
            return Finding(check, "unknown", f"{ref}: the registry does not tell ({code})")
        except botocore.exceptions.BotoCoreError as error:
            return Finding(check, "unknown", f"{ref}: the registry does not answer ({error})")
        return Finding(check, "ok", f"{place['repository']}@{answer['imageDetails'][0]['imageDigest']}")

    # ---- quotas -------------------------------------------------------------------------------------------------

    def _quotas(self, descriptor: Descriptor) -> Iterator[Finding]:
        wanted: dict[tuple[str, str], int] = {}
        least: dict[tuple[str, str], int] = {}
        for queue in descriptor.queues.values():
            for rung in queue.capacity:
                for kind in {kind_of(machine.type) for machine in queue.machines}:
                    key = (rung.market, kind)
                    sizes = [machine.cpus for machine in queue.machines if kind_of(machine.type) == kind]
                    wanted[key] = wanted.get(key, 0) + rung.max_cpus
                    least[key] = min([least.get(key, sizes[0]), *sizes])
        for key in sorted(wanted):
            yield self._quota(key, wanted[key], least[key])

    def _quota(self, key: tuple[str, str], wanted: int, least: int) -> Finding:
        import botocore.exceptions

        market, kind = key
        check = f"quota {market} {kind}"
        code = QUOTAS.get(key)
        if code is None:
            return Finding(check, "unknown", "types of this class have a quota that is not looked at")
        try:
            quota = client("service-quotas", self._region, self._session).get_service_quota(
                ServiceCode="ec2", QuotaCode=code
            )["Quota"]["Value"]
        except botocore.exceptions.ClientError as error:
            return Finding(check, "unknown", f"{code} is not shown ({error.response['Error'].get('Code')})")
        except botocore.exceptions.BotoCoreError as error:
            return Finding(check, "unknown", f"{code}: Service Quotas does not answer ({error})")
        said = f"{quota:.0f} vCPUs in {self._region}, the queues may start {wanted}"
        if quota >= wanted:
            return Finding(check, "ok", said)
        command = (
            "aws service-quotas request-service-quota-increase --service-code ec2 "
            f"--quota-code {code} --desired-value {wanted} --region {self._region}"
        )
        if quota < least:
            return Finding(
                check, "fault", f"{said}; the smallest machine has {least}: none starts", command, owner=True
            )
        return Finding(check, "warning", f"{said}: jobs wait at the quota", command, owner=True)


def kind_of(machine: str) -> str:
    """The class of a machine type as quotas count it: `standard`, or the family's letters."""
    letters = re.match(r"[a-z]+", machine)
    family = letters[0] if letters else machine
    if family in ("g", "gr", "vt"):
        return "g"
    return "standard" if family[0] in _STANDARD and family not in ("dl", "inf", "mac", "trn", "hpc") else family
