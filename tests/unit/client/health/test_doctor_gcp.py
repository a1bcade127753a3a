"""Doctor's findings on GCP and the commands it suggests. This cannot prove that Google answers so."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from google.oauth2.credentials import Credentials

from tests.unit.google_fakes import BUCKET, PROJECT, FakeGoogle, Message, gcp_descriptor, gcp_queue, names_of
from tidemill.client import Pipeline
from tidemill.client.health import doctor
from tidemill.client.health.machine_faults import fleet_words, image_problems
from tidemill.client.health.reconciler import read_report
from tidemill.client.site import open_checks
from tidemill.clouds.gcp import login as gcp_login
from tidemill.clouds.gcp import session as gcp_session
from tidemill.clouds.gcp.account import GcpAccount
from tidemill.descriptor import Image
from tidemill.errors import CallerError, CloudError
from tidemill.layout import FLEET_REPORT
from tidemill.services.pubsub.backend import GcpPubSub
from tidemill.services.pubsub.checks import GcpChecks
from tidemill.store import Store

DIGEST = "sha256:" + "a" * 64
REPOSITORY = f"projects/{PROJECT}/locations/europe-west1/repositories/vision-dev"
QUEUES = {"cpu": gcp_queue()}
CPU = names_of(QUEUES["cpu"])


@pytest.fixture
def google():
    google = FakeGoogle()
    google.resources[f"{REPOSITORY}/dockerImages/preprocess@{DIGEST}"] = {"uri": "x"}
    google.points["cpu"] = [(google.now - 100, 7), (google.now - 160, 9)]
    return google


def look(google, monkeypatch, **changes):
    values: dict[str, Any] = {"queues": QUEUES}
    found = GcpChecks(PROJECT, google.session(monkeypatch)).pipeline(gcp_descriptor(**(values | changes)))
    return {finding.check: finding for finding in found}


def test_nothing_is_at_fault(google, monkeypatch):
    found = look(google, monkeypatch)
    assert {check: (finding.verdict, finding.detail) for check, finding in found.items()} == {
        "queue cpu": ("ok", "topic and subscription are there: spot 64 CPUs"),
        "dead letters cpu": ("ok", "none"),
        "backlog cpu": ("ok", "7 messages are not done (100 s ago)"),
        "image cpu/default": ("ok", f"preprocess@{DIGEST}"),
        "logs": ("ok", f"{BUCKET} can be read"),
    }
    assert {finding.command for finding in found.values()} == {""}


def without(*names):
    return lambda google: [google.resources.pop(name) for name in names]


def other_topic(google):
    google.resources[CPU.subscription]["topic"] = "_deleted-topic_"


def dead_letters(google):
    for job, chunk in (("tiles-0a1b2c3d", 1), ("tiles-0a1b2c3d", 2), ("else-0a1b2c3d", 1)):
        google.messages[CPU.dead_letters].append(Message({"job": job, "round": "0", "chunk": str(chunk)}))


def answer(status, error, *apis):
    def refuse(google):
        google.refuse = lambda api, path: (status, {"error": error}) if api in apis else None

    return refuse


OFF = {"message": "has not been used", "details": [{"reason": "SERVICE_DISABLED"}]}
NO = {"message": "no"}


@pytest.mark.parametrize(
    ("given", "check", "verdict", "words", "command"),
    [
        (without(CPU.topic), "queue cpu", "fault", "topics/cpu is not there", "pulumi up"),
        (without(CPU.subscription), "queue cpu", "fault", "messages would be lost", "pulumi up"),
        (other_topic, "queue cpu", "fault", "does not read the queue's topic: messages would", "pulumi up"),
        (without(CPU.dead_letters), "dead letters cpu", "fault", "what is delivered too often would be", "pulumi up"),
        (
            dead_letters,
            "dead letters cpu",
            "warning",
            "3 chunks of 2 jobs, delivered as often as the queue allows",
            "tidemill retry tiles-0a1b2c3d --dead",
        ),
        (answer(403, NO, "pubsub"), "queue cpu", "fault", "topics.get is denied", "pulumi stack output submitters"),
        (
            answer(403, OFF, "pubsub"),
            "queue cpu",
            "fault",
            "pubsub.googleapis.com is off",
            f"gcloud services enable pubsub.googleapis.com --project {PROJECT}",
        ),
        (
            answer(403, {"message": "The API requires a quota project"}, "pubsub"),
            "queue cpu",
            "fault",
            "names no quota project",
            f"gcloud auth application-default set-quota-project {PROJECT}",
        ),
        (answer(400, NO, "pubsub"), "queue cpu", "fault", "was refused: 400: no", "tidemill doctor"),
        (answer(403, NO, "monitoring"), "backlog cpu", "fault", "timeSeries.list is denied", "pulumi stack output"),
        (lambda google: google.points.clear(), "backlog cpu", "unknown", "has no sample", ""),
        (without(f"{REPOSITORY}/dockerImages/preprocess@{DIGEST}"), "image cpu/default", "fault", "not in", "docker p"),
        (answer(403, NO, "artifactregistry"), "image cpu/default", "unknown", "the registry does not tell", ""),
        (answer(403, NO, "logging"), "logs", "fault", "logging.views.access is denied", "pulumi stack output"),
    ],
)
def test_a_fault_has_one_command(google, monkeypatch, *, given, check, verdict, words, command):
    given(google)
    found = look(google, monkeypatch)[check]
    assert found.verdict == verdict
    assert words in found.detail
    assert found.command.startswith(command)
    assert bool(found.command) is bool(command)
    assert all(message.ack_id == "" for message in google.messages[CPU.dead_letters])


def test_a_stack_that_says_too_little(google, monkeypatch):
    found = look(google, monkeypatch, queues={"cpu": gcp_queue(gcp=None)}, log_group=None)
    assert {check: finding.detail for check, finding in found.items()} == {
        "queue cpu": "the descriptor names no Pub/Sub topic",
        "logs": "the descriptor names no log bucket",
    }


def test_an_image_that_its_mirror_may_still_fetch_is_no_fault(google, monkeypatch):
    """A submit stops at a fault, and no machine would ever pull the image."""
    image = QUEUES["cpu"].images["default"].model_copy(update={"mirrored": True})
    google.resources.pop(f"{REPOSITORY}/dockerImages/preprocess@{DIGEST}")
    found = look(google, monkeypatch, queues={"cpu": gcp_queue(images={"default": image})})["image cpu/default"]
    assert (found.verdict, found.command) == ("warning", f"docker pull {image.ref}")


def test_an_image_in_a_folder_of_the_registry_and_one_elsewhere(google, monkeypatch):
    deep = f"europe-west1-docker.pkg.dev/{PROJECT}/vision-dev/team/preprocess@{DIGEST}"
    google.resources[f"{REPOSITORY}/dockerImages/team%2Fpreprocess@{DIGEST}"] = {}
    google.resources[f"{REPOSITORY}/dockerImages/team/preprocess@{DIGEST}"] = {}
    images = {name: Image(ref=ref) for name, ref in (("default", deep), ("hub", "docker.io/x:1"))}
    found = look(google, monkeypatch, queues={"cpu": gcp_queue(images=images)})
    assert (found["image cpu/default"].verdict, found["image cpu/hub"].verdict) == ("ok", "unknown")
    assert any(path.endswith(f"/dockerImages/team%2Fpreprocess@{DIGEST}") for _, path, _ in google.calls)


# ---- login ---------------------------------------------------------------------------------------------------------


def test_the_login_is_named(google, monkeypatch):
    (found, account) = gcp_login.check_login(google.session(monkeypatch))
    assert (found.verdict, found.detail) == ("ok", "ada@example.com (application default credentials)")
    assert account is None


@pytest.mark.parametrize(
    ("error", "command"),
    [
        (CloudError("no Google login was found (x)."), "gcloud auth application-default login"),
        (CallerError("It is missing.", command="pip install 'tidemill[gcp]'"), "pip install 'tidemill[gcp]'"),
    ],
)
def test_no_login(monkeypatch, error, command):
    def none():
        raise error

    monkeypatch.setattr(gcp_login, "default_credentials", none)
    (found,) = doctor.check_pipeline("gs://bucket/pipeline.json")
    assert (found.check, found.verdict, found.command) == ("login", "fault", command)


def test_which_cloud_is_asked():
    ((checks, own),) = open_checks("gs://bucket/pipeline.json", gcp_descriptor())
    assert (type(checks), own) == (GcpChecks, gcp_descriptor())
    assert open_checks("file:///folder/pipeline.json", gcp_descriptor()) == []


def test_submit_asks_for_the_image(google, monkeypatch):
    session = google.session(monkeypatch)
    monkeypatch.setattr(gcp_session, "default_credentials", lambda: Credentials(token="t", account="a@b.c"))
    store = Store.open("memory://")
    store.uri = "gs://bucket"
    pipeline = Pipeline(
        gcp_descriptor(), store, GcpPubSub(gcp_descriptor(), store, GcpAccount(gcp_descriptor(), session))
    )
    assert image_problems(pipeline.site, "cpu", "default") == []
    google.resources.clear()
    (fault,) = image_problems(pipeline.site, "cpu", "default")
    assert fault.detail.endswith("is not in the registry")


# ---- the reconciler ------------------------------------------------------------------------------------------------


def report(store, now, *, age=0.0, spot=None, on_demand=None, **more):
    groups = {"spot": {"target": 500, "running": 120, "stockout": False, "errors": []} | (spot or {})}
    groups |= {"on_demand": {"target": 4, "running": 3, "open": False, "errors": []} | (on_demand or {})}
    at = datetime.fromtimestamp(now - age, UTC).isoformat()
    value = {"at": at, "period_seconds": 120, "queues": {"cpu": {"backlog": 7, "groups": groups, "decisions": []}}}
    store.put(FLEET_REPORT, json.dumps(value | more).encode())


@pytest.fixture
def pipeline(google, monkeypatch):
    store = Store.open("memory://")
    return Pipeline(
        gcp_descriptor(),
        store,
        GcpPubSub(gcp_descriptor(), store, GcpAccount(gcp_descriptor(), google.session(monkeypatch))),
    )


SHORT = "QUOTA_EXCEEDED: CPUS in\n europe-west1"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, []),
        ({"age": 300}, []),
        ({"age": 420}, ["the reconciler has not run since "]),
        (
            {"spot": {"stockout": True, "errors": ["ZONE_RESOURCE_POOL_EXHAUSTED: no"]}, "on_demand": {"open": True}},
            [
                "queue cpu, spot machines: out of stock (120 of 500 run)",
                "queue cpu, on_demand machines: open, because Spot has run dry (3 run)",
            ],
        ),
        (
            {"spot": {"stockout": True}, "on_demand": {"errors": [SHORT, "odd"], "quotas": [SHORT]}},
            [
                "queue cpu, on_demand machines: QUOTA_EXCEEDED: CPUS in europe-west1 (3 of 4 run)",
                "queue cpu, spot machines: out of stock (120 of 500 run)",
                "queue cpu, on_demand machines: odd (3 of 4 run)",
            ],
        ),
    ],
)
def test_what_keeps_machines_from_coming_is_said_worst_first(pipeline, google, given, words):
    report(pipeline.store, google.now, **given)
    said = fleet_words(pipeline.site, "cpu")
    assert len(said) == len(words)
    assert all(one.startswith(word) for one, word in zip(said, words, strict=True))
    assert [one for one in fleet_words(pipeline.site, "long") if not one.startswith("the reconciler")] == []
    found = list(doctor.reconciler_findings(pipeline.site))
    late = "age" in given and bool(words)
    assert found[-1].verdict == ("fault" if late else "ok")
    assert [finding.detail for finding in found[:-1]] == ([] if late else said)


def test_machines_errors_come_after_the_clouds(pipeline, google):
    report(pipeline.store, google.now, spot={"stockout": True})
    error = {"at": datetime.now(UTC).isoformat(), "error": "pull failed"}
    pipeline.store.put("fleet/errors/m-1.json", json.dumps(error).encode())
    assert fleet_words(pipeline.site, "cpu")[1:] == ["m-1: pull failed"]


@pytest.mark.parametrize("data", [None, b"", b"[]", b'{"at": "x"}', b'{"at": "2026-11-21T10:00:00"}'])
def test_a_reconciler_that_has_not_reported(pipeline, data):
    if data is not None:
        pipeline.store.put(FLEET_REPORT, data)
    assert read_report(pipeline.store) is None
    (found,) = doctor.reconciler_findings(pipeline.site)
    assert (found.check, found.verdict) == ("reconciler", "fault")
    assert found.command == f"gcloud scheduler jobs list --project {PROJECT} --location europe-west1"
    assert fleet_words(pipeline.site, "cpu") == []


def test_the_clouds_clock_decides_how_late_it_is(pipeline, google):
    """The answer of any call tells the time; this machine's clock may be wrong."""
    google.now += 7200
    report(pipeline.store, google.now, age=60)
    pipeline.site.backend("cpu").queue_states(QUEUES)
    assert fleet_words(pipeline.site, "cpu") == []
    google.now += 7200
    pipeline.site.backend("cpu").queue_states(QUEUES)
    assert fleet_words(pipeline.site, "cpu")[0].startswith("the reconciler has not run since")
