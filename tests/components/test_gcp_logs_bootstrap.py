"""Log bucket and project bootstrap. Recording mocks prove what is requested, not that Google accepts it."""

import runpy
from functools import partial
from typing import Any

import pulumi
import pytest

from components.config import ConfigError
from components.gcp.bootstrap import SERVICES, GcpBootstrap, GcpBootstrapArgs
from components.gcp.logs import GcpLogs, GcpLogsArgs
from components.gcp.member import Member
from tests.components.recording import GCP_REGION, PROJECT, PROJECT_NUMBER, Recorder, run
from tests.components.stacks import ROOT
from tests.fields import about

BUCKET = f"projects/{PROJECT}/locations/{GCP_REGION}/buckets/v-logs-1a2b3c4"
LOG = f"projects/{PROJECT}/logs/tidemill-v-logs"


def logs(**settings: Any) -> Recorder:
    return run(lambda: GcpLogs("v-logs", GcpLogsArgs(**settings)))


def test_lines_are_kept_for_as_long_as_is_told_and_once():
    made = logs(retention_days=30)
    assert made.counts() == {
        "GcpLogs": 1,
        "logging.Metric": 6,
        "logging.ProjectBucketConfig": 1,
        "logging.ProjectExclusion": 1,
        "logging.ProjectSink": 1,
    }
    bucket = made.one("logging.ProjectBucketConfig")
    assert bucket.inputs == {
        "project": PROJECT, "location": GCP_REGION, "bucketId": "v-logs-1a2b3c4", "retentionDays": 30
    }  # fmt: skip
    assert bucket.options["protect"] is True
    # The id of a deleted bucket is taken for days, so each bucket has its own id; and an id never changes.
    assert bucket.options["ignore_changes"] == ["bucketId"]
    sink = made.one("logging.ProjectSink").inputs
    assert sink["destination"] == f"logging.googleapis.com/{BUCKET}"
    assert sink["filter"] == f'logName = "{LOG}"'
    assert made.one("logging.ProjectExclusion").inputs["filter"] == sink["filter"]


def test_noise_is_stored_nowhere():
    sink = logs(exclude={"chatter": 'jsonPayload.message = "x"'}, archive="bucket")
    for each in sink.of("logging.ProjectSink"):
        assert each.inputs["exclusions"] == [
            {"name": "chatter", "filter": 'jsonPayload.message = "x"'},
            {"name": "debug", "filter": 'jsonPayload.level = "debug"'},
        ]


def test_workers_events_are_counted_by_queue():
    """tests/unit/worker/test_events.py proves that workers say these events, with these fields."""
    made = {each.name: each.inputs for each in logs().of("logging.Metric") if each.name != "v-logs-failed-items"}
    filters = {name: each["filter"].removeprefix(f'logName = "{LOG}" AND ') for name, each in made.items()}
    assert filters == {
        "v-logs-items": 'jsonPayload.event = "chunk"',
        "v-logs-chunk-failures": 'jsonPayload.event = "chunk"',
        "v-logs-reclaims": 'jsonPayload.event = "reclaim"',
        "v-logs-first-items": 'jsonPayload.event = "first_item"',
        "v-logs-worker-errors": 'jsonPayload.event = "worker_error"',
    }
    assert {name: each.get("valueExtractor") for name, each in made.items()} == {
        "v-logs-items": "EXTRACT(jsonPayload.items)",
        "v-logs-chunk-failures": "EXTRACT(jsonPayload.failed)",
        "v-logs-reclaims": None,
        "v-logs-first-items": "EXTRACT(jsonPayload.waited_ms)",
        "v-logs-worker-errors": None,
    }
    for each in made.values():
        # Only a distribution has a sum.
        kind = "DISTRIBUTION" if each.get("valueExtractor") else "INT64"
        assert each["metricDescriptor"]["valueType"] == kind
        assert each["labelExtractors"] == {"queue": "EXTRACT(jsonPayload.queue)"}


def test_failed_items_are_counted():
    metric = logs().one("logging.Metric", "v-logs-failed-items").inputs
    assert metric["filter"] == f'logName = "{LOG}" AND jsonPayload.event = "item" AND jsonPayload.status = "failed"'
    assert metric["metricDescriptor"] == {"metricKind": "DELTA", "valueType": "INT64", "unit": "1"}


def test_names_that_others_use():
    found: list[Any] = []

    def program() -> None:
        made = GcpLogs("v-logs", GcpLogsArgs())
        made.bucket.apply(found.append)
        made.log.apply(found.append)

    run(program)
    assert set(found) == {BUCKET, LOG}


def test_reading_the_lines_of_this_bucket_alone():
    def program() -> None:
        GcpLogs("v-logs", GcpLogsArgs()).grant_read(Member("human", "user:a@example.com"))

    granted = run(program).one("projects.IAMMember").inputs
    assert granted["role"] == "roles/logging.viewAccessor"
    assert granted["condition"]["expression"] == f'resource.name == "{BUCKET}/views/_AllLogs"'


def test_an_archive_in_a_bucket():
    made = logs(archive="bucket")
    bucket = made.one("storage.Bucket")
    assert (bucket.inputs["publicAccessPrevention"], bucket.inputs["uniformBucketLevelAccess"]) == ("enforced", True)
    assert (bucket.options["protect"], bucket.options["retain"]) == (True, True)
    sink = made.one("logging.ProjectSink", "v-logs-archive")
    assert sink.inputs["destination"] == "storage.googleapis.com/v-logs-archive-1a2b3c4"
    assert sink.inputs["uniqueWriterIdentity"] is True
    assert made.one("storage.BucketIAMMember").inputs == {
        "bucket": "v-logs-archive-1a2b3c4",
        "role": "roles/storage.objectCreator",
        "member": "serviceAccount:v-logs-archive@gcp-sa-logging.iam.gserviceaccount.com",
    }


def test_an_archive_in_bigquery():
    made = logs(archive="bigquery", purge=True)
    dataset = made.one("bigquery.Dataset")
    assert dataset.inputs["datasetId"] == "v_logs"
    assert (dataset.inputs["deleteContentsOnDestroy"], dataset.options["protect"]) == (True, False)
    sink = made.one("logging.ProjectSink", "v-logs-archive").inputs
    assert sink["destination"] == f"bigquery.googleapis.com/projects/{PROJECT}/datasets/v_logs"
    assert sink["bigqueryOptions"] == {"usePartitionedTables": True}
    granted = made.one("bigquery.DatasetIamMember").inputs
    assert (granted["role"], granted["datasetId"]) == ("roles/bigquery.dataEditor", "v_logs")
    assert granted["member"] == "serviceAccount:v-logs-archive@gcp-sa-logging.iam.gserviceaccount.com"


def test_a_key_admits_the_account_that_logging_has_for_keys():
    made = logs(kms_key="create")
    admitted = made.one("kms.CryptoKeyIAMMember").inputs
    assert admitted["member"] == f"serviceAccount:cmek-p{PROJECT_NUMBER}@gcp-sa-logging.iam.gserviceaccount.com"
    assert made.one("logging.ProjectBucketConfig").inputs["cmekSettings"] == {"kmsKeyName": "v-logs-key-id"}
    assert not logs().of("kms.CryptoKey")


@pytest.mark.parametrize(
    "settings", [{"retention_days": 0}, {"archive": "tape"}, {"kms_key": "arn:aws:kms:us-west-2:123456789012:key/1"}]
)
def test_logs_alone_refuse_what_a_stack_would(settings):
    ((key, value),) = settings.items()
    with pytest.raises(ConfigError, check=about(f"tidemill:logs.{key}", str(value))):
        logs(**settings)


def test_a_project_gets_its_apis_its_agents_and_a_place_for_state():
    made = run(lambda: GcpBootstrap("t", GcpBootstrapArgs(labels={"owner": "ml-platform"})))
    enabled = made.of("projects.Service")
    assert {each.inputs["service"] for each in enabled} == set(SERVICES)
    assert all(each.inputs["disableOnDestroy"] is False for each in enabled)
    agents = made.of("projects.ServiceIdentity")
    assert {each.inputs["service"].partition(".")[0] for each in agents} == {
        "artifactregistry", "cloudfunctions", "cloudscheduler", "file", "pubsub"
    }  # fmt: skip
    bucket = made.one("storage.Bucket")
    assert bucket.options["protect"] is True
    assert bucket.inputs["versioning"] == {"enabled": True}
    assert bucket.inputs["encryption"] == {"defaultKmsKeyName": "t-state-key-id"}


def test_an_agent_waits_for_its_api():
    made = run(lambda: GcpBootstrap("t", GcpBootstrapArgs()))
    pubsub = made.one("projects.ServiceIdentity", "t-pubsub-agent")
    assert pubsub.options["dependencies"] == [made.one("projects.Service", "t-pubsub").urn]


def test_apis_that_somebody_else_manages_are_left_out():
    made = run(lambda: GcpBootstrap("t", GcpBootstrapArgs(services=["compute.googleapis.com"], purge=True)))
    assert [each.name for each in made.of("projects.Service")] == ["t-compute"]
    assert made.one("storage.Bucket").options["protect"] is False


@pytest.mark.parametrize(("cloud", "home", "ci"), [("aws", "AwsBootstrap", "AwsCi"), ("gcp", "GcpBootstrap", "GcpCi")])
def test_the_program_in_bootstrap_makes_either(cloud, home, ci):
    only = {"aws": "service_linked_roles", "gcp": "services"}[cloud]
    given = {"aws": '["batch.amazonaws.com"]', "gcp": '["compute.googleapis.com"]'}[cloud]
    config = {"tidemill-bootstrap:cloud": cloud, f"tidemill-bootstrap:{only}": given}
    program = partial(runpy.run_path, str(ROOT / "bootstrap" / "__main__.py"), run_name="__main__")
    made = run(program, config=config)
    assert (len(made.of(home)), len(made.of(ci))) == (1, 0)
    config["tidemill-bootstrap:ci"] = '{"repository": "example/infra", "environments": ["prod"]}'
    made = run(program, config=config)
    assert (len(made.of(home)), len(made.of(ci))) == (1, 1)


def test_a_key_of_an_earlier_version_is_read_and_told(monkeypatch: pytest.MonkeyPatch):
    """The engine adds the default of Pulumi.yaml under today's name."""
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda text, *_, **__: said.append(text))
    program = partial(runpy.run_path, str(ROOT / "bootstrap" / "__main__.py"), run_name="__main__")
    old, new = (f"tidemill-bootstrap:{name}" for name in ("serviceLinkedRoles", "service_linked_roles"))
    default = '["batch.amazonaws.com", "spot.amazonaws.com"]'
    for config in ({old: '["batch.amazonaws.com"]', new: default}, {old: '["batch.amazonaws.com"]'}):
        made = run(program, config=config)
        assert [each.name for each in made.of("iam.ServiceLinkedRole")] == ["tidemill-batch"]
    assert said == 2 * [f"{old} is called {new} now. Rename it in the stack file."]
    with pytest.raises(pulumi.RunError, match=rf"^{old}: \[.*\] is not allowed\. Allowed: the value of service_linked"):
        run(program, config={old: '["batch.amazonaws.com"]', new: "[]"})


def test_a_wrong_setting_of_ci_ends_the_program_in_one_line():
    config = {
        "tidemill-bootstrap:service_linked_roles": "[]",
        "tidemill-bootstrap:ci": '{"repository": "example/infra", "enviroments": []}',
    }
    program = partial(runpy.run_path, str(ROOT / "bootstrap" / "__main__.py"), run_name="__main__")
    said = r"tidemill-bootstrap:ci\.enviroments is not a known key\. Did you mean .environments"
    with pytest.raises(pulumi.RunError, match=said):
        run(program, config=config)
