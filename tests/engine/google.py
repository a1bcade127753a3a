"""Calls of Google's APIs on localcloud, as the owner of its project."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import pytest

from localcloud.cloud import GcpCloud
from tests.harness import Project

_TIMEOUT_SECONDS = 120
_SETTINGS = ("/cmekSettings", "/serviceAccount")
"""What a project has as soon as anyone asks for it."""


class Google:
    """A project of localcloud, queried as its owner and not through Pulumi's state."""

    def __init__(self, cloud: GcpCloud) -> None:
        self.cloud = cloud
        self.project = cloud.project

    def token(self) -> str:
        """An access token of the project's owner."""
        owner = json.loads((self.cloud.state / "credentials.json").read_text())["client_email"]
        return self.cloud.control("token", principal=f"serviceAccount:{owner}")["access_token"]

    def call(self, api: str, method: str, path: str, body: Any = None) -> Any:
        """Call a method; the path is the API's own, with ``{project}`` filled in.

        Raises:
            urllib.error.HTTPError: The call was refused.
        """
        request = urllib.request.Request(
            self.cloud.env[f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{api.upper()}"] + path.format(project=self.project),
            method=method,
            data=body if body is None or isinstance(body, bytes) else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.token()}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:
            content = answer.read()
        return json.loads(content) if content else None

    def make_bucket(self, name: str) -> None:
        """Make a bucket before any stack, as for a team's data."""
        uniform = {"uniformBucketLevelAccess": {"enabled": True}}
        body = {"name": name, "location": "US-CENTRAL1", "iamConfiguration": uniform}
        self.call("storage", "POST", "storage/v1/b?project={project}", body)

    def put_object(self, bucket: str, name: str, content: bytes) -> None:
        """Write an object, as a job's worker would."""
        place = f"upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(name, safe='')}"
        self.call("storage", "POST", place, content)

    def make_secret(self, name: str) -> None:
        """Make a secret before any stack."""
        body = {"replication": {"automatic": {}}}
        self.call("secretmanager", "POST", f"v1/projects/{{project}}/secrets?secretId={name}", body)

    def make_account(self, name: str) -> None:
        """Make a service account before any stack."""
        self.call("iam", "POST", "v1/projects/{project}/serviceAccounts", {"accountId": name})

    def names(self) -> set[str]:
        """Full names of everything in the project, without entries that Google keeps for a while under `deleted`."""
        held = self.cloud.control("resources", prefix="")
        return {name for name, content in held.items() if not name.endswith(_SETTINGS) and not _is_past(name, content)}


def _is_past(name: str, content: Any) -> bool:
    return "/operations/" in name or (isinstance(content, dict) and content.get("deleted") is True)


@contextmanager
def purgeable_demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A copy of demo-gcp that may be purged, on a localcloud of its own with what the stack names."""
    with GcpCloud(tmp_path_factory.mktemp("localcloud")) as running:
        google = Google(running)
        google.make_account("photographer")
        google.make_bucket("tidemill-demo-photos")
        project = Project(tmp_path_factory.mktemp("demo-gcp"), running.env, "demo-gcp")
        with project.config() as config:
            config["gcp:project"] = google.project
            config["tidemill:allow"] = ["purge"]
        yield project
