"""The worker's tree on GCP, as the host's unit starts it: in a bare root, its store in Cloud Storage and its chunks in
Pub/Sub, both localcloud's. Who may what is not asked here, and TLS is not there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from obstore.store import GCSStore

from tests.localcloud.gcp.running import BASE, OWNER, RunningGcp
from tests.worker.containers import Team
from tests.worker.gce import Gce
from tests.worker_image.roots import Root
from tidemill.descriptor import WorkerExit
from tidemill.store import Store

pytestmark = pytest.mark.namespaces

TOPIC, SUBSCRIPTION = f"{BASE}/topics/cpu", f"{BASE}/subscriptions/cpu"


class Gcp(Team):
    """A team with a bucket and a subscription."""

    daemon: RunningGcp

    @property
    def store(self) -> Store:
        bucket = GCSStore(
            "bucket",
            base_url=f"{self.daemon.site.url}/storage",
            credential_provider=lambda: {"token": self.token(), "expires_at": None},
        )
        return Store(bucket, "gs://bucket")

    def token(self) -> str:
        return self.daemon.site.tokens.issue(OWNER)["access_token"]

    def call(self, api: str, method: str, path: str, body: dict) -> None:
        self.daemon.call(api, method, path, body)


@pytest.fixture
def gcp(tmp_path: Path) -> Iterator[Gcp]:
    # A held pull is bounded on the cloud's clock, which is fast here.
    with RunningGcp(tmp_path / "gcp", time_factor=20) as daemon:
        root = tmp_path / "data"
        (root / "scratch").mkdir(parents=True)
        team = Gcp(root)
        team.daemon = daemon
        team.call("storage", "POST", f"storage/v1/b?project={daemon.site.project}", {"name": "bucket"})
        team.call("pubsub", "PUT", f"v1/{TOPIC}", {})
        team.call("pubsub", "PUT", f"v1/{SUBSCRIPTION}", {"topic": TOPIC, "ackDeadlineSeconds": 600})
        yield team
        team.end()


def test_a_machine_works_on_chunks_and_leaves(gcp, built, program, tmp_path):
    items = [str(gcp.root / str(number)) for number in range(3)]
    for item in items:
        Path(item).write_text("an item")
    job = gcp.job(items, ["/program", "{input}", "{output}"], chunk_size=2, resources={"cpus": 0.5, "memory_mib": 64})
    messages = [
        {
            "attributes": {
                "job": job.spec.job,
                "round": "0",
                "chunk": str(chunk),
                "job_sha256": job.job_sha256,
                "round_sha256": job.round_sha256,
            }
        }
        for chunk in range(2)
    ]
    gcp.call("pubsub", "POST", f"v1/{TOPIC}:publish", {"messages": messages})
    (tmp_path / "root").mkdir()
    shutil.copy(program, tmp_path / "root" / "program")
    root = Root(tmp_path / "root", {str(gcp.root): gcp.root}, {"/tidemill": built.tree})
    with Gce(gcp, issue=gcp.token).running() as gce:
        environment = gce.environment(
            TIDEMILL_STORE="gs://bucket",
            TIDEMILL_SUBSCRIPTION=SUBSCRIPTION,
            GOOGLE_BASE_URL=f"{gcp.daemon.site.url}/storage",
            CLOUDSDK_API_ENDPOINT_OVERRIDES_PUBSUB=f"{gcp.daemon.site.url}/pubsub/",
        )
        done = root.run(["/tidemill/tidemill-worker", "start"], environment)
    assert done.returncode == WorkerExit.DONE, done.stdout + done.stderr
    assert [outcome.status for outcome in job.outcomes()] == ["succeeded"] * 3
    names = [(outcome.output or "").removeprefix("gs://bucket/") for outcome in job.outcomes()]
    assert [gcp.store.get(f"{name}copy") for name in names] == [b"an item"] * 3
    # Nothing is left that anybody would deliver again.
    assert "chunk committed" in done.stdout
    pulled = gcp.daemon.call("pubsub", "POST", f"v1/{SUBSCRIPTION}:pull", {"maxMessages": 1})
    assert not (pulled or {}).get("receivedMessages")
