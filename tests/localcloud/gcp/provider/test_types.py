"""Every GCP type's life against localcloud's daemon. It cannot prove what Google answers, only that it fits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from localcloud.cloud import GcpCloud
from localcloud.gcp.provider import invokes
from localcloud.gcp.provider.calls import Calls, GoogleError
from localcloud.gcp.provider.kind import GCP
from localcloud.gcp.provider.resources import GcpResource
from localcloud.provider import plan

pytestmark = pytest.mark.xdist_group("localcloud-gcp-provider")
REGION = "us-central1"
BILLING_ACCOUNT = "012345-6789AB-CDEF01"
ERRORS, WARNINGS = "severity >= ERROR", "severity >= WARNING"
OWNER = "deployer@localcloud-project.iam.gserviceaccount.com"
IMAGE = "projects/cos-cloud/global/images/family/cos-stable"


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Calls]:
    """Calls as the provider makes them, with the environment of a running localcloud."""
    with pytest.MonkeyPatch.context() as patch, GcpCloud(tmp_path_factory.mktemp("cloud")) as cloud:
        for key, value in cloud.settings.items():
            if key.startswith(("GOOGLE_", "CLOUDSDK_")):
                patch.setenv(key, value)
        yield Calls(cloud.project, REGION)


class Life:
    """One resource, as the engine would lead it."""

    def __init__(self, calls: Calls, token: str, called: str, /, **inputs: Any) -> None:
        self.row = GCP.row(token)
        self.resource = GcpResource(self.row, calls, inputs.get("region"))
        self.inputs = self.checked(called, inputs, {})
        self.id, self.outputs = self.resource.create(self.inputs, 30)

    def checked(self, called: str, inputs: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
        found = plan.check(self.row, called, old, inputs, b"seed")
        if self.row.labels:
            found["effectiveLabels"] = {"by": "test", **(found.get("labels") or {})}
        return found

    def refreshed(self) -> dict[str, Any]:
        """The inputs after a refresh."""
        found = self.resource.read(self.id, self.outputs, self.inputs, {"by": "test"})
        assert found is not None
        return found[1]

    def changes(self, **inputs: Any) -> dict[str, Any]:
        """The outputs after an update to these inputs."""
        new = self.checked(
            "x", {**{k: v for k, v in self.inputs.items() if k != "effectiveLabels"}, **inputs}, self.inputs
        )
        new = {key: value for key, value in new.items() if value is not None}
        assert not [path for path, (_, replaces) in plan.diff(self.row, self.inputs, new).items() if replaces]
        self.outputs = self.resource.update(self.id, self.inputs, self.outputs, new, 30)
        self.inputs = new
        return self.outputs

    def ends(self) -> None:
        """Delete it, twice, and see that it is gone."""
        self.resource.delete(self.id, self.outputs, 30)
        assert self.resource.read(self.id, self.outputs, self.inputs, {}) is None
        self.resource.delete(self.id, self.outputs, 30)


# tests/engine creates, refreshes and deletes the other types.
CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (
        "gcp:cloudrunv2/service:Service",
        {
            "location": REGION,
            "ingress": "INGRESS_TRAFFIC_INTERNAL_ONLY",
            "template": {
                "serviceAccount": OWNER,
                "timeout": "60s",
                "scaling": {"maxInstanceCount": 1},
                "containers": [
                    {
                        "image": "docker.io/library/python",
                        "commands": ["/tidemill/tidemill-worker"],
                        "args": ["sender"],
                        "envs": [{"name": "A", "value": "b"}],
                        "resources": {"limits": {"memory": "512Mi"}},
                    }
                ],
            },
            "deletionProtection": False,
            "labels": {"a": "b"},
        },
        {"ingress": "INGRESS_TRAFFIC_ALL"},
    ),
    ("gcp:pubsub/topic:Topic", {"labels": {"a": "b"}}, {"labels": {"a": "c"}, "messageRetentionDuration": "86400s"}),
    (
        "gcp:filestore/instance:Instance",
        {
            "location": f"{REGION}-a",
            "tier": "BASIC_HDD",
            "protocol": "NFS_V3",
            "fileShares": {
                "name": "files",
                "capacityGb": 1024,
                "nfsExportOptions": [{"ipRanges": ["10.0.0.0/16"], "squashMode": "NO_ROOT_SQUASH"}],
            },
            "networks": [{"network": "default", "modes": ["MODE_IPV4"], "connectMode": "DIRECT_PEERING"}],
            "deletionProtectionEnabled": True,
            "labels": {"a": "b"},
        },
        {
            "fileShares": {
                "name": "files",
                "capacityGb": 2048,
                "nfsExportOptions": [{"ipRanges": ["10.0.0.0/16"], "squashMode": "NO_ROOT_SQUASH"}],
            },
            "deletionProtectionEnabled": False,
        },
    ),
    (
        "gcp:storage/bucket:Bucket",
        {
            "location": REGION,
            "uniformBucketLevelAccess": True,
            "publicAccessPrevention": "enforced",
            "softDeletePolicy": {"retentionDurationSeconds": 604800},
            "lifecycleRules": [{"action": {"type": "Delete"}, "condition": {"age": 9, "withState": "LIVE"}}],
            "labels": {"a": "b"},
        },
        {"lifecycleRules": None, "versioning": {"enabled": True}},
    ),
    (
        "gcp:logging/projectSink:ProjectSink",
        {
            "destination": "storage.googleapis.com/b",
            "filter": ERRORS,
            "exclusions": [{"name": "noise", "filter": WARNINGS}],
        },
        {"filter": WARNINGS},
    ),
    (
        "gcp:logging/savedQuery:SavedQuery",
        {
            "parent": "projects/localcloud-project",
            "location": "global",
            "displayName": "v: failed items",
            "visibility": "SHARED",
            "loggingQuery": {"filter": ERRORS},
        },
        {"loggingQuery": {"filter": WARNINGS}},
    ),
    (
        "gcp:logging/metric:Metric",
        {
            "filter": ERRORS,
            "valueExtractor": "EXTRACT(jsonPayload.items)",
            "labelExtractors": {"queue": "EXTRACT(jsonPayload.queue)"},
            "metricDescriptor": {
                "metricKind": "DELTA",
                "valueType": "DISTRIBUTION",
                "labels": [{"key": "queue", "valueType": "STRING"}],
            },
            "bucketOptions": {"exponentialBuckets": {"numFiniteBuckets": 64, "growthFactor": 2, "scale": 0.01}},
        },
        {"filter": WARNINGS},
    ),
    (
        "gcp:monitoring/alertPolicy:AlertPolicy",
        {
            "displayName": "a",
            "combiner": "OR",
            "conditions": [{"displayName": "b", "conditionMatchedLog": {"filter": ERRORS}}],
            "alertStrategy": {"notificationRateLimit": {"period": "1800s"}},
            "documentation": {"content": "c", "mimeType": "text/markdown"},
            "userLabels": {"a": "b"},
        },
        {"displayName": "d"},
    ),
    (
        "gcp:monitoring/dashboard:Dashboard",
        {"dashboardJson": '{"displayName": "a", "mosaicLayout": {"columns": 48, "tiles": []}}'},
        {"dashboardJson": '{"displayName": "b", "mosaicLayout": {"columns": 48, "tiles": []}}'},
    ),
    (
        "gcp:billing/budget:Budget",
        {
            "billingAccount": BILLING_ACCOUNT,
            "amount": {"specifiedAmount": {"currencyCode": "USD", "units": "2000"}},
            "budgetFilter": {"projects": ["projects/123456789012"], "calendarPeriod": "MONTH"},
            "thresholdRules": [{"thresholdPercent": 0.5, "spendBasis": "CURRENT_SPEND"}],
            "allUpdatesRule": {"disableDefaultIamRecipients": True},
        },
        {"amount": {"specifiedAmount": {"currencyCode": "USD", "units": "3000"}}},
    ),
    (
        "gcp:cloudscheduler/job:Job",
        {"region": REGION, "schedule": "*/2 * * * *", "httpTarget": {"uri": "http://x/", "httpMethod": "POST"}},
        {"schedule": "* * * * *"},
    ),
    (
        "gcp:secretmanager/secret:Secret",
        {"secretId": "other", "replication": {"auto": {}}, "annotations": {"Team": "A"}},
        {"annotations": {"Team": "B"}},
    ),
    ("gcp:secretmanager/secret:Secret", {"secretId": "token", "replication": {"auto": {}}}, {"labels": {"a": "b"}}),
]


@pytest.mark.parametrize(("token", "inputs", "changed"), CASES, ids=[case[0].rpartition(":")[2] for case in CASES])
def test_a_life(calls: Calls, token: str, inputs: dict[str, Any], changed: dict[str, Any]) -> None:
    life = Life(calls, token, "main", **inputs)
    assert plan.diff(life.row, life.inputs, life.refreshed()) == {}
    imported = life.resource.read(life.id, {}, {}, {"by": "test"})
    assert imported is not None
    assert all(imported[1][key] for key in life.row.required if key not in ("replication", "project"))
    if changed:
        outputs = life.changes(**changed)
        assert {key: outputs.get(key) for key in changed} == changed
        assert plan.diff(life.row, life.inputs, life.refreshed()) == {}
    life.ends()


def test_a_condition_on_a_metric_that_monitoring_does_not_know_yet_is_refused(calls: Calls) -> None:
    metric = Life(calls, "gcp:logging/metric:Metric", "runs", filter=ERRORS)
    name = f"logging.googleapis.com/user/{metric.outputs['name']}"
    absent = {"filter": f'metric.type = "{name}" AND resource.type = "global"', "duration": "900s"}
    query = {"query": "absent_over_time(up[15m])", "disableMetricValidation": True}
    token, given = "gcp:monitoring/alertPolicy:AlertPolicy", {"displayName": "a", "combiner": "OR"}
    with pytest.raises(GoogleError, match="Cannot find metric"):
        Life(calls, token, "a", **given, conditions=[{"displayName": "b", "conditionAbsent": absent}])
    asked = {"displayName": "b", "conditionPrometheusQueryLanguage": query}
    Life(calls, token, "a", **given, conditions=[asked]).ends()
    metric.ends()


def test_a_distribution_needs_buckets(calls: Calls) -> None:
    descriptor = {"metricKind": "DELTA", "valueType": "DISTRIBUTION"}
    with pytest.raises(GoogleError, match="bucketOptions"):
        Life(calls, "gcp:logging/metric:Metric", "d", filter=ERRORS, metricDescriptor=descriptor)


def test_a_position_of_zero_is_a_change_of_a_dashboard_after_each_refresh(calls: Calls) -> None:
    def differs(**position: int) -> bool:
        layout = {"columns": 48, "tiles": [{**position, "width": 48, "height": 4, "widget": {"title": "a"}}]}
        body = json.dumps({"displayName": "a", "mosaicLayout": layout})
        board = Life(calls, "gcp:monitoring/dashboard:Dashboard", "d", dashboardJson=body)
        found = plan.diff(board.row, board.inputs, board.refreshed())
        board.ends()
        return bool(found)

    assert differs(xPos=0)
    assert not differs(xPos=16)
    assert not differs()


def test_a_template_names_its_reservation_as_compute_does(calls: Calls) -> None:
    template = Life(
        calls,
        "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate",
        "reserved",
        region=REGION,
        machineType="n2-standard-16",
        disks=[{"sourceImage": IMAGE, "boot": True}],
        reservationAffinity={"type": "SPECIFIC_RESERVATION", "specificReservation": {"key": "k", "values": ["a100"]}},
    )
    held = calls.request("compute", "GET", f"compute/v1/{template.id}")["properties"]["reservationAffinity"]
    assert held == {"consumeReservationType": "SPECIFIC_RESERVATION", "key": "k", "values": ["a100"]}
    template.ends()


def test_a_job_that_someone_paused_is_drift(calls: Calls) -> None:
    target = {"uri": "http://x/", "httpMethod": "POST"}
    token, given = "gcp:cloudscheduler/job:Job", {"region": REGION, "schedule": "*/2 * * * *", "httpTarget": target}
    job = Life(calls, token, "paused", **given, paused=False)
    calls.request("cloudscheduler", "POST", f"v1/{job.id}:pause", None, {})
    found = job.refreshed()
    assert plan.diff(job.row, found, job.inputs) == {"paused": ("update", False)}
    job.resource.update(job.id, found, job.outputs, job.inputs, 30)
    assert job.refreshed() == job.inputs
    job.ends()


RULE = {"action": {"type": "Delete"}, "condition": {"age": 9, "withState": "LIVE", "matchesPrefixes": ["jobs/"]}}


@pytest.mark.parametrize(
    ("patch", "found"),
    [
        (
            {"lifecycle": {"rule": [{"action": {"type": "Delete"}, "condition": {"age": 1, "isLive": False}}]}},
            {"lifecycleRules": [{"action": {"type": "Delete"}, "condition": {"age": 1, "withState": "ARCHIVED"}}]},
        ),
        ({"lifecycle": None}, {}),
    ],
    ids=["changed", "gone"],
)
def test_lifecycle_rules_that_somebody_changed_are_drift(calls: Calls, patch: dict, found: dict) -> None:
    bucket = Life(calls, "gcp:storage/bucket:Bucket", "rules", location=REGION, lifecycleRules=[RULE])
    assert bucket.refreshed() == bucket.inputs
    calls.request("storage", "PATCH", f"storage/v1/b/{bucket.id}", None, patch)
    kept = {key: value for key, value in bucket.inputs.items() if key != "lifecycleRules"}
    assert bucket.refreshed() == {**kept, **found}
    bucket.ends()


def test_a_billing_account_is_no_part_of_the_project(calls: Calls) -> None:
    """Its owner may do everything in the project, but has no budgets on an account that does not grant that right."""
    amount = {"specifiedAmount": {"currencyCode": "USD", "units": "1"}}
    with pytest.raises(GoogleError, match=r"billing\.budgets\.create"):
        Life(calls, "gcp:billing/budget:Budget", "b", billingAccount="ABCDEF-ABCDEF-ABCDEF", amount=amount)


def test_a_fleet(calls: Calls) -> None:
    network = Life(calls, "gcp:compute/network:Network", "fleet", autoCreateSubnetworks=False)
    router = Life(calls, "gcp:compute/router:Router", "fleet", network=network.id, region=REGION)
    subnet = Life(
        calls, "gcp:compute/subnetwork:Subnetwork", "f", network=network.id, region=REGION, ipCidrRange="10.0.0.0/16"
    )
    assert subnet.outputs["network"] == network.id, "a reference stays in the program's own words"
    nat = Life(
        calls,
        "gcp:compute/routerNat:RouterNat",
        "nat",
        router=router.outputs["name"],
        region=REGION,
        natIpAllocateOption="AUTO_ONLY",
        sourceSubnetworkIpRangesToNat="LIST_OF_SUBNETWORKS",
        subnetworks=[{"name": subnet.id, "sourceIpRangesToNats": ["ALL_IP_RANGES"]}],
    )
    wall = Life(
        calls,
        "gcp:compute/firewall:Firewall",
        "wall",
        network=network.id,
        direction="INGRESS",
        denies=[{"protocol": "all"}],
        sourceRanges=["0.0.0.0/0"],
    )
    template = Life(
        calls,
        "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate",
        "machine",
        region=REGION,
        machineType="n2-standard-16",
        disks=[{"sourceImage": IMAGE, "boot": True, "autoDelete": True, "diskSizeGb": 50}],
        networkInterfaces=[{"subnetwork": subnet.id}],
        metadata={"user-data": "#cloud-config\n"},
        labels={"team": "a"},
    )
    update = {"type": "OPPORTUNISTIC", "minimalAction": "NONE", "instanceRedistributionType": "NONE"}

    def make_group(**policy: Any) -> Life:
        return Life(
            calls,
            "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager",
            "group",
            region=REGION,
            baseInstanceName="m",
            versions=[{"instanceTemplate": template.id}],
            updatePolicy={**update, **policy},
            instanceLifecyclePolicy={"defaultActionOnFailure": "DO_NOTHING"},
            distributionPolicyTargetShape="BALANCED",
            instanceFlexibilityPolicy={"instanceSelections": [family("n2", 1), family("c3d", 2)]},
        )

    def family(name: str, rank: int) -> dict[str, Any]:
        return {"name": name, "machineTypes": [f"{name}-standard-16"], "rank": rank}

    # Omitted values are sent as 0, and two zeros are refused.
    for policy, text in (({}, "must be greater than 0"), ({"maxUnavailableFixed": 2}, "number of zones")):
        with pytest.raises(GoogleError, match=text):
            make_group(**policy)
    group = make_group(maxUnavailableFixed=3)
    metric = {"name": "m", "filter": "f", "singleInstanceAssignment": 16}
    policy = {"minReplicas": 0, "maxReplicas": 4, "mode": "OFF", "metrics": [metric]}
    scaler = Life(
        calls,
        "gcp:compute/regionAutoscaler:RegionAutoscaler",
        "s",
        region=REGION,
        target=group.id,
        autoscalingPolicy=policy,
    )
    for life in (network, router, subnet, nat, wall, template, group, scaler):
        assert plan.diff(life.row, life.inputs, life.refreshed()) == {}, life.row.token
    with pytest.raises(GoogleError, match="is already being used by"):
        template.resource.delete(template.id, template.outputs, 30)
    path = f"projects/{calls.project}/regions/{REGION}/autoscalers?autoscaler={scaler.outputs['name']}"
    calls.request("compute", "PATCH", f"compute/v1/{path}", None, {"autoscalingPolicy": {"mode": "ONLY_SCALE_OUT"}})
    assert scaler.refreshed()["autoscalingPolicy"] == {**policy, "mode": "ONLY_SCALE_OUT"}, "the rest was left alone"
    nat.changes(maxPortsPerVm=4096)
    group.changes(instanceFlexibilityPolicy={"instanceSelections": [family("c3d", 1)]})
    at = f"compute/v1/{group.id}"
    kept = calls.request("compute", "GET", at)["instanceFlexibilityPolicy"]["instanceSelections"]
    assert {key: value["rank"] for key, value in kept.items()} == {"c3d": 1}
    calls.request("compute", "PATCH", at, None, {"updatePolicy": {"type": "PROACTIVE", "maxUnavailable": {"fixed": 9}}})
    drifted = plan.diff(group.row, group.refreshed(), group.inputs)
    assert drifted == dict.fromkeys(("updatePolicy.maxUnavailableFixed", "updatePolicy.type"), ("update", False))
    for life in (scaler, group, template, wall, nat, subnet, router, network):
        life.ends()


def test_members_of_one_policy_do_not_meet(calls: Calls) -> None:
    bucket = Life(calls, "gcp:storage/bucket:Bucket", "shared", location=REGION)
    account = Life(calls, "gcp:serviceaccount/account:Account", "a", accountId="member-1")
    member = account.outputs["member"]
    where = 'resource.name.startsWith("projects/_/buckets/b/objects/jobs/")'
    condition = {"title": "jobs", "expression": where}
    token = "gcp:storage/bucketIAMMember:BucketIAMMember"
    same: dict[str, Any] = {"bucket": bucket.outputs["name"], "role": "roles/storage.objectUser", "member": member}
    plain = Life(calls, token, "plain", **{**same, "role": "roles/storage.objectViewer"})
    conditional = Life(calls, token, "conditional", **same, condition=condition)
    assert conditional.refreshed() == conditional.inputs
    plain.ends()
    assert conditional.refreshed() == conditional.inputs
    with pytest.raises(GoogleError, match="Condition expression"):
        Life(calls, token, "broken", **same, condition={"title": "x", "expression": "resource.labels.a == 'b'"})
    with pytest.raises(GoogleError, match="does not exist"):
        Life(calls, token, "nobody", **{**same, "member": member.replace("member-1", "nobody")})
    conditional.ends()
    bucket.ends()


def test_a_keys_versions_are_destroyed_with_it(calls: Calls) -> None:
    ring = Life(calls, "gcp:kms/keyRing:KeyRing", "versions", location=REGION)
    key = Life(calls, "gcp:kms/cryptoKey:CryptoKey", "key", keyRing=ring.id)

    def states() -> list[str]:
        found = calls.request("cloudkms", "GET", f"v1/{key.id}/cryptoKeyVersions")
        return [version["state"] for version in found["cryptoKeyVersions"]]

    assert states() == ["ENABLED"]
    for _ in range(2):
        key.resource.delete(key.id, key.outputs, 30)
        assert states() == ["DESTROY_SCHEDULED"]


def test_an_object_and_a_bucket_that_is_not_empty(calls: Calls) -> None:
    bucket = Life(calls, "gcp:storage/bucket:Bucket", "full", location=REGION, forceDestroy=True)
    name = bucket.outputs["name"]
    token = "gcp:storage/bucketObject:BucketObject"
    thing = Life(calls, token, "o", bucket=name, name="a/b.json", content="{}", contentType="application/json")
    assert thing.outputs["generation"]
    assert thing.refreshed() == thing.inputs
    thing.changes(content="[]")
    again = {"name": f"b/{name}/o/a/b.json", "content": "{}", "body": {"contentType": "application/json"}}
    calls.call("storage.objects", "upload", again, REGION)
    assert thing.refreshed()["content"] == "different hash"
    Life(calls, token, "kept", bucket=name, name="c", content="x")
    thing.ends()
    bucket.ends()


def test_a_custom_role_can_be_made_again(calls: Calls) -> None:
    token = "gcp:projects/iAMCustomRole:IAMCustomRole"
    first = Life(calls, token, "r", roleId="again", title="one", permissions=["a.b.c"])
    first.ends()
    again = Life(calls, token, "r", roleId="again", title="two", permissions=["d.e.f"])
    assert again.refreshed() == again.inputs
    with pytest.raises(GoogleError, match="there already"):
        Life(calls, token, "r", roleId="again", title="three", permissions=["d.e.f"])
    again.ends()


def test_functions(calls: Calls) -> None:
    found = invokes.invoke("gcp:organizations/getProject:getProject", {}, calls)
    assert (found["projectId"], found["number"]) == (calls.project, "123456789012")
    client = invokes.invoke("gcp:organizations/getClientConfig:getClientConfig", {}, calls)
    assert (client["project"], client["region"]) == (calls.project, REGION)
    assert "us-central1-a" in invokes.invoke("gcp:compute/getZones:getZones", {}, calls)["names"]
    agent = invokes.invoke("gcp:storage/getProjectServiceAccount:getProjectServiceAccount", {}, calls)
    assert agent["emailAddress"].startswith("service-123456789012@")
    with pytest.raises(GoogleError, match="was not found"):
        invokes.invoke("gcp:serviceaccount/getAccount:getAccount", {"accountId": "nobody"}, calls)


def test_an_image_is_found_by_name_family_or_filter(calls: Calls) -> None:
    images, get = f"compute/v1/projects/{calls.project}/global/images", "gcp:compute/getImage:getImage"
    for name, family in (("hardened-1", "hardened"), ("hardened-2", "hardened"), ("other", "rest")):
        body = {"name": name, "family": family, "architecture": "ARM64", "diskSizeGb": "20"}
        calls.request("compute", "POST", images, body=body)
    named = invokes.invoke(get, {"name": "other"}, calls)
    assert (named["status"], named["diskSizeGb"], named["project"]) == ("READY", 20, calls.project)
    assert invokes.invoke(get, {"family": "hardened"}, calls)["name"] == "hardened-2"
    both = '(name = "{}") (architecture = "{}")'.format
    assert invokes.invoke(get, {"filter": both("other", "ARM64")}, calls)["name"] == "other"
    with pytest.raises(RuntimeError, match="no image"):
        invokes.invoke(get, {"filter": both("other", "X86_64")}, calls)
    for missing in ({"name": "none"}, {"family": "none"}, {"name": "other", "project": "another"}):
        with pytest.raises(GoogleError, match=r"was not found|denied"):
            invokes.invoke(get, missing, calls)
