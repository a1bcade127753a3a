"""A team with a provisioned pipeline on the emulated GCP, and the actions of its members."""

from __future__ import annotations

import hashlib
import json
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from localcloud.cloud import GcpCloud
from tests.e2e.team import Member, await_that
from tests.engine.google import Google
from tests.harness import Project

DATA = "tidemill-demo-photos"
PERSON = "photographer"
TIME_FACTOR = 30
"""Speed of the cloud's clock: its minute is two seconds, its hour two minutes. Workers use the wall clock."""
SPOT_OFF_SECONDS = 30 * TIME_FACTOR
"""As long as Google gives, by the clock of the workers: they must leave in time on a busy machine, too."""
IDLE_SECONDS = 5


class Objects:
    """Objects of the project, accessed as its owner."""

    def __init__(self, google: Google) -> None:
        owner = json.loads((google.cloud.state / "credentials.json").read_text())["client_email"]
        self._token = google.cloud.control("token", principal=f"serviceAccount:{owner}")["access_token"]
        self._url = google.cloud.env["CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE"]

    def put(self, bucket: str, name: str, body: bytes) -> None:
        """Write an object."""
        place = f"upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(name, safe='')}"
        self._ask("POST", place, body)

    def get(self, bucket: str, name: str) -> bytes:
        """Read an object."""
        return self._ask("GET", f"storage/v1/b/{bucket}/o/{quote(name, safe='')}?alt=media")

    def _ask(self, method: str, place: str, body: bytes | None = None) -> bytes:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/octet-stream"}
        request = urllib.request.Request(self._url + place, body, headers, method=method)
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.read()


@dataclass(frozen=True)
class GcpTeam(Member):
    """A pipeline that is up."""

    google: Google
    objects: Objects
    project: Project
    person: dict[str, str]

    @property
    def cloud(self) -> GcpCloud:
        return self.google.cloud

    def put_items(self, prefix: str, count: int, folder: Path) -> tuple[Path, list[str]]:
        """Put objects into the team's data. Returns the list of items and each object's SHA-256."""
        digests = []
        for index in range(count):
            body = f"{prefix} {index}\n".encode()
            digests.append(hashlib.sha256(body).hexdigest())
            self.objects.put(DATA, f"{prefix}/{index:05d}", body)
        items = folder / f"{prefix}.txt"
        items.write_text("".join(f"gs://{DATA}/{prefix}/{index:05d}\n" for index in range(count)))
        return items, digests

    def read(self, uri: str) -> bytes:
        """Read one of the team's objects."""
        bucket, _, name = uri.removeprefix("gs://").partition("/")
        return self.objects.get(bucket, name)

    def machines(self) -> dict[str, Any]:
        """Target sizes by group (`targets`), and the existing machines (`instances`)."""
        return self.cloud.control("compute/list")

    def busy_machine(self) -> str:
        """Wait for a machine whose worker runs. Returns its name."""

        def one() -> str | None:
            found = self.machines()["instances"]
            return next((vm["name"] for vm in found if vm["containers"] and vm["status"] == "RUNNING"), None)

        return await_that(one, "a worker runs")

    def told(self) -> list[dict[str, Any]]:
        """Messages to the channel `oncall` that were not seen before."""
        path = "v1/projects/{project}/subscriptions/oncall"
        found = self.google.call("pubsub", "POST", f"{path}:pull", {"maxMessages": 10}) or {}
        received = found.get("receivedMessages", [])
        if received:
            self.google.call("pubsub", "POST", f"{path}:acknowledge", {"ackIds": [each["ackId"] for each in received]})
        return [each["message"] for each in received]

    def at_rest(self) -> bool:
        """Whether no machine exists and none is wanted."""
        found = self.machines()
        return not found["instances"] and not any(found["targets"].values())


def gcp_team_up(
    cloud: GcpCloud,
    folder: Path,
    queue: Mapping[str, Any] | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
) -> GcpTeam:
    """Bring the demo stack up.

    Args:
        cloud: The cloud to use.
        folder: An empty folder for the project.
        queue: Keys to set on the queue `cpu`, in addition to its own.
        settings: Further keys of the stack.
    """
    google = Google(cloud)
    google.make_bucket(DATA)
    google.call("iam", "POST", "v1/projects/{project}/serviceAccounts", {"accountId": PERSON})
    google.call("pubsub", "PUT", f"v1/{topic_of(google)}", {})
    google.call("pubsub", "PUT", "v1/projects/{project}/subscriptions/oncall", {"topic": topic_of(google)})
    project = Project(folder, cloud.env, "demo-gcp")
    with project.config() as config:
        config["tidemill:monitoring"] = {"job_channels": {"oncall": topic_of(google)}}
        config["tidemill:access"]["advise"] = True
        config.update(settings or {})
    change(project, queue or {})
    outputs = project.outputs()
    login = folder / "login.json"
    email = f"{PERSON}@{google.project}.iam.gserviceaccount.com"
    login.write_text(json.dumps(cloud.control("credentials", email=email)))
    cloud.control("compute/settings", environment={"TIDEMILL_IDLE_SECONDS": str(IDLE_SECONDS)})
    person = {**cloud.env, "GOOGLE_APPLICATION_CREDENTIALS": str(login), "TIDEMILL_PIPELINE": outputs["pipeline_uri"]}
    return GcpTeam(google, Objects(google), project, person)


def topic_of(google: Google) -> str:
    """Return the topic of the stack's channel `oncall`, which a subscription of this name reads."""
    return f"projects/{google.project}/topics/oncall"


def change(project: Project, queue: Mapping[str, Any]) -> None:
    """Apply other keys to the queue `cpu`."""
    with project.config() as config:
        config["tidemill:queues"]["cpu"].update(queue)
    project.up().ok()
