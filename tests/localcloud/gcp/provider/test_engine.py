"""The GCP provider in the real engine. It cannot prove what Google accepts, only how the engine uses the provider."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator

import pytest

from localcloud.cloud import GcpCloud
from tests.harness import Project

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("localcloud-gcp-provider-engine")]

PROGRAM = """
import os

import pulumi
import pulumi_gcp as gcp

case = os.environ.get("CASE", "plain")
options = pulumi.ResourceOptions

if case == "plain":
    store = gcp.storage.Bucket("store", location="us-central1", force_destroy=True, labels={"own": "yes"})
    secret = pulumi.Output.secret("not to be read in a state")
    gcp.storage.BucketObject("object", bucket=store.name, name="a", content=secret)
    archive = pulumi.AssetArchive({"main.py": pulumi.StringAsset("print()")})
    gcp.storage.BucketObject("code", bucket=store.name, source=archive)
    account = gcp.serviceaccount.Account("worker", account_id="probe-worker")
    for number in range(3):
        gcp.storage.BucketIAMMember(
            f"grant{number}",
            bucket=store.name,
            role="roles/storage.objectViewer",
            member=account.member,
            condition={"title": f"{number}", "expression": f'resource.name.startsWith("{number}")'},
        )
    machine = gcp.compute.RegionInstanceTemplate(
        "machine",
        machine_type=os.environ.get("MACHINE", "n2-standard-4"),
        disks=[{"source_image": "projects/cos-cloud/global/images/family/cos-stable", "boot": True}],
        network_interfaces=[{"network": "global/networks/default"}],
    )
    router = gcp.compute.Router("way", network=gcp.compute.Network("net").id)
    gcp.compute.RouterNat(
        "out",
        router=router.name,
        region=router.region,
        nat_ip_allocate_option="AUTO_ONLY",
        source_subnetwork_ip_ranges_to_nat="ALL_SUBNETWORKS_ALL_IP_RANGES",
        opts=options(protect=True),
    )
    topic = gcp.pubsub.Topic("jobs")
    gcp.pubsub.Subscription("work", topic=topic.id, expiration_policy={"ttl": ""})
    pulumi.export("bucket", store.name)
    pulumi.export("topic", topic.id)
    pulumi.export("labels", store.effective_labels)
    pulumi.export("template", machine.self_link)
    pulumi.export("number", gcp.organizations.get_project().number)
elif case == "unknown":
    gcp.storage.Bucket("store", location="US", requester_pays=True)
elif case == "imports":
    gcp.pubsub.Topic("found", name="found", opts=options(import_=f"projects/{os.environ['P']}/topics/found"))
    gcp.storage.Bucket("found", name="found-bucket", location="US", opts=options(import_="found-bucket"))
"""


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GcpCloud]:
    with GcpCloud(tmp_path_factory.mktemp("cloud")) as running:
        yield running


@pytest.fixture(scope="module")
def empty(cloud: GcpCloud) -> set[str]:
    """The content of a project before a stack."""
    return standing(cloud)


def standing(cloud: GcpCloud) -> set[str]:
    """The full names of all resources, operations excluded."""
    return {name for name in cloud.control("resources") if "/operations/" not in name}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, cloud: GcpCloud, empty: set[str]) -> Project:
    source = tmp_path_factory.mktemp("source")
    (source / "Pulumi.yaml").write_text("name: probe\nruntime: python\n")
    (source / "__main__.py").write_text(PROGRAM)
    made = Project(tmp_path_factory.mktemp("project"), cloud.env, "plain", source)
    with made.config() as config:
        config |= {"gcp:project": cloud.project, "gcp:region": "us-central1", "gcp:defaultLabels": {"team": "vision"}}
    made.up().ok()
    return made


def call(cloud: GcpCloud, method: str, path: str, body: object = None) -> object:
    """A call of the project's owner."""
    token = cloud.control("token", principal=f"serviceAccount:deployer@{cloud.project}.iam.gserviceaccount.com")
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{cloud.url}/{path}", data, method=method)
    request.add_header("Authorization", f"Bearer {token['access_token']}")
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read() or b"null")


def test_secrets_labels_and_a_second_up(project: Project, cloud: GcpCloud) -> None:
    assert "not to be read in a state" not in json.dumps(project.export())
    outputs = project.outputs()
    assert outputs["labels"] == {"own": "yes", "team": "vision"}
    assert outputs["number"] == "123456789012"
    assert outputs["topic"].startswith(f"projects/{cloud.project}/topics/jobs-")
    policy = call(cloud, "GET", f"storage/storage/v1/b/{outputs['bucket']}/iam?optionsRequestedPolicyVersion=3")
    assert len(policy["bindings"]) == 3, "parallel grants of one role do not lose each other"  # type: ignore[index]
    assert project.up("--expect-no-changes").ok().plan == []


def test_what_changed_outside_is_seen_and_put_right(project: Project, cloud: GcpCloud) -> None:
    bucket = project.outputs()["bucket"]
    call(cloud, "PATCH", f"storage/storage/v1/b/{bucket}", {"labels": {"own": "no", "team": "vision"}})
    assert "~ 1 updated" in project.refresh().ok().text, "and nothing else differs from what was asked for"
    assert project.up().ok().plan == ["update Bucket store"]
    assert project.outputs()["labels"] == {"own": "yes", "team": "vision"}


def test_settings_of_the_provider_reach_what_took_them(project: Project) -> None:
    """A review would miss them otherwise: another region recreates everything regional."""
    with project.config() as config:
        config["gcp:defaultLabels"] = {"team": "speech"}
    steps = project.run("preview", events=True).ok().steps
    updated = {step.kind.rpartition(":")[2] for step in steps if step.op == "update"}
    assert {"Bucket", "Topic", "Subscription"} <= updated
    with project.config() as config:
        config |= {"gcp:defaultLabels": {"team": "vision"}, "gcp:region": "europe-west1"}
    said = project.run("preview", events=True).refused()
    assert any("RouterNat" in error and "protect" in error for error in said.errors), said.errors
    replaced = {step.kind.rpartition(":")[2]: step.replaces for step in said.steps if step.op == "replace"}
    assert replaced["Router"] == ("region",)
    assert "Topic" not in replaced, "it lies in no region"
    with project.config() as config:
        config["gcp:region"] = "us-central1"
    assert project.up("--expect-no-changes").ok().plan == []


def test_a_template_is_replaced(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(project.env, "MACHINE", "n2-standard-8")  # type: ignore[arg-type]
    steps = project.run("preview", events=True).ok().steps
    assert {step.op for step in steps} <= {"create-replacement", "replace", "delete-replaced"}
    assert ("machineType",) in {step.replaces for step in steps}


def test_what_a_type_does_not_take_stops_the_preview(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(project.env, "CASE", "unknown")  # type: ignore[arg-type]
    said = project.run("preview").refused().text
    assert "requesterPays" in said
    assert "no such property of gcp:storage/bucket:Bucket in localcloud" in said
    assert "Traceback" not in said


def test_import_and_destroy(
    project: Project, cloud: GcpCloud, empty: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    call(cloud, "PUT", f"pubsub/v1/projects/{cloud.project}/topics/found", {"labels": {"team": "vision"}})
    described = {"name": "found-bucket", "location": "US", "labels": {"team": "vision"}}
    call(cloud, "POST", f"storage/storage/v1/b?project={cloud.project}", described)
    monkeypatch.setitem(project.env, "CASE", "imports")  # type: ignore[arg-type]
    monkeypatch.setitem(project.env, "P", cloud.project)  # type: ignore[arg-type]
    assert "cannot be deleted" in project.up().refused().text, "it is protected"
    project.run("state", "unprotect", "--all", "--yes").ok()
    project.up().ok()
    assert {resource["type"].rpartition(":")[2] for resource in project.resources()} == {"Bucket", "Topic"}
    project.destroy().ok()
    assert standing(cloud) == empty
