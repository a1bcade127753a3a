"""The program on each stack of GCP. Recording mocks prove what is requested, not that GCP accepts it."""

import inspect
import re
from typing import Any

import pulumi
import pulumi_gcp as gcp
import pytest

from tests.components.recording import PROJECT, Made, Recorder
from tests.components.stacks import GCP_STACKS, run_program, run_stack, settings
from tidemill.descriptor import Descriptor

IMAGE = "docker.io/team/preprocess@sha256:" + 64 * "0"
AUTO_NAMING = len("-1a2b3c4")

SUBMITTER = "serviceAccount:photographer@localcloud-project.iam.gserviceaccount.com"


@pytest.fixture(scope="module", params=GCP_STACKS)
def stack(request: pytest.FixtureRequest) -> tuple[str, Recorder]:
    return request.param, run_stack(request.param)


def descriptor_of(recorder: Recorder) -> Descriptor:
    """The descriptor written to the store; the SDK marks an object's content as secret, which wraps it."""
    content = recorder.one("storage.BucketObject", f"{recorder.one('Pipeline').name}-store-pipeline").inputs["content"]
    return Descriptor.model_validate_json(content["value"])


def test_every_part_is_a_child_of_the_pipeline(stack):
    for made in stack[1].resources:
        assert made.chain[0] == "tidemill:index:Pipeline"
        assert made.name.startswith(stack[1].one("Pipeline").name)
        if made.type.startswith("gcp:"):
            assert re.fullmatch(r"tidemill:index:Gcp\w+", made.chain[1]), made.urn
            assert len(made.chain) == 3, made.urn


def test_nothing_of_another_cloud(stack):
    assert {made.type.split(":")[0] for made in stack[1].resources} == {"gcp", "tidemill"}


def test_everything_that_can_carry_labels_carries_the_teams(stack):
    name, recorder = stack
    expected = {
        "tidemill-team": settings(name)["tidemill:team"],
        "tidemill-environment": settings(name)["tidemill:environment"],
    }
    labelled = [made for made in recorder.resources if _labelled(made)]
    assert len(labelled) >= 7
    for made in labelled:
        own = "userLabels" if made.kind == "monitoring.NotificationChannel" else "labels"
        assert expected.items() <= made.inputs.get(own, {}).items(), made.name


def _labelled(made: Made) -> bool:
    if not made.type.startswith("gcp:"):
        return False
    module, kind = made.type.split(":")[1].split("/")[0], made.type.split(":")[2]
    return "labels" in inspect.signature(getattr(getattr(gcp, module), kind)._internal_init).parameters


def test_machines_and_their_disks_carry_the_teams_labels(stack):
    for template in stack[1].of("compute.RegionInstanceTemplate"):
        assert {"tidemill-team", "tidemill-environment"} <= set(template.inputs["labels"])
        for disk in template.inputs["disks"]:
            assert {"tidemill-team", "tidemill-environment"} <= set(disk["labels"])


def test_nothing_lets_anything_in(stack):
    (rule,) = stack[1].of("compute.Firewall")
    assert rule.inputs["direction"] == "INGRESS"
    assert rule.inputs["denies"] == [{"protocol": "all"}]
    assert "allows" not in rule.inputs


def test_no_grant_is_primitive_and_no_account_has_a_key(stack):
    roles = {made.inputs["role"] for made in stack[1].resources if "role" in made.inputs}
    assert roles.isdisjoint({"roles/owner", "roles/editor", "roles/viewer"})
    assert not [role for role in roles if role.endswith(("admin", "Admin"))]
    assert not stack[1].of("serviceaccount.Key")


def test_the_machines_account_holds_nothing_of_compute_and_no_permission_beyond_its_own_parts(stack):
    name, recorder = stack
    worker = f"serviceAccount:{recorder.one('Pipeline').name}-worker@{PROJECT}.iam.gserviceaccount.com"
    held = [made for made in recorder.resources if made.inputs.get("member") == worker]
    everywhere = {made.inputs["role"] for made in held if made.kind == "projects.IAMMember"}
    assert everywhere == {"roles/logging.logWriter"}
    queues = len(settings(name)["tidemill:queues"])
    assert len([made for made in held if made.kind == "pubsub.SubscriptionIAMMember"]) == queues
    assert {made.inputs["role"] for made in held if made.kind == "pubsub.SubscriptionIAMMember"} == {
        "roles/pubsub.subscriber"
    }
    assert {made.kind for made in held} - {"secretmanager.SecretIamMember"} == {
        "artifactregistry.RepositoryIamMember",
        "projects.IAMMember",
        "pubsub.SubscriptionIAMMember",
        "storage.BucketIAMMember",
    }


def test_machines_run_as_that_account(stack):
    email = f"{stack[1].one('Pipeline').name}-worker@{PROJECT}.iam.gserviceaccount.com"
    for template in stack[1].of("compute.RegionInstanceTemplate"):
        assert template.inputs["serviceAccount"]["email"] == email


def test_a_submitter_publishes_looks_and_writes_jobs_and_nothing_else():
    recorder = run_stack("demo-gcp")
    held = [made for made in recorder.resources if made.inputs.get("member") == SUBMITTER]
    granted = sorted((made.kind, made.inputs["role"].rpartition("/")[2]) for made in held)
    assert granted == [
        ("artifactregistry.RepositoryIamMember", "artifactregistry.reader"),
        ("projects.IAMMember", "demo_local_submitter"),
        ("projects.IAMMember", "logging.viewAccessor"),
        ("pubsub.SubscriptionIAMMember", "pubsub.subscriber"),
        ("pubsub.SubscriptionIAMMember", "pubsub.viewer"),
        ("pubsub.SubscriptionIAMMember", "pubsub.viewer"),
        ("pubsub.TopicIAMMember", "pubsub.publisher"),
        ("pubsub.TopicIAMMember", "pubsub.viewer"),
        ("storage.BucketIAMMember", "storage.legacyBucketReader"),
        ("storage.BucketIAMMember", "storage.objectCreator"),
        ("storage.BucketIAMMember", "storage.objectUser"),
        ("storage.BucketIAMMember", "storage.objectUser"),
        ("storage.BucketIAMMember", "storage.objectUser"),
        ("storage.BucketIAMMember", "storage.objectViewer"),
        ("storage.BucketIAMMember", "storage.objectViewer"),
        ("storage.BucketIAMMember", "storage.objectViewer"),
    ]
    (logs,) = [made for made in held if made.inputs["role"] == "roles/logging.viewAccessor"]
    assert "demo-local-logs" in logs.inputs["condition"]["expression"]


def test_without_submitters_nobody_but_accounts_of_the_stack_is_granted_anything():
    recorder = run_stack("vision-gcp-dev")
    members = {made.inputs["member"] for made in recorder.resources if "member" in made.inputs}
    assert all(member.startswith("serviceAccount:") for member in members)
    assert "projects.IAMCustomRole" in recorder.counts()
    assert not [role for role in recorder.of("projects.IAMCustomRole") if "submitter" in role.name]


def test_the_reconciler_writes_what_is_said_of_the_fleet():
    recorder = run_stack("demo-gcp")
    grant = recorder.one("storage.BucketIAMMember", "demo-local-store-fleet-reconciler").inputs
    assert grant["member"] == f"serviceAccount:demo-local-reconciler@{PROJECT}.iam.gserviceaccount.com"
    assert "objects/fleet/" in grant["condition"]["expression"]
    assert "objects/jobs/" not in grant["condition"]["expression"]


def test_nothing_stands_idle_in_the_demo():
    counts = run_stack("demo-gcp").counts()
    for kind in ("compute.RouterNat", "compute.Router", "compute.Address", "kms.CryptoKey", "bigquery.Dataset"):
        assert kind not in counts
    (scaler,) = run_stack("demo-gcp").of("compute.RegionAutoscaler")
    assert scaler.inputs["autoscalingPolicy"]["minReplicas"] == 0


PROTECTED = {
    "Protection",
    "artifactregistry.Repository",
    "compute.RegionInstanceGroupManager",
    "compute.Subnetwork",
    "kms.CryptoKey",
    "logging.ProjectBucketConfig",
    "pubsub.Subscription",
    "pubsub.Topic",
    "storage.Bucket",
}
REPLACEABLE = {"compute.RegionInstanceGroupManager", "compute.Subnetwork"}


@pytest.mark.parametrize(
    ("allow", "protected"), [([], PROTECTED), (["replace"], PROTECTED - REPLACEABLE), (["purge"], set())]
)
def test_allow_lifts_protection(allow: list[str], protected: set[str]):
    recorder = run_stack("vision-gcp-dev", allow=allow, store={"kms_key": "create"})
    assert {made.kind for made in recorder.resources if made.options["protect"]} == protected
    assert recorder.one("storage.Bucket").inputs["forceDestroy"] is (allow == ["purge"])


def test_the_descriptor_is_written_into_the_store():
    recorder = run_stack("demo-gcp")
    written = recorder.one("storage.BucketObject", "demo-local-store-pipeline").inputs
    assert (written["name"], written["contentType"]) == ("pipeline.json", "application/json")
    descriptor = descriptor_of(recorder)
    assert (descriptor.cloud, descriptor.account, descriptor.region) == ("gcp", PROJECT, "us-central1")
    assert descriptor.uri == "gs://demo-local-store-bucket-1a2b3c4/pipeline.json"
    assert descriptor.log_group == f"projects/{PROJECT}/locations/us-central1/buckets/demo-local-logs-1a2b3c4"
    cpu = descriptor.queues["cpu"]
    assert [(m.type, m.cpus, m.memory_mib) for m in cpu.machines] == [
        ("n2-highcpu-2", 2, 2048),
        ("n2d-highcpu-2", 2, 2048),
    ]
    assert cpu.aws is None
    assert cpu.gcp is not None
    assert cpu.images["default"].job_definition is None
    assert [(rung.market, rung.max_cpus) for rung in cpu.capacity] == [("spot", 8)]


def test_the_descriptor_names_what_machines_pull():
    image = descriptor_of(run_stack("vision-gcp-dev")).queues["cpu"].images["default"].ref
    assert image == f"us-central1-docker.pkg.dev/{PROJECT}/vision-dev/preprocess:1.4.0"


def test_what_a_stack_exports(monkeypatch: pytest.MonkeyPatch):
    exported: dict[str, Any] = {}
    monkeypatch.setattr(pulumi, "export", exported.__setitem__)
    run_program(settings("demo-gcp"))
    assert set(exported) == {
        "log_bucket",
        "network",
        "pipeline_uri",
        "registry_url",
        "repository",
        "store_bucket",
        "submitters",
        "subnetwork",
        "subscriptions",
        "topics",
        "worker_account",
    }
    assert exported["submitters"] == [SUBMITTER]


def test_a_preview_makes_the_same_resources(stack):
    name, recorder = stack
    assert run_stack(name, preview=True).counts() == recorder.counts()


def test_a_wrong_config_is_one_line_and_makes_nothing():
    recorder = Recorder()
    values = settings("demo-gcp") | {"tidemill:permission_boundary": "arn:aws:iam::123456789012:policy/b"}
    with pytest.raises(pulumi.RunError, match=r"^tidemill:permission_boundary: ") as caught:
        run_program(values, recorder=recorder)
    assert "\n" not in str(caught.value)
    assert recorder.resources == []


VARIABLES = {
    "gcp:project": ["GOOGLE_PROJECT", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT"],
    "gcp:region": ["GOOGLE_REGION", "GCLOUD_REGION", "CLOUDSDK_COMPUTE_REGION"],
}


@pytest.mark.parametrize("key", VARIABLES)
def test_a_stack_without_a_place_is_refused_before_anything_is_asked(key: str, monkeypatch: pytest.MonkeyPatch):
    for names in VARIABLES.values():
        for name in names:
            monkeypatch.delenv(name, raising=False)
    values = {name: value for name, value in settings("demo-gcp").items() if name != key}
    recorder = Recorder()
    with pytest.raises(pulumi.RunError, match=rf"^{key} is missing; it is required\. `pulumi config set {key}"):
        run_program(values, recorder=recorder)
    assert recorder.resources == []
    monkeypatch.setenv(VARIABLES[key][0], {"gcp:project": "elsewhere", "gcp:region": "europe-west1"}[key])
    assert run_program(values).one("Pipeline")


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("gcp:project", "Vision Project", "the id of a project"),
        ("gcp:project", "987654321098", "the id of a project"),
        ("gcp:region", "us-central1-a", "no zone"),
        ("gcp:region", "US", "a region"),
    ],
)
def test_a_place_of_another_form_is_refused_before_anything_is_asked(key: str, value: str, allowed: str):
    recorder = Recorder()
    with pytest.raises(pulumi.RunError, match=rf'^{key}: "{value}" .*{allowed}'):
        run_program(settings("demo-gcp") | {key: value}, recorder=recorder)
    assert recorder.resources == []


def test_what_a_config_does_not_reach_is_said_in_the_preview(monkeypatch: pytest.MonkeyPatch):
    said: list[str] = []
    monkeypatch.setattr("pulumi.log.warn", lambda text, *_, **__: said.append(text))
    queue = {"images": {"default": IMAGE}, "machines": {"families": ["n2", "c3"], "cpus": 16}}
    run_stack("demo-gcp", preview=True, queues={"cpu": queue})
    assert [text.split(":")[1].partition(" ")[0] for text in said] == [
        "queues.cpu.machines.families[1]",
        "worker_image",
    ]


def test_an_existing_network_is_used_as_it_is():
    host = "projects/network-host"
    existing = {
        "network": f"{host}/global/networks/shared",
        "subnetwork": f"{host}/regions/us-central1/subnetworks/batch",
    }
    recorder = run_stack("vision-gcp-dev", network={"existing": existing})
    assert not [made for made in recorder.resources if made.kind in ("compute.Network", "compute.Firewall")]
    for template in recorder.of("compute.RegionInstanceTemplate"):
        (interface,) = template.inputs["networkInterfaces"]
        assert interface["subnetwork"] == existing["subnetwork"]
        assert not interface.get("accessConfigs")


def test_a_subnetwork_of_another_region():
    existing = {
        "network": "projects/h/global/networks/n",
        "subnetwork": "projects/h/regions/europe-west1/subnetworks/s",
    }
    with pytest.raises(pulumi.RunError, match=r"^tidemill:network.existing.subnetwork: .* what is in us-central1"):
        run_stack("demo-gcp", network={"existing": existing})


# https://cloud.google.com/compute/docs/naming-resources and the services' own references
LONGEST = {
    "artifactregistry.Repository": 63,
    "cloudfunctionsv2.Function": 49,
    "compute.Firewall": 63,
    "compute.Network": 63,
    "compute.RegionAutoscaler": 63,
    "compute.RegionInstanceGroupManager": 63,
    "compute.RegionInstanceTemplate": 63,
    "compute.Router": 63,
    "compute.RouterNat": 63,
    "compute.Subnetwork": 63,
    "kms.CryptoKey": 63,
    "kms.KeyRing": 63,
    "logging.ProjectSink": 100,
    "pubsub.Subscription": 255,
    "pubsub.Topic": 255,
    "storage.Bucket": 63,
}


def test_the_longest_names_that_the_config_takes_fit_gcps_limits():
    """Team, environment and queue names have their maximum length."""
    rungs = [{"market": "spot", "max_cpus": 64}, {"market": "on_demand", "max_cpus": 64}]
    for environment, queue in (("e" * 9, "q" * 13), ("e", "q" * 21)):
        changes = {
            "team": "t" * 16,
            "environment": environment,
            "queues": {queue: {"images": {"default": "registry://a:1"}, "capacity": rungs}},
        }
        recorder = run_stack("vision-gcp-prod", data={}, **changes)
        for kind, longest in LONGEST.items():
            names = [made.name for made in recorder.of(kind)]
            assert names, kind
            assert max(map(len, names)) + AUTO_NAMING <= longest, max(names, key=len)
        for account in recorder.of("serviceaccount.Account"):
            assert re.fullmatch(r"[a-z][a-z0-9-]{4,28}[a-z0-9]", account.inputs["accountId"])
