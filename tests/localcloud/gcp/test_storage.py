"""localcloud's Cloud Storage, called by obstore as in the product, and over the JSON API."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import obstore
import pytest
from obstore.store import GCSStore

from localcloud.gcp import seed
from localcloud.gcp.storage.objects import Content, Objects
from localcloud.gcp.storage.plugin import Storage
from localcloud.gcp.wire import RestError
from tests.localcloud.gcp.running import OWNER, RunningGcp
from tests.unit.client_fakes import pipeline
from tidemill.client.housekeeping.job_folders import check_may_delete, folders_of, remove_folder
from tidemill.client.items.public_buckets import PublicBuckets
from tidemill.errors import StoreDeniedError, StoreError
from tidemill.layout import ChunkKey
from tidemill.ledger import attempts
from tidemill.ledger.attempts import MarkerWriter, read_history
from tidemill.store import Store
from tidemill.store.clients import unsigned_store

WORKER = "worker@localcloud-project.iam.gserviceaccount.com"
QUICK: Any = {"max_retries": 0}
PLACE = "storage/projects/_/buckets/bucket"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGcp]:
    with RunningGcp(tmp_path_factory.mktemp("gcp")) as gcp:
        gcp.call("storage", "POST", "storage/v1/b?project=localcloud-project", {"name": "bucket"})
        account = {"accountId": "worker", "serviceAccount": {}}
        gcp.call("iam", "POST", "v1/projects/localcloud-project/serviceAccounts", account)
        yield gcp


def storage_of(daemon: RunningGcp) -> Storage:
    return daemon.site.plugin(Storage)


def token(daemon: RunningGcp, principal: str = OWNER) -> str:
    return daemon.site.tokens.issue(principal)["access_token"]


def store(daemon: RunningGcp, principal: str = OWNER, prefix: str = "") -> GCSStore:
    bearer = token(daemon, principal)
    return GCSStore(
        "bucket",
        prefix=prefix or None,
        base_url=f"{daemon.site.url}/storage",
        credential_provider=lambda: {"token": bearer, "expires_at": None},
        retry_config=QUICK,
    )


def call(
    daemon: RunningGcp, method: str, path: str, body: bytes | None = None, kind: str = "text/plain"
) -> tuple[int, bytes]:
    headers = {"Authorization": f"Bearer {token(daemon)}", "Content-Type": kind}
    request = urllib.request.Request(f"{daemon.site.url}/storage/{path}", body, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_a_notification_tells_new_generations_below_its_prefix(daemon: RunningGcp) -> None:
    topic, subscription = (f"projects/localcloud-project/{kind}/told" for kind in ("topics", "subscriptions"))
    daemon.call("pubsub", "PUT", f"v1/{topic}", {})
    daemon.call("pubsub", "PUT", f"v1/{subscription}", {"topic": topic})
    config = {"topic": f"//pubsub.googleapis.com/{topic}", "payload_format": "NONE", "object_name_prefix": "told/"}
    place = "storage/v1/b/bucket/notificationConfigs"
    with pytest.raises(RestError, match="publish"):
        daemon.call("storage", "POST", place, config)
    agent = f"serviceAccount:{seed.agent('storage.googleapis.com')}"
    policy = {"bindings": [{"role": "roles/pubsub.publisher", "members": [agent]}]}
    daemon.call("pubsub", "POST", f"v1/{topic}:setIamPolicy", {"policy": policy})
    made = daemon.call("storage", "POST", place, config)
    obstore.put(store(daemon), "told/a b", b"1")
    obstore.put(store(daemon), "elsewhere", b"2")
    obstore.put(store(daemon), "told/large", bytes(6 << 20), use_multipart=True)
    pulled = daemon.call("pubsub", "POST", f"v1/{subscription}:pull", {"maxMessages": 10})["receivedMessages"]
    told = [each["message"]["attributes"] for each in pulled]
    assert [(each["eventType"], each["bucketId"], each["objectId"]) for each in told] == [
        ("OBJECT_FINALIZE", "bucket", "told/a b"),
        ("OBJECT_FINALIZE", "bucket", "told/large"),
    ]
    live = json.loads(call(daemon, "GET", f"storage/v1/b/bucket/o/{quote('told/a b', safe='')}")[1])
    assert told[0]["objectGeneration"] == live["generation"]
    assert call(daemon, "DELETE", f"{place}/{made['id']}")[0] in (200, 204)


def test_everybody_reads_a_public_bucket_with_and_without_a_login(
    daemon: RunningGcp, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.call("storage", "POST", "storage/v1/b?project=localcloud-project", {"name": "open-data"})
    daemon.call("storage", "POST", "storage/v1/b?project=localcloud-project", {"name": "their-own"})
    policy = {"bindings": [{"role": "roles/storage.objectViewer", "members": ["allUsers"]}]}
    daemon.call("storage", "PUT", "storage/v1/b/open-data/iam", policy)
    for bucket in ("open-data", "their-own"):
        storage_of(daemon).objects.put(bucket, "a/1", Content(b"1"))
    monkeypatch.setenv("GOOGLE_BASE_URL", f"{daemon.site.url}/storage")
    public = Store(unsigned_store("gs://open-data", None), "gs://open-data")
    assert (public.get("a/1"), [*public.list("a")]) == (b"1", ["a/1"])
    bearer = token(daemon, f"serviceAccount:{WORKER}")
    signed = GCSStore(
        "open-data",
        base_url=f"{daemon.site.url}/storage",
        credential_provider=lambda: {"token": bearer, "expires_at": None},
        retry_config=QUICK,
    )
    assert Store(signed, "gs://open-data").get("a/1") == b"1"
    closed = Store(unsigned_store("gs://their-own", None), "gs://their-own")
    for call in (lambda: public.put("a/2", b""), lambda: public.delete(["a/1"]), lambda: closed.get("a/1")):
        with pytest.raises(StoreDeniedError):
            call()
    target, _ = pipeline("gs://bucket", cloud="gcp", readable=[])
    asked = PublicBuckets(target.site)
    items = ("gs://open-data/a/1", "gs://their-own/a/1", "gs://bucket/a/1", "s3://open-data/a/1")
    assert [asked.reads(uri) for uri in items] == [True, False, False, False]
    assert asked.names == ["gs://open-data"]


def test_a_page_of_folders_goes_on_behind_its_last_folder(tmp_path: Path) -> None:
    objects = Objects(tmp_path / "objects", time.time)
    for name in ("a", "b/1", "b/2", "c/1", "d"):
        objects.put("bucket", name, Content(b""))
    pages, after = [], ""
    while True:
        page = objects.list("bucket", delimiter="/", after=after, limit=2)
        pages.append([*(stored.name for stored in page.objects), *page.prefixes])
        after = page.more
        if not after:
            break
    assert pages == [["a", "b/"], ["d", "c/"]]


def test_the_json_api_uploads_describes_lists_and_deletes(daemon: RunningGcp) -> None:
    name = quote("json/a b.json", safe="")
    status, body = call(daemon, "POST", f"upload/storage/v1/b/bucket/o?uploadType=media&name={name}", b"{}")
    described = json.loads(body)
    assert (status, described["name"], described["size"], described["contentType"]) == (
        200,
        "json/a b.json",
        "2",
        "text/plain",
    )
    again = f"upload/storage/v1/b/bucket/o?uploadType=media&name={name}&ifGenerationMatch=0"
    assert call(daemon, "POST", again, b"{}")[0] == 412
    assert call(daemon, "GET", f"storage/v1/b/bucket/o/{name}?alt=media") == (200, b"{}")
    assert json.loads(call(daemon, "GET", f"storage/v1/b/bucket/o/{name}")[1]) == described
    content = b"\x00line\nother\r\n--not the end\r\n"
    related = b'--edge\r\nContent-Type: application/json\r\n\r\n{"name": "json/two", "metadata": {"a": "1"}}\r\n'
    related += b"--edge\r\nContent-Type: application/zip\r\n\r\n" + content + b"\r\n--edge--"
    kind = 'multipart/related; boundary="edge"'
    status, body = call(daemon, "POST", "upload/storage/v1/b/bucket/o?uploadType=multipart", related, kind)
    assert (status, json.loads(body)["contentType"], json.loads(body)["metadata"]) == (
        200,
        "application/zip",
        {"a": "1"},
    )
    assert call(daemon, "GET", "storage/v1/b/bucket/o/json%2Ftwo?alt=media") == (200, content)
    names: list[str] = []
    more = ""
    while more is not None:
        page = json.loads(call(daemon, "GET", f"storage/v1/b/bucket/o?prefix=json/&maxResults=1&pageToken={more}")[1])
        names += [item["name"] for item in page["items"]]
        more = page.get("nextPageToken")
    assert names == ["json/a b.json", "json/two"]
    late = json.loads(call(daemon, "GET", "storage/v1/b/bucket/o?prefix=json/&startOffset=json/b")[1])
    assert [item["name"] for item in late["items"]] == ["json/two"]
    for unknown in ("b/bucket/o?endOffset=a", "b/bucket/o/json%2Ftwo?ifMetagenerationMatch=1"):
        assert call(daemon, "GET", f"storage/v1/{unknown}")[0] == 501, "what is not known is not passed over"
    assert call(daemon, "DELETE", "storage/v1/b/bucket")[0] == 409
    assert call(daemon, "DELETE", "storage/v1/b/bucket/o/json%2Ftwo?generation=1")[0] == 404
    assert call(daemon, "DELETE", "storage/v1/b/bucket/o/json%2Ftwo")[0] == 204
    assert call(daemon, "GET", "storage/v1/b/bucket/o/json%2Ftwo")[0] == 404
    assert call(daemon, "GET", "storage/v1/b/bucket")[0] == 200


def test_a_bucket_with_versions_keeps_what_is_replaced_or_deleted(daemon: RunningGcp) -> None:
    described = json.dumps({"name": "kept", "versioning": {"enabled": True}}).encode()
    assert call(daemon, "POST", "storage/v1/b?project=localcloud-project", described, "application/json")[0] == 200
    for body in (b"one", b"two"):
        call(daemon, "POST", "upload/storage/v1/b/kept/o?uploadType=media&name=a/b", body)
    assert call(daemon, "DELETE", "storage/v1/b/kept/o/a%2Fb")[0] == 204
    assert call(daemon, "GET", "storage/v1/b/kept/o/a%2Fb")[0] == 404
    assert "items" not in json.loads(call(daemon, "GET", "storage/v1/b/kept/o")[1])
    older = json.loads(call(daemon, "GET", "storage/v1/b/kept/o?versions=true&prefix=a/")[1])["items"]
    assert all("timeDeleted" in each for each in older)
    first = f"storage/v1/b/kept/o/a%2Fb?generation={older[0]['generation']}"
    assert call(daemon, "GET", f"{first}&alt=media") == (200, b"one")
    assert json.loads(call(daemon, "POST", "storage/v1/b/kept/o/a%2Fb/rewriteTo/b/kept/o/c")[1]).get("error")
    assert call(daemon, "DELETE", "storage/v1/b/kept")[0] == 409
    for each in older:
        assert call(daemon, "DELETE", f"storage/v1/b/kept/o/a%2Fb?generation={each['generation']}")[0] == 204
    assert call(daemon, "GET", first)[0] == 404
    assert call(daemon, "DELETE", "storage/v1/b/kept")[0] == 200


def test_an_object_is_copied_on_the_server(daemon: RunningGcp) -> None:
    call(daemon, "POST", "upload/storage/v1/b/bucket/o?uploadType=media&name=from/a", b"one")
    done = json.loads(call(daemon, "POST", "storage/v1/b/bucket/o/from%2Fa/rewriteTo/b/bucket/o/to%2Fb")[1])
    assert (done["done"], done["resource"]["name"]) == (True, "to/b")
    assert call(daemon, "GET", "storage/v1/b/bucket/o/to%2Fb?alt=media") == (200, b"one")


def test_a_grant_with_a_condition_holds_for_the_names_it_says(daemon: RunningGcp) -> None:
    begins = 'resource.name.startsWith("projects/_/buckets/bucket/objects/mine/")'
    role = "projects/localcloud-project/roles/writer"
    permissions = ["storage.objects.create", "storage.objects.get"]
    parent = "v1/projects/localcloud-project/roles"
    daemon.call("iam", "POST", parent, {"roleId": "writer", "role": {"includedPermissions": permissions}})
    member = f"serviceAccount:{WORKER}"
    binding = {"role": role, "members": [member], "condition": {"title": "mine", "expression": begins}}
    daemon.site.resources.set_policy(PLACE, {"version": 3, "bindings": [binding]})
    obstore.put(store(daemon), "other/x", b"1")
    worker = store(daemon, member)
    obstore.put(worker, "mine/x", b"1", mode="create")
    with pytest.raises(obstore.exceptions.AlreadyExistsError):
        obstore.put(worker, "mine/x", b"1", mode="create")
    for refused in (
        lambda: obstore.put(worker, "mine/x", b"2"),  # replacing means deleting
        lambda: obstore.put(worker, "other/y", b"2"),
        lambda: obstore.get(worker, "other/x"),
        lambda: obstore.get(worker, "mine/none"),  # may not list, so does not learn that it is missing
        lambda: obstore.delete(worker, "mine/x"),
        lambda: obstore.list(worker, prefix="mine").collect(),
    ):
        with pytest.raises(obstore.exceptions.BaseError, match="AccessDenied"):
            refused()
    assert bytes(obstore.get(worker, "mine/x").bytes()) == b"1"


def test_who_may_not_delete_an_outcome_removes_nothing_of_a_job(daemon: RunningGcp) -> None:
    """As a submitter may, the worker may delete in `jobs/`, which overwriting requires."""
    begins = 'resource.name.startsWith("projects/_/buckets/bucket/objects/jobs/")'
    permissions = [f"storage.objects.{verb}" for verb in ("create", "get", "delete")]
    parent = "v1/projects/localcloud-project/roles"
    daemon.call("iam", "POST", parent, {"roleId": "eraser", "role": {"includedPermissions": permissions}})
    member = f"serviceAccount:{WORKER}"
    role = "projects/localcloud-project/roles/eraser"
    binding = {"role": role, "members": [member], "condition": {"title": "jobs", "expression": begins}}
    daemon.site.resources.set_policy(PLACE, {"version": 3, "bindings": [binding]})
    job = "tiles-0123abcd"
    owner, worker = (Store(store(daemon, who), "gs://bucket") for who in (OWNER, member))
    for folder in folders_of(job):
        owner.put(f"{folder}/x", b"1")
    with pytest.raises(StoreDeniedError, match=f"{job} stays, because this login may not delete"):
        check_may_delete(worker, job)
    check_may_delete(owner, job)
    assert all(owner.exists(f"{folder}/x") for folder in folders_of(job))
    owner.delete([f"jobs/{job}/none", f"jobs/{job}/x", f"jobs/{job}/neither"])
    assert not owner.exists(f"jobs/{job}/x")
    remove_folder(owner, f"out/{job}")
    assert list(owner.list(f"out/{job}")) == []


def test_calls_fail_as_asked_with_or_without_having_written(daemon: RunningGcp) -> None:
    storage, gcs = storage_of(daemon), store(daemon, prefix="faults")
    fault = {"match": r"PUT faults/done/", "times": 1}
    written = {"409": False, "412": False, "429": False, "drop": False, "500-after": True, "drop-after": True}
    for answer, expected in written.items():
        storage.controls["faults"]({**fault, "answer": answer})
        with pytest.raises(obstore.exceptions.BaseError):
            obstore.put(gcs, f"done/{answer}", b"1", mode="create")
        there = [meta["path"] for meta in obstore.list(gcs, prefix="done").collect()]
        assert (f"done/{answer}" in there) == expected
        obstore.put(gcs, "elsewhere", b"1")
    assert [state["hits"] for state in storage.controls["faults"]({})] == [1] * len(written)
    assert storage.controls["faults"]({"clear": True}) == []
    with pytest.raises(ValueError, match="none of"):
        storage.controls["faults"]({**fault, "answer": "418"})


def test_a_name_takes_one_write_a_second(daemon: RunningGcp, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a short burst. Careful attempts keep that pace by using different names."""
    monkeypatch.setattr("tidemill.store.store._PAUSES", ())
    held = Store(store(daemon), "gs://bucket")
    marker = MarkerWriter(held, ChunkKey("j", 0, 0), "a1", delivery=1, backend={})

    def mark(times: int) -> None:
        for item in range(times):
            marker.write([item], alone=True)

    mark(30)
    past = read_history(held, [ChunkKey("j", 0, 0)])
    assert (past.attempts, dict(past.deaths)) == (1, {29: 1})
    monkeypatch.setattr(attempts, "REST_SECONDS", 0.0)
    with pytest.raises(StoreError, match="exceeded the rate limit"):
        mark(10)
