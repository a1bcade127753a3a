"""Checks of `tidemill doctor` on AWS Batch: queues and their machines, images, quotas."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tidemill.clouds import processors
from tidemill.clouds.aws.session import client, default_session, translated
from tidemill.clouds.findings import UP, Finding, absent
from tidemill.descriptor import Descriptor, Image, Queue
from tidemill.errors import CloudError
from tidemill.services.batch.facts import COMMAND, BatchReader, wanted_quotas
from tidemill.services.batch.model import Quota
from tidemill.services.batch.rules import queue_problems, quota_problem

if TYPE_CHECKING:
    import boto3

_ECR = re.compile(
    r"(?P<registry>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?/"
    r"(?P<repository>[^@:]+)(?:@(?P<digest>sha256:[0-9a-f]{64})|:(?P<tag>[^@:]+))"
)

_SECONDS = 10


class AwsChecks:
    """Asks with the caller's own login; without a session, that of the default profile."""

    def __init__(self, region: str, session: boto3.Session | None = None) -> None:
        self._session = session or default_session()
        self._region = region

    # ---- queues -------------------------------------------------------------------------------------------------

    def pipeline(self, descriptor: Descriptor) -> Iterator[Finding]:
        """Queues, images and quotas of a pipeline."""
        for name, queue in sorted(descriptor.queues.items()):
            yield self._guarded(f"queue {name}", lambda name=name, queue=queue: self._queue(name, queue))
            for image_name, image in sorted(queue.images.items()):
                check = f"image {name}/{image_name}"
                yield self._guarded(check, lambda check=check, on=queue, image=image: self.image(check, on, image))
        yield from self._quotas(descriptor)

    def _guarded(self, check: str, look: Any) -> Finding:
        try:
            return look()
        except CloudError as error:
            return Finding(check, "fault", str(error), COMMAND, owner=True)

    def _queue(self, name: str, queue: Queue) -> Finding:
        check, reader = f"queue {name}", self._reader()
        seen = reader.queue(queue.aws.job_queue if queue.aws else "")
        for problem in queue_problems(seen):
            # An environment that is only being updated is no fault.
            if problem.code != "A16" or problem.do != "wait":
                return Finding(check, "fault", problem.text.removeprefix("the queue "), problem.do, owner=True)
        for unseen in reader.unseen:
            return Finding(check, "fault", unseen.reason, COMMAND, owner=True)
        return Finding(check, "ok", f"enabled, {seen.status.lower()}: {queue.ladder}")

    def _reader(self) -> BatchReader:
        return BatchReader(lambda service: client(service, self._region, self._session))

    # ---- images -------------------------------------------------------------------------------------------------

    def image(self, check: str, queue: Queue, image: Image) -> Finding:
        """Check that an image's job definition is active, and that its registry holds it for the queue's processors.

        Raises:
            CloudError: Batch does not tell.
        """
        definition = image.job_definition or ""
        batch = client("batch", self._region, self._session)
        with translated("batch:DescribeJobDefinitions"):
            known = batch.describe_job_definitions(jobDefinitions=[definition])["jobDefinitions"] if definition else []
        if not known or known[0]["status"] != "ACTIVE":
            return Finding(check, "fault", f"{definition or 'its job definition'} is not active", UP, owner=True)
        place = _ECR.fullmatch(image.ref)
        if place is None:
            return Finding(check, "unknown", f"{image.ref} is in a registry this check cannot query")
        return self._in_registry(check, queue, image, place)

    def _in_registry(self, check: str, queue: Queue, image: Image, place: re.Match[str]) -> Finding:
        import botocore.exceptions

        ref = image.ref
        wanted = {"imageDigest": place["digest"]} if place["digest"] else {"imageTag": place["tag"]}
        ecr = client("ecr", place["region"], self._session)
        where = {"registryId": place["registry"], "repositoryName": place["repository"]}
        try:
            answer = ecr.describe_images(**where, imageIds=[wanted])
        except botocore.exceptions.ClientError as error:
            code = error.response["Error"].get("Code", "")
            if code == "RepositoryNotFoundException" and image.mirrored:
                # Machines may not make it (ADR 114).
                made = f"aws ecr create-repository --repository-name {place['repository']} --region {place['region']}"
                return Finding(check, "fault", f"the mirror has no repository for {ref}", made, owner=True)
            if code in ("ImageNotFoundException", "RepositoryNotFoundException"):
                return absent(check, image)
            return Finding(check, "unknown", f"{ref}: the registry does not tell ({code})")
        except botocore.exceptions.BotoCoreError as error:
            return Finding(check, "unknown", f"{ref}: the registry does not answer ({error})")
        digest = answer["imageDetails"][0]["imageDigest"]
        finding = Finding(check, "ok", f"{place['repository']}@{digest}")
        return processors.judge(finding, ref, _processors(ecr, where, digest), processors.wanted("aws", queue))

    # ---- quotas -------------------------------------------------------------------------------------------------

    def _quotas(self, descriptor: Descriptor) -> Iterator[Finding]:
        reader = self._reader()
        for wanted in wanted_quotas(self._region, list(descriptor.queues.values())):
            yield _quota(reader.quota(wanted))


def _processors(ecr: Any, where: dict[str, str], digest: str) -> set[str] | None:
    """The processors of an image; None where the login may not read manifests, which stacks of one processor do not
    grant.

    Source: https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_BatchGetImage.html
    """
    import botocore.exceptions

    accepted = [*processors.MANIFESTS]
    try:
        reply = ecr.batch_get_image(**where, imageIds=[{"imageDigest": digest}], acceptedMediaTypes=accepted)
        manifest = json.loads(reply["images"][0]["imageManifest"])
        if "manifests" in manifest:
            return processors.of_platforms([each.get("platform", {}) for each in manifest["manifests"]])
        layer = ecr.get_download_url_for_layer(**where, layerDigest=manifest["config"]["digest"])
        with urllib.request.urlopen(layer["downloadUrl"], timeout=_SECONDS) as answer:
            return processors.of_platforms([json.load(answer)])
    except (botocore.exceptions.ClientError, botocore.exceptions.BotoCoreError):
        return None
    except (OSError, ValueError, LookupError, AttributeError, TypeError):
        return None  # an answer that is none: the pull will tell


def _quota(quota: Quota) -> Finding:
    check = f"quota {quota.market} {quota.kind}"
    if quota.limit is None:
        return Finding(check, "unknown", quota.unseen)
    problem = quota_problem(quota)
    if problem is None:
        text = f"{quota.limit:.0f} vCPUs in {quota.region}, the queues may start {quota.wanted}"
        return Finding(check, "ok", text)
    cause, none_starts = problem
    return Finding(check, "fault" if none_starts else "warning", cause.text, cause.do, owner=True)


def open_checks(descriptor: Descriptor) -> AwsChecks:
    return AwsChecks(descriptor.region)
