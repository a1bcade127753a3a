"""Reads of a bucket by the public, by other accounts and by our own client. localcloud answers: whether S3 decides so
is a row of docs/cloud-facts.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError

from localcloud.cloud import REGION
from tests.localcloud.aws.test_gateway import Gateway, allow, document
from tests.unit.client_fakes import pipeline
from tidemill.errors import CallerError, StoreDeniedError
from tidemill.store import Store, Stores

OPEN = dict.fromkeys(["BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets"], False)


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with Gateway(tmp_path_factory.mktemp("state")) as running:
        yield running


def made(cloud: Gateway, name: str, *policy: dict[str, Any], blocked: dict[str, bool] | None = None) -> str:
    """A bucket with two objects."""
    s3 = cloud.client("s3")
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
    for key in ("a/1", "b/1"):
        s3.put_object(Bucket=name, Key=key, Body=key.encode())
    s3.put_public_access_block(Bucket=name, PublicAccessBlockConfiguration=OPEN | (blocked or {}))
    if policy:
        s3.put_bucket_policy(Bucket=name, Policy=document(*policy))
    return name


def everybody(actions: Any, resources: Any) -> dict[str, Any]:
    return {**allow(actions, resources), "Principal": "*"}


def reading(name: str) -> dict[str, Any]:
    return everybody(["s3:GetObject", "s3:ListBucket"], [f"arn:aws:s3:::{name}", f"arn:aws:s3:::{name}/*"])


def unsigned(cloud: Gateway) -> Any:
    config = Config(signature_version=UNSIGNED, retries={"max_attempts": 0})
    return boto3.client("s3", region_name=REGION, endpoint_url=cloud.url, config=config)


def is_answered(call: Callable[[], Any]) -> bool:
    """False for what is denied; any other error is raised."""
    try:
        call()
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] != 403:
            raise
        return False
    return True


def answers(client: Any, bucket: str) -> list[str]:
    """Which of these calls are answered."""
    calls = {
        "get a": lambda: client.get_object(Bucket=bucket, Key="a/1"),
        "head a": lambda: client.head_object(Bucket=bucket, Key="a/1"),
        "get b": lambda: client.get_object(Bucket=bucket, Key="b/1"),
        "list": lambda: client.list_objects_v2(Bucket=bucket),
        "put": lambda: client.put_object(Bucket=bucket, Key="a/2", Body=b""),
        "delete": lambda: client.delete_object(Bucket=bucket, Key="b/1"),
        "policy": lambda: client.get_bucket_policy(Bucket=bucket),
        "buckets": client.list_buckets,
    }
    return [name for name, call in calls.items() if is_answered(call)]


def test_without_a_signature_a_bucket_gives_what_its_policy_gives_everybody(cloud: Gateway):
    public = unsigned(cloud)
    one = made(cloud, "one-folder", everybody("s3:GetObject", "arn:aws:s3:::one-folder/a/*"))
    assert answers(public, one) == ["get a", "head a"]
    assert answers(public, made(cloud, "all-of-it", reading("all-of-it"))) == ["get a", "head a", "get b", "list"]
    assert answers(public, made(cloud, "closed")) == []
    blocked = made(cloud, "blocked", reading("blocked"), blocked={"RestrictPublicBuckets": True})
    assert answers(public, blocked) == []
    ours = {**allow("s3:*", ["arn:aws:s3:::ours", "arn:aws:s3:::ours/*"]), "Principal": {"AWS": "123456789012"}}
    assert answers(public, made(cloud, "ours", ours)) == []
    spared = {**reading("spared"), "Effect": "Deny", "NotPrincipal": {"AWS": "123456789012"}}
    del spared["Principal"]
    assert answers(public, made(cloud, "spared", reading("spared"), spared)) == []


def test_an_acl_opens_an_object_unless_the_bucket_has_none(cloud: Gateway):
    public, s3, name = unsigned(cloud), cloud.client("s3"), made(cloud, "with-acls")
    s3.put_object_acl(Bucket=name, Key="a/1", ACL="public-read")
    assert answers(public, name) == []
    rules: Any = {"Rules": [{"ObjectOwnership": "ObjectWriter"}]}
    s3.put_bucket_ownership_controls(Bucket=name, OwnershipControls=rules)
    assert answers(public, name) == ["get a", "head a"]
    s3.put_bucket_acl(Bucket=name, ACL="public-read")
    assert answers(public, name) == ["get a", "head a", "list"]
    s3.put_public_access_block(Bucket=name, PublicAccessBlockConfiguration=OPEN | {"IgnorePublicAcls": True})
    assert answers(public, name) == []


# ---- our client -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def role(cloud: Gateway) -> dict[str, Any]:
    """The key of a role that may use its store, and read a folder of another account."""
    mine = [f"arn:aws:s3:::team{tail}" for tail in ("", "/*")]
    made(cloud, "team", reading("team"))
    for name in ("granted", "open-data"):
        made(cloud, name, reading(name))
    made(cloud, "their-own")
    for name in ("granted", "open-data", "their-own"):
        cloud.control("foreign", bucket=name)
    return cloud.session(cloud.role("reader", allow("s3:*", mine), allow("s3:GetObject", "arn:aws:s3:::granted/a/*")))


@pytest.fixture
def login(cloud: Gateway, role: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**role, "aws_endpoint_url": cloud.url, "aws_region": REGION}.items():
        monkeypatch.setenv(name.upper(), value)


def asked(cloud: Gateway, who: str) -> int:
    return sum(each["count"] for each in cloud.control("calls") if each["principal"] == who)


def test_another_accounts_public_bucket_needs_a_grant_of_ones_own(cloud: Gateway, role: dict[str, Any]):
    s3 = cloud.client("s3", **role)
    assert answers(s3, "open-data") == []
    assert answers(s3, "granted") == ["get a", "head a"]
    assert answers(unsigned(cloud), "open-data") == ["get a", "head a", "get b", "list"]
    assert answers(unsigned(cloud), "their-own") == []


@pytest.mark.usefixtures("login")
def test_a_bucket_is_read_as_the_public_sees_it_after_one_refusal(cloud: Gateway, tmp_path: Path):
    stores = Stores(Store.open("s3://team"), REGION)
    stores.public = {"s3://open-data", "s3://their-own"}
    store, name = stores.locate("s3://open-data/a/1")
    assert store.get(name) == b"a/1"
    signed = asked(cloud, "reader")
    assert store.download("b/1", tmp_path / "copy") == 3
    assert (store.get_range("b/1", 0, 1), store.size("b/1"), store.size("b/2")) == (b"b", 3, None)
    assert [*store.list("a")] == ["a/1"]
    assert b"".join(store.stream("a/1", 1)) == b"/1"
    assert (store.folders(""), [each.name for each in store.page("b")]) == (["a", "b"], ["b/1"])
    assert asked(cloud, "reader") == signed
    for uri in ("s3://their-own/a/1", "s3://granted/b/1"):
        store, name = stores.locate(uri)
        with pytest.raises(StoreDeniedError, match="assumed-role/reader"):
            store.get(name)


@pytest.mark.usefixtures("login")
def test_what_is_written_is_signed_and_the_job_store_is_never_public(cloud: Gateway):
    stores = Stores(Store.open("s3://team/below"), REGION)
    stores.public = {"s3://open-data", "s3://team"}
    store, _ = stores.locate("s3://open-data/a/1")
    assert store.get("a/1") == b"a/1"
    public = asked(cloud, "anonymous")
    for write in (lambda: store.put("a/2", b""), lambda: store.delete(["a/1"])):
        with pytest.raises(StoreDeniedError, match="assumed-role/reader"):
            write()
    assert type(stores.locate("s3://team/jobs/x")[0]) is Store
    assert asked(cloud, "anonymous") == public
    covered = Stores(Store.open("s3://team"), REGION, granted=("s3://granted/a/",))
    assert type(covered.locate("s3://granted/a/1")[0]) is Store
    assert covered.locate("s3://granted/b/1")[0].get("b/1") == b"b/1"


@pytest.mark.usefixtures("login")
def test_a_submit_tells_of_a_public_bucket_and_refuses_others(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tidemill.client.sending.check.image_problems", lambda *_: [])
    target, backend = pipeline("s3://team", readable=["s3://granted/a/"], max_spec=8, region=REGION)
    said: list[str] = []
    command = ["wc", "{input}", "{output}"]
    job = target.submit(command, "s3://open-data/**", queue="cpu", name="public", log=said.append)
    assert [line for line in said if "public" in line] == [
        "s3://open-data is not in tidemill:data.read: the job reads it as the public sees it."
    ]
    assert (job.spec.public, job.spec.spec_version, job.spec.items_total) == (["s3://open-data"], 8, 2)
    again = target.submit(command, ["s3://open-data/a/1", "s3://open-data/b/1"], queue="cpu", name="public")
    assert again.id == job.id
    plain = target.submit(command, ["s3://granted/a/1"], queue="cpu", name="plain")
    assert (plain.spec.public, plain.spec.spec_version) == ([], 1)
    enqueued = len(backend.arrays)
    for bucket in ("their-own", "no-such-bucket", "team"):
        with pytest.raises(CallerError, match="may not read: the stack grants"):
            target.submit(command, [f"s3://{bucket}/a/1"], queue="cpu")
    older, _ = pipeline("s3://team", readable=[], max_spec=7, region=REGION)
    with pytest.raises(CallerError, match="leave items of public buckets out"):
        older.submit(command, ["s3://open-data/a/1"], queue="cpu")
    assert len(backend.arrays) == enqueued
