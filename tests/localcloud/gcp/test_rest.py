"""Google's APIs as the daemon serves them. It cannot prove what Google refuses beyond its discovery documents."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import google.auth.transport.requests
import pytest
from google.auth.exceptions import RefreshError
from google.oauth2 import service_account

from localcloud.cloud import CloudError, GcpCloud
from localcloud.gcp import discovery, permissions
from localcloud.gcp.discovery import Call
from tests.localcloud.waiting import until

pytestmark = pytest.mark.xdist_group("localcloud-gcp-rest")
REGION = "us-central1"


class Client:
    """One principal's HTTP."""

    def __init__(self, cloud: GcpCloud, principal: str) -> None:
        self._cloud = cloud
        self.token = cloud.control("token", principal=principal)["access_token"] if principal else ""

    def __call__(self, method: str, path: str, body: Any = None) -> Any:
        """The answer's JSON, or the `error` object of an error."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._cloud.url}/{path}", data, method=method)
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        try:
            with urllib.request.urlopen(request, timeout=300) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return json.loads(error.read())["error"]


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GcpCloud]:
    with GcpCloud(tmp_path_factory.mktemp("cloud")) as running:
        yield running


@pytest.fixture(scope="module")
def owner(cloud: GcpCloud) -> Client:
    return Client(cloud, f"serviceAccount:deployer@{cloud.project}.iam.gserviceaccount.com")


@pytest.fixture(scope="module")
def base(cloud: GcpCloud) -> str:
    return f"projects/{cloud.project}"


@pytest.mark.parametrize(
    ("call", "body", "code", "text"),
    [
        ("PUT pubsub/v1/{p}/topics/a1", {"lables": {}}, 400, 'Unknown name "lables"'),
        ("PUT pubsub/v1/{p}/topics/a2", {"labels": {"a": 3}}, 400, "labels.a"),
        ("PUT pubsub/v1/{p}/topics/a3?speed=1", {}, 400, 'Unknown name "speed"'),
        ("PUT pubsub/v1/{p}/topics/a4", {"messageRetentionDuration": "1 day"}, 400, "messageRetentionDuration"),
        ("PUT pubsub/v1/{p}/subscriptions/a5", {}, 400, "'topic' is missing"),
        ("POST pubsub/v1/{p}/topics/none:publish", {"messages": [{"text": "x"}]}, 400, "messages[0]"),
        ("GET pubsub/v1/{p}/topics/none", None, 404, "topics/none"),
        ("GET pubsub/v1/{p}/topcs/none", None, 404, "was not found"),
        ("POST compute/compute/v1/{p}/global/networks", {}, 400, "'name' is missing"),
        ("POST compute/compute/v1/{p}/global/networks", {"name": "Net"}, 400, "does not match"),
        ("POST compute/compute/v1/{p}/global/networks", {"name": "a", "mtu": "many"}, 400, "mtu"),
        (
            "POST compute/compute/v1/{p}/global/networks",
            {"name": "a", "routingConfig": {"routingMode": "WORLD"}},
            400,
            "routingConfig.routingMode",
        ),
        ("GET compute/compute/v1/{p}/zones?maxResults=many", None, 400, "maxResults"),
        ("POST storage/storage/v1/b", {"name": "a"}, 400, "project"),
        ("POST iam/v1/{p}/serviceAccounts", {"accountId": 5}, 400, "accountId"),
        ("POST compute/compute/v1/{p}/zones/us-central1-a/instances/i/setTags", {}, 501, "setTags"),
    ],
)
def test_refused(owner: Client, base: str, call: str, body: Any, code: int, text: str) -> None:  # noqa: PLR0917
    method, _, path = call.format(p=base).partition(" ")
    error = owner(method, path, body)
    assert error["code"] == code
    assert text in error["message"]
    assert error["status"] == {400: "INVALID_ARGUMENT", 404: "NOT_FOUND", 501: "UNIMPLEMENTED"}[code]


@pytest.mark.parametrize(
    ("calls", "answer"),
    [
        # Both names of a parameter are valid, and a null has no effect.
        (
            [
                (
                    "POST artifactregistry/v1/{l}/repositories?repository_id=b1",
                    {"format": "DOCKER", "description": None},
                ),
                ("GET artifactregistry/v1/{l}/repositories/b1", None),
            ],
            {"format": "DOCKER", "mode": "STANDARD_REPOSITORY", "description": ...},
        ),
        (
            [
                ("POST logging/v2/{l}/buckets:createAsync?bucketId=b2", {"retentionDays": 7, "description": None}),
                ("GET logging/v2/{l}/buckets/b2", None),
            ],
            {"retentionDays": 7, "description": ...},
        ),
        (
            [
                ("PUT pubsub/v1/{p}/topics/b4", {}),
                ("POST pubsub/v1/{p}/topics/b4:setIamPolicy", {"policy": {"bindings": None}}),
            ],
            {"bindings": []},
        ),
        (
            [
                ("PUT pubsub/v1/{p}/topics/b5", {}),
                ("PATCH pubsub/v1/{p}/topics/b5", {"topic": {"labels": {"a": "b"}}, "updateMask": "labels"}),
            ],
            {"labels": {"a": "b"}},
        ),
        (
            [("POST bigquery/bigquery/v2/{p}/datasets", {"datasetReference": {"datasetId": "b6"}})],
            {
                "access": [
                    {"role": "READER", "specialGroup": "projectReaders"},
                    {"role": "WRITER", "specialGroup": "projectWriters"},
                    {"role": "OWNER", "specialGroup": "projectOwners"},
                    {"role": "OWNER", "userByEmail": "deployer@localcloud-project.iam.gserviceaccount.com"},
                ]
            },
        ),
    ],
    ids=["repository", "log bucket", "no bindings", "topic", "dataset"],
)
def test_answered(owner: Client, base: str, calls: list[tuple[str, Any]], answer: dict[str, Any]) -> None:
    """The last call's answer has these values; `...` stands for a value that it must not have."""
    found: Any = None
    for call, body in calls:
        method, _, path = call.format(p=base, l=f"{base}/locations/{REGION}").partition(" ")
        found = owner(method, path, body)
    assert {key: found.get(key, ...) for key in answer} == answer


def test_a_resource_lives(owner: Client, base: str) -> None:
    at = f"compute/compute/v1/{base}/global/networks"
    operation = owner("POST", at, {"name": "life", "autoCreateSubnetworks": False, "selfLink": "ignored"})
    assert (operation["status"], operation["operationType"]) == ("DONE", "insert")
    again = owner("POST", at, {"name": "life"})
    assert (again["code"], again["status"]) == (409, "ALREADY_EXISTS")
    found = owner("GET", f"{at}/life")
    assert found["selfLink"] == f"https://www.googleapis.com/compute/v1/{base}/global/networks/life"
    assert found == owner("GET", f"compute/v1/{base}/global/networks/life"), "the service's path may be left out"
    assert owner("GET", f"compute/v1/{base}/global/operations/{operation['name']}") == operation
    owner("PATCH", f"{at}/life", {"routingConfig": {"routingMode": "GLOBAL"}})
    assert owner("GET", f"{at}/life")["routingConfig"] == {"routingMode": "GLOBAL"}
    assert "life" in [item["name"] for item in owner("GET", at)["items"]]
    assert owner("GET", f"{at}?filter=name%3Dlife")["items"][0]["name"] == "life"
    assert owner("DELETE", f"{at}/life")["operationType"] == "delete"
    assert owner("GET", f"{at}/life")["code"] == 404


def test_pages_and_every_zone(owner: Client, base: str) -> None:
    first = owner("GET", f"compute/v1/{base}/zones?maxResults=3")
    rest = owner("GET", f"compute/v1/{base}/zones?maxResults=500&pageToken={first['nextPageToken']}")
    names = [zone["name"] for zone in first["items"] + rest["items"]]
    assert len(first["items"]) == 3
    assert len(names) == len(set(names)) > 10
    assert "nextPageToken" not in rest


def test_an_update_mask_changes_and_removes(owner: Client, base: str) -> None:
    at = f"secretmanager/v1/{base}/secrets"
    given = {"replication": {"automatic": {}}, "labels": {"a": "b"}, "annotations": {"c": "d"}}
    owner("POST", f"{at}?secretId=masked", given)
    changed = owner("PATCH", f"{at}/masked?updateMask=labels,annotations", {"labels": {"x": "y"}})
    assert changed["labels"] == {"x": "y"}
    assert "annotations" not in changed
    assert changed["replication"] == {"automatic": {}}


def test_a_secrets_versions(owner: Client, cloud: GcpCloud, base: str) -> None:
    at = f"secretmanager/v1/{base}/secrets"
    owner("POST", f"{at}?secretId=key", {"replication": {"automatic": {}}})
    assert owner("GET", f"{at}/key/versions/latest:access")["code"] == 404
    for data in ("YQ==", "Yg=="):
        owner("POST", f"{at}/key:addVersion", {"payload": {"data": data}})
    assert owner("GET", f"{at}/key/versions/latest:access")["payload"]["data"] == "Yg=="
    assert owner("GET", f"{at}/key/versions/1:access")["payload"]["data"] == "YQ=="
    email = f"reader@{cloud.project}.iam.gserviceaccount.com"
    owner("POST", f"iam/v1/{base}/serviceAccounts", {"accountId": "reader"})
    reader = Client(cloud, f"serviceAccount:{email}")
    assert "secretmanager.versions.access" in reader("GET", f"{at}/key/versions/latest:access")["message"]
    binding = {"role": "roles/secretmanager.secretAccessor", "members": [f"serviceAccount:{email}"]}
    owner("POST", f"{at}/key:setIamPolicy", {"policy": {"bindings": [binding]}})
    assert reader("GET", f"{at}/key/versions/latest:access")["payload"]["data"] == "Yg=="
    assert reader("GET", f"{at}/key")["code"] == 403


def test_a_policys_etag_and_version(owner: Client, base: str) -> None:
    at = f"pubsub/v1/{base}/topics/governed"
    owner("PUT", at, {})
    old = owner("GET", f"{at}:getIamPolicy")
    binding = {"role": "roles/pubsub.viewer", "members": ["user:a@example.com"]}
    new = owner("POST", f"{at}:setIamPolicy", {"policy": {**old, "bindings": [binding]}})
    assert new["bindings"] == [binding]
    late = owner("POST", f"{at}:setIamPolicy", {"policy": {**old, "bindings": []}})
    assert (late["code"], late["status"]) == (409, "ABORTED")
    conditional = {**binding, "condition": {"title": "x", "expression": 'resource.name == "a"'}}
    without = owner("POST", f"{at}:setIamPolicy", {"policy": {"bindings": [conditional]}})
    assert "version 3" in without["message"]
    assert owner("POST", f"{at}:testIamPermissions", {"permissions": ["pubsub.topics.get"]}) == {
        "permissions": ["pubsub.topics.get"]
    }
    stranger = Client(owner._cloud, "user:b@example.com")
    assert stranger("POST", f"{at}:testIamPermissions", {"permissions": ["pubsub.topics.get"]}) == {}
    known = Client(owner._cloud, "user:a@example.com")
    assert known("GET", at)["name"] == f"{base}/topics/governed"
    assert known("DELETE", at)["code"] == 403


def test_what_is_used_stays(owner: Client, base: str) -> None:
    networks, subnets = f"compute/v1/{base}/global/networks", f"compute/v1/{base}/regions/{REGION}/subnetworks"
    owner("POST", networks, {"name": "used"})
    owner("POST", subnets, {"name": "user", "network": f"{base}/global/networks/used", "ipCidrRange": "10.0.0.0/16"})
    assert owner("DELETE", f"{networks}/used")["status"] == "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE"
    owner("DELETE", f"{subnets}/user")
    assert owner("DELETE", f"{networks}/used")["status"] == "DONE"


def test_a_custom_roles_name_is_not_free_again(owner: Client, base: str) -> None:
    at = f"iam/v1/{base}/roles"
    owner("POST", at, {"roleId": "once", "role": {"title": "t", "includedPermissions": ["pubsub.topics.get"]}})
    assert owner("DELETE", f"{at}/once")["deleted"] is True
    assert "deleted state" in owner("POST", at, {"roleId": "once", "role": {"title": "t"}})["message"]


def test_a_login_with_a_file(cloud: GcpCloud, owner: Client, base: str) -> None:
    owner("POST", f"iam/v1/{base}/serviceAccounts", {"accountId": "person"})
    email = f"person@{cloud.project}.iam.gserviceaccount.com"
    file = cloud.control("credentials", email=email)
    scopes = ["https://www.googleapis.com/auth/cloud-platform"]
    login = service_account.Credentials.from_service_account_info(file, scopes=scopes)
    session = google.auth.transport.requests.AuthorizedSession(login)
    answer = session.get(f"{cloud.url}/pubsub/v1/{base}/topics", timeout=300)
    assert answer.status_code == 403, "it is known, and may nothing"
    denied = cloud.control("denied")[-1]
    assert (denied["principal"], denied["permission"]) == (f"serviceAccount:{email}", "pubsub.topics.list")
    with pytest.raises(CloudError, match="there is no service account"):
        cloud.control("credentials", email="nobody@example.com")
    broken = service_account.Credentials.from_service_account_info({**file, "client_email": "x@y"}, scopes=scopes)
    with pytest.raises(RefreshError, match="account not found"):
        broken.refresh(google.auth.transport.requests.Request())


def test_who_makes_a_machine_must_be_let_act_as_its_account(owner: Client, cloud: GcpCloud, base: str) -> None:
    emails = {name: f"{name}@{cloud.project}.iam.gserviceaccount.com" for name in ("maker", "machine")}
    for name in emails:
        owner("POST", f"iam/v1/{base}/serviceAccounts", {"accountId": name})
    permitted = {"title": "t", "includedPermissions": ["compute.instanceTemplates.create"]}
    owner("POST", f"iam/v1/{base}/roles", {"roleId": "maker", "role": permitted})
    policy = owner("POST", f"cloudresourcemanager/v1/{base}:getIamPolicy", {})
    member = f"serviceAccount:{emails['maker']}"
    policy["bindings"].append({"role": f"{base}/roles/maker", "members": [member]})
    owner("POST", f"cloudresourcemanager/v1/{base}:setIamPolicy", {"policy": policy})
    maker = Client(cloud, member)
    properties = {"machineType": "n2-standard-2", "serviceAccounts": [{"email": emails["machine"]}]}
    at = f"compute/v1/{base}/global/instanceTemplates"
    assert "iam.serviceAccounts.actAs" in maker("POST", at, {"name": "t", "properties": properties})["message"]
    binding = {"role": "roles/iam.serviceAccountUser", "members": [member]}
    account = f"iam/v1/{base}/serviceAccounts/{emails['machine']}"
    owner("POST", f"{account}:setIamPolicy", {"policy": {"bindings": [binding]}})
    assert maker("POST", at, {"name": "t", "properties": properties})["status"] == "DONE"


def test_an_api_is_enabled_before_it_is_used(tmp_path: Path) -> None:
    with GcpCloud(tmp_path, apis="disabled") as fresh:
        owner = Client(fresh, f"serviceAccount:deployer@{fresh.project}.iam.gserviceaccount.com")
        topic = f"pubsub/v1/projects/{fresh.project}/topics/t"
        assert "is disabled" in owner("PUT", topic, {})["message"]
        service = f"serviceusage/v1/projects/{fresh.project}/services/pubsub.googleapis.com"
        assert owner("POST", f"{service}:enable", {})["done"] is True
        assert owner("PUT", topic, {})["name"].endswith("/topics/t")


def test_without_a_token_or_with_a_wrong_one(cloud: GcpCloud, base: str) -> None:
    nobody = Client(cloud, "")
    assert nobody("GET", f"pubsub/v1/{base}/topics")["code"] == 401
    nobody.token = "made-up"
    assert nobody("GET", f"pubsub/v1/{base}/topics")["status"] == "UNAUTHENTICATED"


def test_an_image_that_machines_can_pull(owner: Client, base: str) -> None:
    at = f"artifactregistry/v1/{base}/locations/{REGION}/repositories"
    image = f"images/dockerImages/tool@sha256:{'a' * 64}"
    assert owner("GET", f"{at}/{image}")["code"] == 404
    owner("POST", f"{at}?repositoryId=images", {"format": "DOCKER"})
    assert owner("GET", f"{at}/{image}")["uri"].startswith(f"{REGION}-docker.pkg.dev/")


def test_dates_are_the_clouds(tmp_path: Path) -> None:
    with GcpCloud(tmp_path, time_factor=1000) as fast:

        def ahead() -> bool:
            with urllib.request.urlopen(f"{fast.url}/_localcloud/health", timeout=300) as answer:
                return parsedate_to_datetime(answer.headers["Date"]).timestamp() > time.time() + 60

        until(ahead)


@pytest.mark.parametrize(
    ("method", "wanted"),
    [
        ("pubsub.projects.topics.publish", "pubsub.topics.publish"),
        ("pubsub.projects.subscriptions.pull", "pubsub.subscriptions.consume"),
        ("pubsub.projects.subscriptions.modifyAckDeadline", "pubsub.subscriptions.consume"),
        ("compute.regionInstanceGroupManagers.insert", "compute.instanceGroupManagers.create"),
        ("compute.regionInstanceGroupManagers.deleteInstances", "compute.instanceGroupManagers.update"),
        ("compute.regionInstanceGroupManagers.listManagedInstances", "compute.instanceGroupManagers.get"),
        ("compute.regionAutoscalers.patch", "compute.autoscalers.update"),
        ("cloudresourcemanager.projects.setIamPolicy", "resourcemanager.projects.setIamPolicy"),
        ("iam.projects.serviceAccounts.create", "iam.serviceAccounts.create"),
        ("monitoring.projects.timeSeries.list", "monitoring.timeSeries.list"),
        ("storage.buckets.insert", "storage.buckets.create"),
        ("secretmanager.projects.secrets.versions.access", "secretmanager.versions.access"),
        ("cloudscheduler.projects.locations.jobs.run", "cloudscheduler.jobs.run"),
        ("pubsub.projects.topics.testIamPermissions", ""),
    ],
)
def test_the_permission_of_a_method(method: str, wanted: str) -> None:
    known = discovery.method(method.partition(".")[0], method)
    assert permissions.permission(Call(known, "x")) == wanted
