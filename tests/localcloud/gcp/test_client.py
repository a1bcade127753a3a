"""The client against localcloud's GCP over HTTP, without a stack and without workers: about ten seconds.

This cannot prove that Google refuses and answers alike, or that workers run what is published (tests/e2e).
"""

import json
import os
import sys
import time
from collections import Counter

import google.auth
import google.auth.transport.requests
import pytest

from localcloud.cloud import GcpCloud
from localcloud.gcp import project, seed
from localcloud.gcp.compute.metadata import Metadata
from localcloud.gcp.wire import ServedApi, listen
from tidemill.cli import main
from tidemill.client import Pipeline
from tidemill.client.rounds import deliveries
from tidemill.clouds.gcp import session as gcp_session
from tidemill.clouds.gcp.session import DeniedError
from tidemill.descriptor import Descriptor, GcpQueue, Image, Machine, Queue, Rung
from tidemill.errors import CloudError, StoreDeniedError
from tidemill.ledger import Ledger
from tidemill.store import Store

URI = "gs://team-store/pipeline.json"
AGENT = f"serviceAccount:service-{project.NUMBER}@gcp-sa-pubsub.iam.gserviceaccount.com"
COMMAND = ["python3", "features.py", "{input}", "{output}"]


class Site:
    """A project with a bucket, a topic, its subscription and dead letters, made by its owner."""

    def __init__(self, cloud):
        self.cloud, self.project = cloud, cloud.project
        credentials, _ = google.auth.default(scopes=["https://www.googleapis.com/auth/cloud-platform"])
        self._session = google.auth.transport.requests.AuthorizedSession(credentials)
        self.topic = f"projects/{self.project}/topics/cpu"
        self.subscription = f"projects/{self.project}/subscriptions/cpu"
        self.bucket = f"projects/{self.project}/locations/us-central1/buckets/team"
        self._make()

    def call(self, method, path, body=None):
        answer = self._session.request(method, f"{self.cloud.url}/{path}", json=body, timeout=300)
        assert answer.ok, answer.text
        return answer.json() if answer.content else {}

    def _make(self):
        self.call("POST", f"storage/storage/v1/b?project={self.project}", {"name": "team-store", "location": "US"})
        dead = f"{self.topic}-dead"
        for topic in (self.topic, dead):
            self.call("PUT", f"pubsub/v1/{topic}", {})
        keep = {"messageRetentionDuration": "2678400s", "ackDeadlineSeconds": 600, "expirationPolicy": {}}
        self.call("PUT", f"pubsub/v1/{self.subscription}-dead", {"topic": dead, **keep})
        policy = {"deadLetterTopic": dead, "maxDeliveryAttempts": 5}
        self.call("PUT", f"pubsub/v1/{self.subscription}", {"topic": self.topic, "deadLetterPolicy": policy, **keep})
        for name, role in ((dead, "roles/pubsub.publisher"), (self.subscription, "roles/pubsub.subscriber")):
            binding = {"role": role, "members": [AGENT]}
            self.call("POST", f"pubsub/v1/{name}:setIamPolicy", {"policy": {"bindings": [binding]}})
        place, _, name = self.bucket.rpartition("/")
        self.call("POST", f"logging/v2/{place}?bucketId={name}", {"retentionDays": 14})
        self.store = Store.open("gs://team-store", user_login=True)
        self.store.put("pipeline.json", self.descriptor().model_dump_json().encode())

    def descriptor(self):
        names = {"topic": self.topic, "subscription": self.subscription, "dead_letters": f"{self.subscription}-dead"}
        queue = Queue(
            images={"default": Image(ref="docker.io/team/preprocess@sha256:0")},
            machines=[Machine(type="n2-standard-16", cpus=16, memory_mib=65536)],
            capacity=[Rung(market="spot", max_cpus=64)],
            scratch_gib=100,
            gcp=GcpQueue(**names),
        )
        return Descriptor(
            team="vision",
            environment="dev",
            cloud="gcp",
            region="us-central1",
            account=self.project,
            store="gs://team-store",
            log_group=self.bucket,
            queues={"cpu": queue},
        )

    def pull(self):
        """Acknowledge all waiting messages. Returns their ids and attributes."""
        body, held = {"maxMessages": 100, "returnImmediately": True}, {}
        while found := self.call("POST", f"pubsub/v1/{self.subscription}:pull", body).get("receivedMessages"):
            held |= {one["ackId"]: one["message"]["attributes"] for one in found}
        return held

    def settle(self, verb, ids, **more):
        if ids:
            self.call("POST", f"pubsub/v1/{self.subscription}:{verb}", {"ackIds": list(ids), **more})


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    before = dict(os.environ)
    with GcpCloud(tmp_path_factory.mktemp("gcp")) as cloud:
        os.environ.clear()
        os.environ.update(cloud.env, TIDEMILL_PIPELINE=URI, XDG_CONFIG_HOME=str(cloud.state))
        try:
            yield Site(cloud)
        finally:
            os.environ.clear()
            os.environ.update(before)


@pytest.fixture(autouse=True)
def _no_grace(monkeypatch):
    monkeypatch.setattr(deliveries, "SUBMIT_GRACE_SECONDS", -1)


@pytest.fixture
def pipeline(site):
    yield Pipeline.load(URI)
    site.settle("acknowledge", site.pull())


def test_the_objects_of_a_prefix_become_messages(site, pipeline):
    for name in ("a/1.jpg", "a/b/2.jpg", "a/readme.txt"):
        site.store.put(f"raw/{name}", b"x")
    job = pipeline.submit(COMMAND, "gs://team-store/raw/**.jpg", name="prefix", chunk_size=1)
    ledger = Ledger(site.store, job.id)
    assert [item.uri for item in job.results()] == []
    assert job.spec.user.endswith(f"@{site.project}.iam.gserviceaccount.com")
    held = site.pull()
    assert sorted(one["chunk"] for one in held.values()) == ["0", "1"]
    (labels,) = {tuple(sorted((k, v) for k, v in one.items() if k != "chunk")) for one in held.values()}
    assert dict(labels).keys() == {"job", "round", "job_sha256", "round_sha256"}
    assert ledger.spec(dict(labels)["job_sha256"]).job == job.id
    assert ledger.round(0, dict(labels)["round_sha256"]).chunks_total == 2
    site.settle("acknowledge", held)
    again = pipeline.submit(COMMAND, "gs://team-store/raw/**.jpg", name="prefix", chunk_size=1)
    assert (again.id, again.enqueued, site.pull()) == (job.id, 0, {})


def test_a_machines_login_needs_no_google_auth(site, pipeline, monkeypatch):
    """The sender runs in the worker's image, which does not have it."""
    owner = seed.DEPLOYER
    facts = {"instance": {"service-accounts": {"default": {"email": owner}}}}
    served = Metadata(lambda: facts, lambda: site.cloud.control("token", principal=f"serviceAccount:{owner}"))
    site.store.put("raw/1", b"x")
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS")
    monkeypatch.setenv("TIDEMILL_LOGIN", "machine")
    for module in ("google.auth", "google.auth.exceptions", "google.oauth2.credentials"):
        monkeypatch.setitem(sys.modules, module, None)
    with listen() as listening:
        api = ServedApi(listening, served.handle)
    try:
        monkeypatch.setenv("GCE_METADATA_HOST", f"127.0.0.1:{api.port}")
        job = Pipeline.load(URI).submit(COMMAND, ["gs://team-store/raw/1"], name="machine")
    finally:
        api.close()
    assert (job.spec.user, job.enqueued) == (owner, 1)
    [labels] = site.pull().values()
    assert labels["job"] == job.id
    monkeypatch.setenv("GCE_METADATA_HOST", "127.0.0.1:1")
    monkeypatch.setattr(gcp_session, "PAUSES", (0.0,))
    with pytest.raises(CloudError, match="the metadata server gives no token"):
        gcp_session.GoogleSession(site.project).find(site.topic, "pubsub.topics.get")


def put_items(site, count: int) -> list[str]:
    for n in range(count):
        site.store.put(f"raw/{n}", b"x")
    return [f"gs://team-store/raw/{n}" for n in range(count)]


@pytest.mark.parametrize("answer", ["500-after", "drop-after", "409", "412"])
def test_a_store_and_a_queue_that_lose_replies_cost_repeats_and_no_more(site, pipeline, answer):
    """Writes that succeed with another answer, and a publish that succeeds with 503."""
    name = f"hostile-{answer.replace('-', '')}"
    site.cloud.control("faults", match=f"PUT jobs/{name}-.*/(job|rounds/0).json", answer=answer, times=2)
    site.cloud.control("pubsub", fail_after={"publish": 1})
    items = put_items(site, 3)
    job = pipeline.submit(COMMAND, items, name=name, chunk_size=1)
    assert [fault["left"] for fault in site.cloud.control("faults")] == [0]
    site.cloud.control("faults", clear=True)
    site.cloud.control("pubsub", fail_after={})
    held = site.pull()
    # The one request was made twice, as its first answer was lost.
    assert Counter(one["chunk"] for one in held.values()) == {"0": 2, "1": 2, "2": 2}
    site.settle("acknowledge", held)
    assert pipeline.submit(COMMAND, items, name=name, chunk_size=1).enqueued == 0
    assert (job.status().state, job.status().remaining, len(Ledger(site.store, job.id).rounds())) == ("waiting", 3, 1)


def test_what_is_delivered_too_often_is_a_dead_letter_and_goes_back(site, pipeline, capsys):
    job = pipeline.submit(COMMAND, put_items(site, 2), name="dead", chunk_size=1)
    end = time.monotonic() + 300
    while (status := Pipeline.load(URI).job(job.id).status()).chunks.dead != [0, 1]:
        assert time.monotonic() < end, status
        site.settle("modifyAckDeadline", site.pull(), ackDeadlineSeconds=0)
    assert (status.state, status.chunks.lost) == ("lost", [0, 1])
    assert status.note == "it was delivered 5 times without a record, and is a dead letter now"
    assert main(["retry", job.id, "--dead", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["chunks"] == 2
    status = Pipeline.load(URI).job(job.id).status()
    assert (status.state, status.chunks.dead, status.chunks.waiting) == ("waiting", [], 2)
    assert {(one["round"], one["chunk"]) for one in site.pull().values()} == {("1", "0"), ("1", "1")}
    job.cancel("enough")
    assert job.status().state == "cancelled"


def test_doctor_looks_at_everything(site, pipeline, capsys):
    assert main(["doctor", "--json"]) == 3
    checks = {check["check"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    faults = [name for name, check in checks.items() if check["verdict"] == "fault"]
    # No reconciler runs here.
    assert faults == ["reconciler"]
    good = {name for name, check in checks.items() if check["verdict"] == "ok"}
    assert good >= {"login", "descriptor", "store", "queue cpu", "dead letters cpu", "logs", "fleet"}


def test_a_login_without_rights_is_told_whom_to_ask(site, pipeline, tmp_path, monkeypatch):
    login = tmp_path / "nobody.json"
    made = site.call("POST", f"iam/v1/projects/{site.project}/serviceAccounts", {"accountId": "nobody"})
    key = site.cloud.control("credentials", email=made["email"])
    login.write_text(json.dumps(key))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(login))
    with pytest.raises(StoreDeniedError, match="cannot be read"):
        Pipeline.load(URI)
    with pytest.raises(DeniedError, match=r"topics.get is denied .* Ask the stack's owner to name you in tidemill:acc"):
        Pipeline(pipeline.descriptor, pipeline.store).queues()
