"""The life of a stack on GCP: previews, up, no change, the open rung, a new template, destroy.

The tests share one stack and run in this order. They show what the engine does with localcloud's provider, whose table
of replacements is sourced; they do not show what Google itself would answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from localcloud.cloud import GcpCloud
from tests.engine.google import Google
from tests.harness import Project, Run

SCALERS = "compute/v1/projects/{project}/regions/us-central1/autoscalers"
GROUPS = "compute/v1/projects/{project}/regions/us-central1/instanceGroupManagers"


@pytest.fixture(scope="module")
def google(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Google]:
    """A project with the resources that a team has before its first stack."""
    with GcpCloud(tmp_path_factory.mktemp("localcloud")) as running:
        # The reconciler would close the rung that a test opens, at an unpredictable second.
        running.control("scheduler/pause", paused=True)
        google = Google(running)
        google.make_bucket("raw-images")
        google.make_bucket("features")
        google.make_secret("hf-token")
        yield google


def copy_of(stack: str, google: Google, tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp(stack), google.cloud.env, stack)
    with project.config() as config:
        config["gcp:project"] = google.project
    return project


def check_kinds(run: Run) -> None:
    """Check what every queue has, and what a stack has once."""
    kinds = Counter(step.kind.rpartition(":")[2] for step in run.steps)
    assert kinds["RegionInstanceGroupManager"] == kinds["RegionAutoscaler"] == kinds["RegionInstanceTemplate"] >= 1
    assert kinds["Topic"] == kinds["Subscription"] >= 2
    assert kinds["Function"] == 1


def test_an_empty_project_previews_with_the_policy_pack(google, tmp_path_factory):
    project = copy_of("vision-gcp-prod", google, tmp_path_factory)
    run = project.preview("--diff").ok()
    # Our stacks have no recipient of alarms.
    assert {name for name, _ in run.violations} <= {"gcp-monitoring-alert-policy-exists"}
    assert {step.op for step in run.steps} == {"create"}
    check_kinds(run)
    assert project.resources() == []


def test_a_project_that_is_not_there_is_one_clean_line(google, tmp_path_factory):
    project = copy_of("demo-gcp", google, tmp_path_factory)
    with project.config() as config:
        config["gcp:project"] = "no-such-project"
    run = project.preview().refused()
    assert run.errors[0].strip().startswith("gcp:project: the project cannot be read. Name one that exists, ")
    assert "Google's provider says: 404: " in run.errors[0]
    assert "Traceback" not in run.text
    assert project.resources() == []


@pytest.fixture(scope="module")
def old(google) -> dict[str, str]:
    """Full names of resources that were made by hand before Tidemill."""
    here = f"projects/{google.project}"
    google.make_bucket("old-store")
    repositories = f"v1/{here}/locations/us-central1/repositories"
    google.call("artifactregistry", "POST", f"{repositories}?repositoryId=old-images", {"format": "DOCKER"})
    google.call("pubsub", "PUT", f"v1/{here}/topics/old", {})
    google.call("pubsub", "PUT", f"v1/{here}/subscriptions/old-work", {"topic": f"{here}/topics/old"})
    return {
        "repository": f"{here}/locations/us-central1/repositories/old-images",
        "topic": f"{here}/topics/old",
        "subscription": f"{here}/subscriptions/old-work",
    }


def test_a_bucket_that_exists_already_is_taken_over_with_the_settings_of_a_store(google, old, tmp_path_factory):
    project = copy_of("demo-gcp", google, tmp_path_factory)
    with project.config() as config:
        config["tidemill:imports"] = {"store": "old-store"}
    run = project.run("preview", events=True).ok()
    bucket = "Bucket demo-local-store-bucket-old-store"
    assert [str(step) for step in run.steps if step.op != "create"] == [f"import {bucket}", f"update {bucket}"]
    (line,) = (line for line in run.text.splitlines() if f"{bucket.partition(' ')[2]} update [diff: " in line)
    assert "publicAccessPrevention" in line


@pytest.fixture(scope="module")
def before(google, old) -> set[str]:
    return google.names()


@pytest.fixture(scope="module")
def project(before, old, google, tmp_path_factory) -> Project:
    project = copy_of("vision-gcp-dev", google, tmp_path_factory)
    with project.config() as config:
        config["tidemill:budget"] = {
            "monthly_usd": 500,
            "notify": ["ml-platform@example.com"],
            "billing_account": "012345-6789AB-CDEF01",
        }
        config["tidemill:monitoring"] = {"notify": ["oncall@example.com"], "dashboard": True, "queries": True}
        cpu = config["tidemill:queues"]["cpu"]
        cpu["capacity"] = [{"market": "spot", "max_cpus": 64}, {"market": "on_demand", "max_cpus": 32}]
        cpu["secrets"] = {"HF_TOKEN": f"projects/{google.project}/secrets/hf-token"}
        queue = {"topic": old["topic"], "subscription": old["subscription"]}
        config["tidemill:imports"] = {"repository": old["repository"], "queues": {"cpu": queue}}
        config["tidemill:worker_image"] = f"docker.io/team/worker@sha256:{64 * '0'}"
        config["tidemill:schedules"] = {"nightly": {"template": "nightly", "cron": "0 2 * * *"}}
        config["tidemill:arrivals"] = {"tiles": {"template": "tiles", "prefix": "gs://raw-images"}}
    run = project.up(*project.policies()).ok()
    taken = ["Repository", "Subscription", "Topic"]
    for op in ("import", "update"):
        assert sorted(step.kind.rpartition(":")[2] for step in run.steps if step.op == op) == taken
    assert {step.op for step in run.steps} == {"create", "import", "update"}
    assert run.violations == []
    check_kinds(run)
    return project


def scaler(google: Google, market: str) -> dict:
    found = google.call("compute", "GET", SCALERS)["items"]
    (wanted,) = [each for each in found if each["name"].startswith(f"vision-dev-cpu-{market}")]
    return wanted


def test_a_second_up_changes_nothing(project):
    assert project.up("--expect-no-changes").ok().plan == []


def test_an_idle_stack_wants_no_machine(project, google):
    groups = google.call("compute", "GET", GROUPS)["items"]
    assert len(groups) == 2
    assert [group.get("targetSize", 0) for group in groups] == [0, 0]


def test_the_second_rung_is_off_and_what_opens_it_is_left_alone(project, google):
    """The reconciler's one change to declared resources: neither up nor refresh reverts or shows it."""
    assert scaler(google, "spot")["autoscalingPolicy"]["mode"] == "ONLY_SCALE_OUT"
    closed = scaler(google, "on-demand")
    assert closed["autoscalingPolicy"]["mode"] == "OFF"
    opened = {"autoscalingPolicy": {"mode": "ONLY_SCALE_OUT"}}
    google.call("compute", "PATCH", f"{SCALERS}?autoscaler={closed['name']}", opened)
    assert project.run("refresh", "--preview-only", "--expect-no-changes").ok()
    assert project.refresh("--expect-no-changes").ok()
    assert project.up("--expect-no-changes").ok().plan == []
    still = scaler(google, "on-demand")["autoscalingPolicy"]
    assert still == {**closed["autoscalingPolicy"], "mode": "ONLY_SCALE_OUT"}


def test_a_refresh_first_keeps_a_rung_open_that_an_up_changes(project, google):
    """The state then has the mode that the reconciler set, and the engine sends it again (ADR 37)."""
    with project.config() as config:
        config["tidemill:queues"]["cpu"]["capacity"][1]["max_cpus"] = 48
    run = project.up("--refresh").ok()
    assert [step.name for step in run.steps if step.op == "update" and step.kind.endswith(":RegionAutoscaler")] == [
        "vision-dev-cpu-on-demand"
    ]
    changed = scaler(google, "on-demand")["autoscalingPolicy"]
    assert (changed["mode"], changed["maxNumReplicas"]) == ("ONLY_SCALE_OUT", 48 // 16)


def test_more_scratch_is_a_new_template_that_groups_take_without_a_machine_being_touched(project, google):
    groups = {group["name"]: group["id"] for group in google.call("compute", "GET", GROUPS)["items"]}
    with project.config() as config:
        config["tidemill:queues"]["cpu"]["scratch_gib"] = 120
        config["tidemill:queues"]["cpu"]["mounts"] = {"shared": {"file_system": "shared", "path": "/mnt/shared"}}
        config["tidemill:file_systems"] = {"shared": {"tier": "basic_hdd", "zone": "a"}}
    run = project.up().ok()
    done = Counter((step.op, step.kind.rpartition(":")[2]) for step in run.steps)
    assert {step.kind.rpartition(":")[2] for step in run.steps if "replace" in step.op or "delete" in step.op} == {
        "RegionInstanceTemplate"
    }
    assert done["update", "RegionInstanceGroupManager"] == 2
    assert done["update", "BucketObject"] == 1
    after = google.call("compute", "GET", GROUPS)["items"]
    assert {group["name"]: group["id"] for group in after} == groups
    assert {group["updatePolicy"]["type"] for group in after} == {"OPPORTUNISTIC"}


def test_a_file_system_grows_in_place_and_neither_shrinks_nor_goes(project, google):
    def file_systems(**wanted: dict) -> None:
        with project.config() as config:
            config["tidemill:file_systems"] = wanted

    def sizes() -> list[str]:
        found = google.call("file", "GET", "v1/projects/{project}/locations/us-central1-a/instances")["instances"]
        return [each["fileShares"][0]["capacityGb"] for each in found]

    basic = {"tier": "basic_hdd", "zone": "a"}
    file_systems(shared={**basic, "size_gib": 2048})
    assert project.up().ok().plan == ["update Instance vision-dev-fs-shared-files"]
    file_systems(shared=basic)
    assert "2048 or more: a file system of the tier basic_hdd cannot shrink" in project.preview().refused().text
    with project.config() as config:
        mounts = config["tidemill:queues"]["cpu"].pop("mounts")
    file_systems(other={**basic, "size_gib": 2048})
    assert "vision-dev-fs-shared-files" in project.preview().refused().text
    with project.config() as config:
        config["tidemill:queues"]["cpu"]["mounts"] = mounts
    file_systems(shared={**basic, "size_gib": 2048})
    assert sizes() == ["2048"]


def test_a_network_that_moves_under_machines_stops_before_anything_happens(project):
    with project.config() as config:
        config["tidemill:network"] = {"create": {"cidr": "10.1.0.0/16"}}
    run = project.preview().refused()
    with project.config() as config:
        del config["tidemill:network"]
    assert "unable to replace resource" in run.text
    assert "vision-dev-network-subnet" in run.text
    assert "protect" in run.text


def test_a_queue_goes_as_documented(project, google):
    """docs/upgrading.md, "Taking a queue away". One repository holds the images of all queues, so none goes with it."""
    without = google.names()
    with project.config() as config:
        config["tidemill:queues"]["nightly"] = {
            "images": {"default": "registry://digest:1.0.0"},
            "machines": {"families": ["n2"]},
            "capacity": [{"market": "on_demand", "max_cpus": 32, "reservation": "spare"}],
        }
        config["tidemill:allow"] = ["purge"]
    project.up().ok()
    with project.config() as config:
        del config["tidemill:queues"]["nightly"]
        del config["tidemill:allow"]
    project.up().ok()
    assert sorted(google.names() - without) == []
    assert project.up("--expect-no-changes").ok().plan == []


def test_destroy_stops_while_purge_is_not_allowed_and_names_the_key(project, google):
    there = google.names()
    # Also without the preview that would have stopped it: unprotected resources would be gone by then.
    for run in (project.run("destroy", "--preview-only").refused(), project.destroy().refused()):
        assert "protected" in run.text
        assert "tidemill:allow" in run.text
    assert google.names() == there


def test_with_purge_a_plain_destroy_leaves_nothing(project, google, before):
    bucket = project.descriptor()["store"].removeprefix("gs://")
    google.put_object(bucket, "out/tiles-1/0/result.json", b"{}")
    with project.config() as config:
        config["tidemill:allow"] = ["purge"]
    run = project.up().ok()
    assert not any("delete" in step.op or "replace" in step.op for step in run.steps)
    listed = project.run("destroy", "--preview-only", events=True).ok().steps
    assert {step.op for step in listed} == {"delete"}
    assert len(listed) == len(project.resources())
    project.destroy().ok()
    assert project.resources() == []
    after = google.names()
    assert sorted(after - before) == []
    # An imported repository with images in it stays; a queue goes with its stack.
    assert {name.rpartition("/")[2] for name in before - after} == {"old", "old-work"}
