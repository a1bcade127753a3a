"""The reconciler's infrastructure. Recording mocks prove what is requested, not that Google accepts it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pulumi
import pytest

from components.services.pubsub import reconciler
from components.services.pubsub.reconciler import GcpReconciler, GcpReconcilerArgs, digest, source
from tests.components.recording import GCP_REGION, PROJECT, PROJECT_NUMBER, Recorder, run

FLEET = {"name": "cpu", "subscription": "work", "topic": "projects/p/topics/t", "groups": []}
ACCOUNT = f"{{0}}@{PROJECT}.iam.gserviceaccount.com"
MEMBER = f"serviceAccount:{ACCOUNT}"
LOG_BUCKET = "projects/p/locations/l/buckets/b"


def made(**more: Any) -> Recorder:
    def program() -> None:
        args = GcpReconcilerArgs(fleets=[pulumi.Output.from_input(FLEET)], bucket="store", **more)
        GcpReconciler("vision-dev-reconciler", args)

    return run(program)


def function(recorder: Recorder) -> dict[str, Any]:
    return recorder.one("cloudfunctionsv2.Function").inputs


def test_what_it_is_made_of():
    parts = {
        "GcpReconciler": 1,
        "artifactregistry.Repository": 1,
        "artifactregistry.RepositoryIamMember": 1,
        "cloudfunctionsv2.Function": 1,
        "cloudrunv2.ServiceIamMember": 1,
        "cloudscheduler.Job": 1,
        "projects.IAMCustomRole": 1,
        "projects.IAMMember": 3,
        "serviceaccount.Account": 3,
        "storage.BucketObject": 1,
    }
    assert made().counts() == parts
    assert made(log_bucket=LOG_BUCKET).counts() == dict(sorted({**parts, "logging.ProjectSink": 1}.items()))


def test_it_may_do_what_it_does_and_nothing_else():
    """The list comes from the method pages; localcloud checks every call against it."""
    recorder = made()
    role = recorder.one("projects.IAMCustomRole").inputs
    assert role["permissions"] == [
        "compute.autoscalers.get",
        "compute.autoscalers.update",
        "compute.instanceGroupManagers.get",
        "compute.instanceGroupManagers.update",
        "monitoring.timeSeries.list",
    ]
    granted = {each.name: each.inputs for each in recorder.of("projects.IAMMember")}
    own = granted.pop("vision-dev-reconciler-reconciler-grant")
    assert own == {
        "project": PROJECT,
        "role": f"projects/{PROJECT}/roles/vision_dev_reconciler",
        "member": MEMBER.format("vision-dev-reconciler"),
    }
    assert {each["member"] for each in granted.values()} == {MEMBER.format("vision-dev-builder")}


def test_the_build_has_an_account_of_its_own_that_reads_no_bucket_but_the_builds():
    recorder = made()
    granted = {each.inputs["role"]: each.inputs for each in recorder.of("projects.IAMMember")}
    sources = granted["roles/storage.objectViewer"]["condition"]
    bucket = f"gcf-v2-sources-{PROJECT_NUMBER}-{GCP_REGION}"
    assert sources["expression"] == f'resource.name.startsWith("projects/_/buckets/{bucket}")'
    assert "condition" not in granted["roles/logging.logWriter"]
    (images,) = recorder.of("artifactregistry.RepositoryIamMember")
    assert images.inputs["role"] == "roles/artifactregistry.writer"
    assert images.inputs["repository"] == "vision-dev-reconciler-images-1a2b3c4"
    build = function(recorder)["buildConfig"]
    assert build["serviceAccount"] == "vision-dev-reconciler-builder-1a2b3c4"
    assert build["dockerRepository"] == "vision-dev-reconciler-images-id"
    waits = recorder.one("cloudfunctionsv2.Function").options["dependencies"]
    assert {each.urn for each in (images, *recorder.of("projects.IAMMember")) if "builder" in each.name} <= set(waits)


def test_no_primitive_role_and_no_default_account():
    for each in made(log_bucket=LOG_BUCKET).resources:
        role = each.inputs.get("role", "")
        assert role not in ("roles/owner", "roles/editor", "roles/viewer"), each.name
        assert "-compute@developer" not in json.dumps(each.inputs, default=str), each.name


def test_the_scheduler_alone_may_call_it_and_only_from_inside():
    recorder = made()
    (invoker,) = recorder.of("cloudrunv2.ServiceIamMember")
    assert invoker.inputs["role"] == "roles/run.invoker"
    assert invoker.inputs["member"] == MEMBER.format("vision-dev-scheduler")
    service = function(recorder)["serviceConfig"]
    assert service["ingressSettings"] == "ALLOW_INTERNAL_ONLY"
    assert service["serviceAccountEmail"] == ACCOUNT.format("vision-dev-reconciler")
    job = recorder.one("cloudscheduler.Job")
    address = f"https://{recorder.one('cloudfunctionsv2.Function').name}.run.app"
    assert job.inputs["httpTarget"] == {
        "httpMethod": "POST",
        "uri": address,
        "oidcToken": {"serviceAccountEmail": ACCOUNT.format("vision-dev-scheduler"), "audience": address},
    }
    assert invoker.urn in job.options["dependencies"]


def test_one_at_a_time_and_none_when_idle():
    service = function(made())["serviceConfig"]
    wanted = {"minInstanceCount": 0, "maxInstanceCount": 1, "maxInstanceRequestConcurrency": 1, "timeoutSeconds": 110}
    assert {key: service[key] for key in wanted} == wanted


@pytest.mark.parametrize(("minutes", "schedule"), [(2, "*/2 * * * *"), (5, "*/5 * * * *")])
def test_how_often(minutes, schedule):
    recorder = made(period_minutes=minutes)
    job = recorder.one("cloudscheduler.Job").inputs
    assert (job["schedule"], job["timeZone"]) == (schedule, "Etc/UTC")
    assert "retryConfig" not in job  # none is the default, and the next run comes soon enough
    settings = json.loads(function(recorder)["serviceConfig"]["environmentVariables"]["RECONCILER_SETTINGS"])
    assert settings == {
        "project": PROJECT,
        "region": GCP_REGION,
        "bucket": "store",
        "period_seconds": minutes * 60,
        "queues": [FLEET],
    }


@pytest.mark.parametrize("minutes", [0, 11])
def test_the_period_is_one_to_ten_minutes(minutes):
    with pytest.raises(ValueError, match=f"period_minutes is {minutes}; allowed: 1 to 10"):
        made(period_minutes=minutes)


def test_its_lines_go_to_the_stacks_bucket():
    sink = made(log_bucket=LOG_BUCKET).one("logging.ProjectSink").inputs
    assert sink["destination"] == f"logging.googleapis.com/{LOG_BUCKET}"
    assert sink["filter"].startswith('resource.type = "cloud_run_revision" AND resource.labels.service_name = "vision-')


def test_the_source_is_named_by_its_content_and_the_same_everywhere():
    recorder = made()
    uploaded = recorder.one("storage.BucketObject").inputs
    files = source()
    assert uploaded["name"] == f"reconciler/{digest(files)[:16]}.zip"
    assert function(recorder)["buildConfig"]["source"]["storageSource"]["object"] == uploaded["name"]
    archive = uploaded["source"]
    assert isinstance(archive, pulumi.AssetArchive)
    texts = {path: getattr(asset, "text", None) for path, asset in archive.assets.items()}
    assert texts == files
    assert "" not in files.values(), "the SDK cannot read an asset without text back from the engine"
    assert digest(dict(reversed(files.items()))) == digest(files)
    assert digest({**files, "main.py": files["main.py"] + " "}) != digest(files)


def test_the_source_runs_where_it_is_unpacked(tmp_path: Path):
    """As the functions framework runs it: `main` at the top, the entry point by its name; no package of ours."""
    for path, text in source().items():
        target = tmp_path / path
        target.parent.mkdir(exist_ok=True)
        target.write_text(text)
    program = f"import main; print(main.{reconciler.ENTRY}.__module__); import sys; print('components' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {program}"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("reconciler_function.main\nFalse\n", "")


def test_what_the_source_needs_is_pinned():
    lines = source()["requirements.txt"].split()
    assert [line.partition("==")[0] for line in lines] == ["google-auth", "requests"]
    assert all(line.partition("==")[2] for line in lines)
