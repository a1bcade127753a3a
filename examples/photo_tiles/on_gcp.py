"""The demo's GCP on this machine: the team's raw data, a login, a reclaim, the way back to zero machines, and what must
not be left.

The cloud's clock runs faster than the wall's, so that its minutes (a metric that is late, a reconciler that looks every
two) are seconds here; how long a worker stays idle is set for the same reason.
"""

from __future__ import annotations

import json
import time
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from google.auth.transport.requests import AuthorizedSession
from google.oauth2.service_account import Credentials

from examples.photo_tiles.shell import DemoError
from localcloud.cloud import GcpCloud

PHOTOS = "tidemill-demo-photos"
PERSON = "photographer"
TIME_FACTOR = 20
IDLE_SECONDS = 6
REST_SECONDS = 120
KINDS = {
    "buckets": "storage",
    "groups and templates": "compute",
    "topics and subscriptions": "pubsub",
    "repositories": "artifactregistry",
    "functions": "cloudfunctions",
    "schedules": "cloudscheduler",
    "sinks and log buckets": "logging",
    "accounts and roles": "iam",
}


class Gcp:
    """A project.

    Args:
        state: Folder of the cloud.
    """

    title, stack = "A GCP", "demo-gcp"
    photos = f"gs://{PHOTOS}"

    def __init__(self, state: Path) -> None:
        self.cloud = GcpCloud(state, time_factor=TIME_FACTOR)

    def prepare(self) -> None:
        """The person's account, the team's own bucket of raw data, and machines that do not stay as long."""
        self.cloud.control("compute/settings", environment={"TIDEMILL_IDLE_SECONDS": str(IDLE_SECONDS)})
        project = self.cloud.project
        self._call("POST", f"iam/v1/projects/{project}/serviceAccounts", json={"accountId": PERSON})
        self._first = self._names()
        # The bucket lists its readers: it is there before the stack.
        self._call("POST", "storage/storage/v1/b", params={"project": project}, json={"name": PHOTOS})

    def registry(self) -> str:
        """Where the images of the stack are pushed."""
        return f"{self.cloud.control('compute/registry')['address']}/{self.cloud.project}/demo-local"

    def upload(self, tiles: list[Path]) -> None:
        """Put the raw data into the bucket, which the stack may read."""
        for tile in tiles:
            place = f"storage/upload/storage/v1/b/{PHOTOS}/o"
            self._call("POST", place, params={"uploadType": "media", "name": tile.name}, data=tile.read_bytes())

    def submitter(self, outputs: dict[str, Any]) -> dict[str, str]:
        """The environment of a person with data, who may submit and read results, and nothing else."""
        email = f"{PERSON}@{self.cloud.project}.iam.gserviceaccount.com"
        if f"serviceAccount:{email}" not in outputs["submitters"]:
            raise DemoError(f"{email} is no submitter of the stack: {outputs['submitters']}")
        path = self.cloud.state / f"{PERSON}.json"
        path.touch(mode=0o600)
        path.write_text(json.dumps(self.cloud.control("credentials", email=email)))
        return self.cloud.env | {"GOOGLE_APPLICATION_CREDENTIALS": str(path)}

    def reclaim(self) -> str:
        """Take a machine away; returns its name."""
        return self.cloud.control("compute/preempt", instance=None)["instance"]

    def read(self, env: dict[str, str], uri: str) -> bytes:
        """An object, as somebody who may read it."""
        bucket, _, key = uri.removeprefix("gs://").partition("/")
        place = f"storage/storage/v1/b/{bucket}/o/{quote(key, safe='')}"
        return self._call("GET", place, params={"alt": "media"}, login=env["GOOGLE_APPLICATION_CREDENTIALS"]).content

    def rest(self, outputs: dict[str, Any]) -> str:
        """Wait until nothing runs that bills: workers leave, their machines power off, the reconciler removes them."""
        end = time.monotonic() + REST_SECONDS
        while any((found := self.cloud.control("compute/list"))["targets"].values()) or found["instances"]:
            if time.monotonic() > end:
                raise DemoError(f"machines are still there or wanted after {REST_SECONDS} s: {found}")
            time.sleep(0.5)
        return "The group is back at zero machines."

    def remove_photographs(self) -> None:
        """Delete the raw data."""
        place = f"storage/storage/v1/b/{PHOTOS}"
        for entry in self._call("GET", f"{place}/o", params={"maxResults": 5000}).json()["items"]:
            self._call("DELETE", f"{place}/o/{quote(entry['name'], safe='')}")
        self._call("DELETE", place)

    def left(self) -> dict[str, list[Any]]:
        """What is in the project beside what was there before, by kind."""
        more = self._names() - self._first
        return {kind: sorted(name for name in more if name.startswith(f"{api}/")) for kind, api in KINDS.items()}

    def _names(self) -> set[str]:
        found = {}
        for api in KINDS.values():
            found |= self.cloud.control("resources", prefix=f"{api}/")
        # A role or a log bucket that was deleted is kept for days in which it could be brought back.
        kept = {
            name for name, it in found.items() if it.get("deleted") or it.get("lifecycleState") == "DELETE_REQUESTED"
        }
        return {name for name in found if "/operations/" not in name} - kept

    def _call(self, method: str, path: str, login: str | None = None, **more: Any) -> Any:
        session = _logged_in(login or self.cloud.settings["GOOGLE_APPLICATION_CREDENTIALS"])
        answer = session.request(method, f"{self.cloud.url}/{path}", timeout=60, **more)
        if not answer.ok:
            raise DemoError(f"{method} {path}: {answer.status_code} {answer.text}")
        return answer


@cache
def _logged_in(login: str) -> AuthorizedSession:
    """A session of the user whom the file names; it keeps its token."""
    scopes = ["https://www.googleapis.com/auth/cloud-platform"]
    return AuthorizedSession(Credentials.from_service_account_file(login, scopes=scopes))
