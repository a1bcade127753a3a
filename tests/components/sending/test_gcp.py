"""The sender on GCP and its arrivals. Recording mocks prove what is requested, not that Google accepts it."""

import base64
import json
from typing import Any

import pytest

from tests.components.recording import PROJECT, PROJECT_NUMBER, Recorder
from tests.components.stacks import run_stack, settings
from tests.components.test_gcp_program import descriptor_of

IMAGE = f"us-central1-docker.pkg.dev/{PROJECT}/demo-local/tidemill-worker@sha256:{64 * '1'}"
SENDER, TIMER = (f"serviceAccount:demo-local-{name}@{PROJECT}.iam.gserviceaccount.com" for name in ("sender", "timer"))
NIGHTLY = {"template": "nightly", "cron": "0 2 * * *", "timezone": "Europe/Berlin", "queues": ["cpu"]}
HOURLY = {"template": "report", "cron": "0 * * * *"}
TILES = {"template": "tiles", "prefix": "gs://tidemill-demo-photos/new/"}
OTHER_QUEUE = {
    "images": {"default": "docker.io/team/preprocess@sha256:" + 64 * "0"},
    "machines": {"families": ["n2"], "cpus": 2},
    "capacity": [{"market": "spot", "max_cpus": 8}],
}


def made(**changes: Any) -> Recorder:
    return run_stack("demo-gcp", worker_image=IMAGE, **changes)


@pytest.fixture(scope="module")
def sent() -> Recorder:
    """The demo with a second queue, two schedules and an arrival, all for the first queue."""
    queues = {**settings("demo-gcp")["tidemill:queues"], "other": OTHER_QUEUE}
    arrivals = {"tiles": {**TILES, "queues": ["cpu"]}}
    return made(
        queues=queues, schedules={"nightly": NIGHTLY, "hourly": {**HOURLY, "queues": ["cpu"]}}, arrivals=arrivals
    )


def held_by(recorder: Recorder, member: str) -> list[tuple[str, str, str]]:
    """Kind, name and role of all grants of a member."""
    held = [each for each in recorder.resources if each.inputs.get("member") == member]
    return sorted((each.kind, each.name.removeprefix("demo-local-"), each.inputs["role"]) for each in held)


def test_without_schedules_and_arrivals_nothing_of_it_exists():
    recorder = made()
    assert not [each.name for each in recorder.resources if {"sender", "arrivals"} & set(each.name.split("-"))]
    assert len(recorder.of("cloudscheduler.Job")) == 1, "the reconciler's"
    assert recorder.of("cloudrunv2.Service") == []


def test_a_scheduler_for_each_schedule_in_its_zone_and_one_that_looks_for_files(sent: Recorder):
    jobs = {each.name.removeprefix("demo-local-"): each.inputs for each in sent.of("cloudscheduler.Job")}
    assert {name: (job["schedule"], job["timeZone"]) for name, job in jobs.items()} == {
        "reconciler-schedule": ("*/2 * * * *", "Etc/UTC"),
        "sender-at-nightly": ("0 2 * * *", "Europe/Berlin"),
        "sender-at-hourly": ("0 * * * *", "UTC"),
        "sender-look": ("* * * * *", "Etc/UTC"),
    }
    bodies = {name: job["httpTarget"].get("body") for name, job in jobs.items()}
    events = {name: json.loads(base64.b64decode(body)) for name, body in bodies.items() if body}
    assert events == {
        "sender-at-nightly": {"schedule": "nightly"},
        "sender-at-hourly": {"schedule": "hourly"},
        "sender-look": {"arrivals": True},
    }
    retried = {name for name, job in jobs.items() if "retryConfig" in job}
    assert retried == {"sender-at-nightly", "sender-at-hourly"}, "the next look comes soon enough"


def test_only_the_timers_account_may_call_it_and_only_from_inside(sent: Recorder):
    (invoker,) = [each for each in sent.of("cloudrunv2.ServiceIamMember") if "sender" in each.name]
    assert (invoker.inputs["role"], invoker.inputs["member"]) == ("roles/run.invoker", TIMER)
    assert held_by(sent, TIMER) == [("cloudrunv2.ServiceIamMember", "sender-invoker", "roles/run.invoker")]
    service = sent.one("cloudrunv2.Service").inputs
    assert service["ingress"] == "INGRESS_TRAFFIC_INTERNAL_ONLY"
    assert service["deletionProtection"] is False
    for each in sent.of("cloudscheduler.Job"):
        email = each.inputs["httpTarget"]["oidcToken"]["serviceAccountEmail"]
        assert (f"serviceAccount:{email}" == TIMER) == ("sender" in each.name)


def test_it_is_the_worker_image_with_an_account_of_its_own_and_at_most_once(sent: Recorder):
    template = sent.one("cloudrunv2.Service").inputs["template"]
    assert f"serviceAccount:{template['serviceAccount']}" == SENDER
    assert template["scaling"] == {"minInstanceCount": 0, "maxInstanceCount": 1}
    assert template["maxInstanceRequestConcurrency"] == 1
    (container,) = template["containers"]
    assert (container["image"], container["commands"], container["args"]) == (
        IMAGE,
        ["/tidemill/tidemill-worker"],
        ["sender"],
    )
    store = descriptor_of(sent).store
    assert {each["name"]: each["value"] for each in container["envs"]} == {
        "TIDEMILL_PIPELINE": f"{store}/pipeline.json",
        "TIDEMILL_LOGIN": "machine",
    }


def test_the_sender_submits_to_its_queue_reads_and_notes_and_nothing_else(sent: Recorder):
    bucket, topic = "storage.BucketIAMMember", "pubsub.TopicIAMMember"
    subscription = "pubsub.SubscriptionIAMMember"
    assert held_by(sent, SENDER) == [
        ("artifactregistry.RepositoryIamMember", "registry-pull-sender", "roles/artifactregistry.reader"),
        (subscription, "arrivals-tiles-take-sender", "roles/pubsub.subscriber"),
        (subscription, "cpu-look-work-sender", "roles/pubsub.viewer"),
        (topic, "cpu-look-sender", "roles/pubsub.viewer"),
        (topic, "cpu-submit-sender", "roles/pubsub.publisher"),
        (bucket, "identity-read-tidemill-demo-photos-sender", "roles/storage.objectViewer"),
        (bucket, "store-hold-sender", "roles/storage.objectUser"),
        (bucket, "store-list-sender", "roles/storage.legacyBucketReader"),
        (bucket, "store-look-sender", "roles/storage.objectViewer"),
        (bucket, "store-note-sender", "roles/storage.objectCreator"),
        (bucket, "store-submit-sender", "roles/storage.objectUser"),
    ]


def test_new_files_of_a_bucket_wait_in_a_subscription_that_the_descriptor_names(sent: Recorder):
    told = sent.one("storage.Notification").inputs
    assert (told["bucket"], told["objectNamePrefix"]) == ("tidemill-demo-photos", "new/")
    assert (told["eventTypes"], told["payloadFormat"]) == (["OBJECT_FINALIZE"], "NONE")
    waits = sent.one("pubsub.Subscription", "demo-local-arrivals-tiles-work")
    assert (waits.inputs["messageRetentionDuration"], waits.inputs["expirationPolicy"]) == ("2678400s", {"ttl": ""})
    (agent,) = [each for each in sent.of("pubsub.TopicIAMMember") if each.name.endswith("tiles-tell-storage")]
    assert agent.inputs["member"] == (
        f"serviceAccount:service-{PROJECT_NUMBER}@gs-project-accounts.iam.gserviceaccount.com"
    )
    assert {agent.urn, waits.urn} <= set(sent.one("storage.Notification").options["dependencies"])
    descriptor = descriptor_of(sent)
    assert descriptor.arrivals["tiles"].queue == "demo-local-arrivals-tiles-work-id"
    assert descriptor.schedules["nightly"].queues == ["cpu"]


def test_its_lines_go_to_the_stacks_log_bucket(sent: Recorder):
    lines = sent.one("logging.ProjectSink", "demo-local-sender-lines").inputs
    assert 'resource.labels.service_name = "demo-local-sender-run-' in lines["filter"]
