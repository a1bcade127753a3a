"""Checks of `tidemill doctor` on Pub/Sub: queues with their dead letters and backlogs, images, logs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

from tidemill.clouds import processors
from tidemill.clouds.account import LogSearch
from tidemill.clouds.findings import UP, Finding, absent, access_command
from tidemill.clouds.gcp.logs import find
from tidemill.clouds.gcp.session import DeniedError, GoogleSession, MissingError
from tidemill.descriptor import Descriptor, GcpQueue, Image, Queue
from tidemill.errors import CloudError
from tidemill.services.pubsub import dead_letters
from tidemill.services.pubsub.backlog import backlog
from tidemill.services.pubsub.facts import read_queue
from tidemill.services.pubsub.rules import NO_TOPIC, topic_problem

_ACCESS = access_command("gs://")
_REGISTRY = re.compile(
    r"(?P<location>[a-z0-9-]+)-docker\.pkg\.dev/(?P<project>[^/]+)/(?P<repository>[^/]+)/(?P<image>[^@:]+)"
    r"(?:@(?P<digest>sha256:[0-9a-f]{64})|:[^@:]+)"
)


class GcpChecks:
    """Asks with the caller's own login."""

    def __init__(self, project: str, session: GoogleSession | None = None) -> None:
        self._project = project
        self._session = session

    def _calls(self) -> GoogleSession:
        if self._session is None:
            self._session = GoogleSession(self._project)
        return self._session

    def pipeline(self, descriptor: Descriptor) -> Iterator[Finding]:
        """Queues, their dead letters and backlogs, images, and the log bucket."""
        for name, queue in sorted(descriptor.queues.items()):
            yield from self._of_queue(name, queue)
        bucket, now = descriptor.log_group, self._calls().now()
        yield self._guarded("logs", lambda: self._logs(bucket, now))

    def _of_queue(self, name: str, queue: Queue) -> Iterator[Finding]:
        check, gcp = f"queue {name}", queue.gcp
        if gcp is None:
            yield Finding(check, "fault", NO_TOPIC, UP, owner=True)
            return
        state = self._guarded(check, lambda: self._queue(check, queue, gcp))
        yield state
        if state.verdict == "ok":
            yield self._guarded(f"dead letters {name}", lambda: self._dead_letters(f"dead letters {name}", gcp))
            yield self._guarded(f"backlog {name}", lambda: self._backlog(f"backlog {name}", gcp))
        for image_name, image in sorted(queue.images.items()):
            image_check = f"image {name}/{image_name}"
            yield self._guarded(image_check, lambda check=image_check, image=image: self.image(check, queue, image))

    def _guarded(self, check: str, look: Callable[[], Finding]) -> Finding:
        try:
            return look()
        except DeniedError as error:
            return Finding(check, "fault", str(error), error.command or _ACCESS, owner=error.owner or not error.command)
        except CloudError as error:
            return Finding(check, "fault", str(error), "tidemill doctor")

    def _queue(self, check: str, queue: Queue, gcp: GcpQueue) -> Finding:
        if problem := topic_problem(read_queue(self._calls(), gcp)):
            return Finding(check, "fault", problem.text, problem.do, owner=True)
        return Finding(check, "ok", f"topic and subscription are there: {queue.ladder}")

    def _dead_letters(self, check: str, gcp: GcpQueue) -> Finding:
        try:
            by_job = dead_letters.look(self._calls(), gcp.dead_letters)
        except MissingError:
            problem = f"{gcp.dead_letters} is not there: what is delivered too often would be lost"
            return Finding(check, "fault", problem, UP, owner=True)
        count = sum(map(len, by_job.values()))
        if not count:
            return Finding(check, "ok", "none")
        worst = max(by_job, key=lambda job: len(by_job[job]))
        chunks, jobs = f"{count} chunk{'s' * (count > 1)}", f"{len(by_job)} job{'s' * (len(by_job) > 1)}"
        problem = f"{chunks} of {jobs}, delivered as often as the queue allows"
        return Finding(check, "warning", problem, f"tidemill retry {worst} --dead")

    def _backlog(self, check: str, gcp: GcpQueue) -> Finding:
        points = backlog(self._calls(), gcp.subscription)
        if not points:
            return Finding(check, "unknown", "Cloud Monitoring has no sample of the last half hour")
        newest = max(points)
        return Finding(check, "ok", f"{newest.backlog} messages are not done ({_ago(self._calls().now() - newest.at)})")

    def _logs(self, bucket: str | None, now: float) -> Finding:
        if not bucket:
            return Finding("logs", "fault", "the descriptor names no log bucket", UP, owner=True)
        next(find(self._calls(), bucket, LogSearch("", since=now)), None)
        return Finding("logs", "ok", f"{bucket} can be read")

    def image(self, check: str, queue: Queue, image: Image) -> Finding:
        """Check that Artifact Registry holds an image for the queue's processors.

        Raises:
            CloudError: It does not answer.
        """
        place = _REGISTRY.fullmatch(image.ref)
        if place is None or not place["digest"]:
            return Finding(check, "unknown", f"{image.ref} is in a registry this check cannot query")
        folder = f"projects/{place['project']}/locations/{place['location']}/repositories/{place['repository']}"
        name = f"{folder}/dockerImages/{quote(place['image'], safe='')}@{place['digest']}"
        action = "artifactregistry.dockerimages.get"
        try:
            stored = self._calls().call("artifactregistry", "GET", f"v1/{name}", action=action)
        except MissingError:
            return absent(check, image)
        except DeniedError as error:
            return Finding(check, "unknown", f"{image.ref}: the registry does not tell ({error})")
        there = Finding(check, "ok", f"{place['image']}@{place['digest']}")
        return processors.judge(there, image.ref, self._processors(stored, place), processors.wanted("gcp", queue))

    def _processors(self, stored: dict[str, Any], place: re.Match[str]) -> set[str] | None:
        """The processors of an image; None if the registry does not tell. It describes those of an index; an image for
        one processor has its own in its configuration.

        Source: https://docs.cloud.google.com/artifact-registry/docs/reference/rest/v1/projects.locations.repositories.dockerImages
        """
        if stored.get("imageManifests"):
            return processors.of_platforms(stored["imageManifests"])
        at = f"v2/{place['project']}/{place['repository']}/{place['image']}"
        try:
            manifest = self._pull(place, f"{at}/manifests/{place['digest']}")
            return processors.of_platforms([self._pull(place, f"{at}/blobs/{manifest['config']['digest']}")])
        except (CloudError, LookupError, ValueError, TypeError, AttributeError):
            return None

    def _pull(self, place: re.Match[str], path: str) -> dict[str, Any]:
        action = "artifactregistry.repositories.downloadArtifacts"
        accepted = ", ".join(processors.MANIFESTS)
        return self._calls().call(f"{place['location']}-docker", "GET", path, action=action, accept=accepted)


def _ago(seconds: float) -> str:
    return f"{max(0.0, seconds):.0f} s ago"


def open_checks(descriptor: Descriptor) -> GcpChecks:
    return GcpChecks(descriptor.account)
