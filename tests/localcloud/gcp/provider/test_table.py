"""The GCP provider's table and checks, without a cloud. It cannot prove that Google or pulumi-gcp agree with it."""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

import pytest

from localcloud.gcp.provider import resources as gcp
from localcloud.gcp.provider.assets import ARCHIVE, ASSET, SIGNATURE, content_of
from localcloud.gcp.provider.calls import Calls
from localcloud.gcp.provider.kind import GCP
from localcloud.provider import plan
from localcloud.provider.convert import UNKNOWN, RefusedError
from localcloud.provider.table import UnknownTypeError, fill

GROUP = "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager"
SCALER = "gcp:compute/regionAutoscaler:RegionAutoscaler"
TEMPLATE = "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate"
TOPIC = "gcp:pubsub/topic:Topic"
SUBSCRIPTION = "gcp:pubsub/subscription:Subscription"
BUCKET = "gcp:storage/bucket:Bucket"
SUBNETWORK = "gcp:compute/subnetwork:Subnetwork"
DISK = {"sourceImage": "projects/cos-cloud/global/images/family/cos-stable", "diskSizeGb": 50, "boot": True}


def test_a_dashboard_that_is_known_only_after_up_is_previewed():
    """Its JSON names resources of the same `up`."""
    row = GCP.row("gcp:monitoring/dashboard:Dashboard")
    assert plan.check(row, "board", {}, {"dashboardJson": UNKNOWN}, b"")["dashboardJson"] == UNKNOWN


def sdk_class(token: str) -> type:
    """The class of pulumi_gcp that a token belongs to."""
    module, name = token.split(":")[1].split("/", maxsplit=1)[0], token.split(":")[2]
    return getattr(importlib.import_module(f"pulumi_gcp.{module}"), name)


def camel(name: str) -> str:
    """A Python name of the SDK as the engine's property."""
    head, *rest = name.rstrip("_").split("_")
    return head + "".join(part.capitalize() for part in rest)


def checked(token: str, **inputs: Any) -> dict[str, Any]:
    """Checked inputs of a new resource called `main`."""
    return plan.check(GCP.row(token), "main", {}, inputs, b"seed")


@pytest.mark.parametrize("token", sorted(GCP.rows))
def test_row_fits_the_discovery_document(token: str) -> None:
    this = GCP.row(token)
    for step in [*this.steps(), *this.read, *this.delete]:
        fill(step.get("params", {}), GCP.shape(step.get("service", this.service), step["op"]), {}, this.names)
    assert this.source.startswith("TF/")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("token", sorted(GCP.rows))
def test_row_speaks_of_properties_that_the_sdk_has(token: str) -> None:
    this, made = GCP.row(token), sdk_class(token)
    given = {camel(name) for name in inspect.signature(made._internal_init).parameters}  # type: ignore[attr-defined]
    outputs = {camel(name) for name, member in inspect.getmembers(made) if isinstance(member, property)}
    assert set(this.properties) - {"effectiveLabels", "project"} <= given
    assert set(this.out) - {"project"} <= outputs | given
    assert {rule.split(".")[0] for rule in this.replace} <= set(this.properties) | {"project"}
    assert {*this.required, *this.defaults} <= set(this.properties)


@pytest.mark.parametrize("token", sorted(GCP.rows))
def test_no_property_of_a_row_is_deaf_to_a_change(token: str) -> None:
    this = GCP.row(token)
    resource = gcp.GcpResource(this, Calls("p", "r"))
    heard = {name for step in this.update + this.set for name in resource._roots(step)}
    heard |= {rule.split(".")[0] for rule in this.replace} | set(this.own) | {"labels", "effectiveLabels", "project"}
    assert set(this.properties) - heard == set()


@pytest.mark.parametrize(
    ("token", "inputs", "path", "text"),
    [
        (TOPIC, {"lables": {}}, "lables", "did you mean 'labels'"),
        (SUBSCRIPTION, {"topic": "t", "deadLetterPolicy": {"maxDeliveries": 5}}, "deadLetterPolicy.maxDel", "no such"),
        (SUBSCRIPTION, {}, "topic", "is required"),
        (SUBSCRIPTION, {"topic": "t", "ackDeadlineSeconds": "soon"}, "ackDeadlineSeconds", "expected integer"),
        (GROUP, {"baseInstanceName": "b"}, "versions", "is required"),
        (GROUP, {"baseInstanceName": "b", "versions": [{"template": "t"}]}, "versions[0].template", "instanceTemplate"),
        (
            GROUP,
            {"baseInstanceName": "b", "versions": [], "instanceLifecyclePolicy": {"defaultActionOnFailure": "IGNORE"}},
            "instanceLifecyclePolicy.defaultActionOnFailure",
            "DO_NOTHING",
        ),
        (SCALER, {"target": "t", "autoscalingPolicy": {"mode": "SCALE_OUT"}}, "autoscalingPolicy.mode", "ONLY_SCALE"),
        (TEMPLATE, {"machineType": "n2", "disks": [DISK | {"size": 3}]}, "disks[0].size", "diskSizeGb"),
        (BUCKET, {"location": "US", "acl": "private"}, "acl", "no such property of gcp:storage/bucket:Bucket"),
        ("gcp:serviceaccount/account:Account", {"accountId": "x"}, "accountId", "does not match"),
    ],
)
def test_refused(token: str, inputs: dict[str, Any], path: str, text: str) -> None:
    with pytest.raises(RefusedError) as refused:
        checked(token, **inputs)
    assert refused.value.path.startswith(path)
    assert text in refused.value.reason


def test_unknown_type_names_the_nearest() -> None:
    with pytest.raises(UnknownTypeError, match="did you mean 'gcp:pubsub/topic:Topic'"):
        GCP.row("gcp:pubsub/topics:Topic")


def test_automatic_name_is_what_google_takes() -> None:
    subnet = "gcp:compute/subnetwork:Subnetwork"
    name = plan.check(GCP.row(subnet), "Team-net", {}, {"network": UNKNOWN}, b"s")["name"]
    assert re.fullmatch(r"team-net-[0-9a-f]{7}", name)


def body_of(token: str, **inputs: Any) -> dict[str, Any]:
    """The body of the request that makes a resource."""
    this = GCP.row(token)
    shape = GCP.shape(this.service, this.create["op"])
    return (fill(this.create["params"], shape, checked(token, **inputs), this.names) or {})["body"]


def test_a_template_becomes_googles() -> None:
    body = body_of(
        TEMPLATE,
        machineType="n2-standard-16",
        disks=[DISK],
        metadata={"user-data": "#cloud-config"},
        scheduling={"provisioningModel": "SPOT", "maxRunDuration": {"seconds": 604800}},
        serviceAccount={"email": "w@p", "scopes": ["s"]},
        guestAccelerators=[{"type": "nvidia-l4", "count": 1}],
    )
    properties = body["properties"]
    assert properties["disks"][0]["initializeParams"] == {"sourceImage": DISK["sourceImage"], "diskSizeGb": 50}
    assert properties["metadata"] == {"items": [{"key": "user-data", "value": "#cloud-config"}]}
    assert properties["serviceAccounts"] == [{"email": "w@p", "scopes": ["s"]}]
    assert properties["guestAccelerators"] == [{"acceleratorType": "nvidia-l4", "acceleratorCount": 1}]
    assert properties["scheduling"]["maxRunDuration"] == {"seconds": 604800}


def test_a_group_and_its_autoscaler_become_googles() -> None:
    disk = {"sourceImage": DISK["sourceImage"], "diskType": "pd-balanced", "diskSizeGb": 50, "boot": True}
    disk["labels"] = [{"key": "team", "value": "a"}]
    chosen = [{"name": "n2", "machineTypes": ["n2-standard-16"], "rank": 1, "disks": [disk]}]
    group = body_of(
        GROUP,
        baseInstanceName="b",
        versions=[{"instanceTemplate": "t"}],
        instanceFlexibilityPolicy={"instanceSelections": chosen},
        updatePolicy={"type": "OPPORTUNISTIC", "minimalAction": "NONE", "maxSurgeFixed": 0},
        distributionPolicyTargetShape="BALANCED",
    )
    selections = group["instanceFlexibilityPolicy"]["instanceSelections"]
    made = selections["n2"].pop("disks")
    assert selections == {"n2": {"machineTypes": ["n2-standard-16"], "rank": 1}}
    (found,) = made
    assert found.pop("boot") is True
    assert found["initializeParams"].pop("sourceImage") == DISK["sourceImage"]
    assert found == {"initializeParams": {"diskType": "pd-balanced", "diskSizeGb": 50, "labels": {"team": "a"}}}
    assert group["updatePolicy"]["maxSurge"] == {"fixed": 0}
    assert group["distributionPolicy"] == {"targetShape": "BALANCED"}
    metric = {"name": "m", "filter": "f", "singleInstanceAssignment": 16}
    policy = {"minReplicas": 0, "maxReplicas": 9, "mode": "ONLY_SCALE_OUT", "metrics": [metric]}
    scaler = body_of(SCALER, target="g", autoscalingPolicy=policy)["autoscalingPolicy"]
    assert (scaler["minNumReplicas"], scaler["maxNumReplicas"]) == (0, 9)
    assert scaler["customMetricUtilizations"] == [{"metric": "m", "filter": "f", "singleInstanceAssignment": 16.0}]


def test_lifecycle_words_become_googles() -> None:
    condition = {"age": 3, "matchesPrefixes": ["jobs/"], "withState": "LIVE"}
    body = body_of(BUCKET, location="US", lifecycleRules=[{"action": {"type": "Delete"}, "condition": condition}])
    assert body["lifecycle"]["rule"][0]["condition"] == {"age": 3, "matchesPrefix": ["jobs/"], "isLive": True}


@pytest.mark.parametrize(
    ("token", "old", "new", "replaced"),
    [
        (TEMPLATE, {"machineType": "a"}, {"machineType": "b"}, {"machineType"}),
        (TEMPLATE, {"metadata": {"user-data": "a"}}, {"metadata": {"user-data": "b"}}, {"metadata.user-data"}),
        (GROUP, {"versions": [{"instanceTemplate": "a"}]}, {"versions": [{"instanceTemplate": "b"}]}, set()),
        (GROUP, {"updatePolicy": {"type": "PROACTIVE"}}, {"updatePolicy": {"type": "OPPORTUNISTIC"}}, set()),
        (GROUP, {"baseInstanceName": "a"}, {"baseInstanceName": "b"}, {"baseInstanceName"}),
        (GROUP, {"region": "a"}, {"region": "b"}, {"region"}),
        (SCALER, {"autoscalingPolicy": {"mode": "ON"}}, {"autoscalingPolicy": {"mode": "OFF"}}, set()),
        (SUBSCRIPTION, {"topic": "a"}, {"topic": "b"}, {"topic"}),
        (SUBSCRIPTION, {"ackDeadlineSeconds": 10}, {"ackDeadlineSeconds": 60}, set()),
        (SUBSCRIPTION, {"filter": "a"}, {"filter": "b"}, {"filter"}),
        (BUCKET, {"location": "US"}, {"location": "EU"}, {"location"}),
        (BUCKET, {"versioning": {"enabled": True}}, {"versioning": {"enabled": False}}, set()),
        (SUBNETWORK, {"ipCidrRange": "10.0.0.0/20"}, {"ipCidrRange": "10.0.0.0/16"}, set()),
        (SUBNETWORK, {"ipCidrRange": "10.0.0.0/16"}, {"ipCidrRange": "10.1.0.0/16"}, {"ipCidrRange"}),
        (BUCKET, {"project": "a"}, {"project": "b"}, {"project"}),
        ("gcp:pubsub/topicIAMMember:TopicIAMMember", {"role": "a"}, {"role": "b"}, {"role"}),
    ],
)
def test_replacement(token: str, old: dict[str, Any], new: dict[str, Any], replaced: set[str]) -> None:
    changes = plan.diff(GCP.row(token), old, new)
    assert changes
    assert {path for path, (_, replaces) in changes.items() if replaces} == replaced


def test_what_google_fills_in_stays_when_it_is_left_out() -> None:
    """Therefore a stack states the value in both cases."""
    given = {"mode": "ON", "stabilizationPeriod": 60}
    assert plan.diff(GCP.row(SCALER), {"autoscalingPolicy": given}, {"autoscalingPolicy": {"mode": "ON"}}) == {}
    assert plan.diff(GCP.row(BUCKET), {"versioning": {"enabled": True}}, {}) == {}


def test_the_mode_that_another_writes_is_no_change() -> None:
    old, new = {"autoscalingPolicy": {"mode": "OFF"}}, {"autoscalingPolicy": {"mode": "ONLY_SCALE_OUT"}}
    assert plan.diff(GCP.row(SCALER), old, new, ["autoscalingPolicy.mode"]) == {}


def test_what_google_fills_in_is_unknown_in_a_preview() -> None:
    function = gcp.GcpResource(GCP.row("gcp:cloudfunctionsv2/function:Function"), Calls("p", "r"))
    previewed = function.preview({"serviceConfig": {"timeoutSeconds": 60}})
    assert previewed["serviceConfig"] == {"timeoutSeconds": 60, "uri": UNKNOWN, "service": UNKNOWN}
    found = {"serviceConfig": {"uri": "u", "timeoutSeconds": 60}}
    updated = function.preview_update({}, found, {"serviceConfig": {"timeoutSeconds": 61}})
    assert updated["serviceConfig"] == {"uri": "u", "timeoutSeconds": 61}, "no update changes its address"
    made = function.overlaid(found, {"serviceConfig": {"timeoutSeconds": 61}})
    assert made["serviceConfig"] == {"uri": "u", "timeoutSeconds": 61}


def test_assets_become_bytes_and_archives_the_same_zip() -> None:
    text = {SIGNATURE: ASSET, "text": "print()"}
    archive = {SIGNATURE: ARCHIVE, "assets": {"main.py": text, "inner": {SIGNATURE: ARCHIVE, "assets": {"a": text}}}}
    assert content_of("x", None) == b"x"
    assert content_of(None, text) == b"print()"
    assert content_of(None, archive) == content_of(None, archive)
    assert b"inner/a" in content_of(None, archive)
