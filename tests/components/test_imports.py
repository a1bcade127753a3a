"""Imports as the program requests them. tests/engine/test_import.py shows that the engine then imports them."""

from typing import Any

from tests.components.recording import ACCOUNT, GCP_REGION, PROJECT, Made, Recorder
from tests.components.stacks import run_program, run_stack, settings

WORK = {"topic": f"projects/{PROJECT}/topics/old", "subscription": f"projects/{PROJECT}/subscriptions/old-work"}
REPOSITORY = f"projects/{PROJECT}/locations/{GCP_REGION}/repositories/old-images"


def imported(recorder: Recorder) -> dict[str, Made]:
    return {made.options["import"]: made for made in recorder.resources if made.options["import"]}


def run_gcp(**changes: Any) -> Recorder:
    given = {"store": "old-store", "repository": REPOSITORY, "queues": {"cpu": WORK}}
    values = {**settings("vision-gcp-dev"), "gcp:project": PROJECT, "gcp:region": GCP_REGION, "tidemill:imports": given}
    return run_program(values | {f"tidemill:{key}": value for key, value in changes.items()})


def test_nothing_is_imported_without_the_key():
    for stack in ("vision-dev", "vision-gcp-dev"):
        assert imported(run_stack(stack)) == {}


def test_on_gcp_the_names_stay_and_what_holds_data_stays_when_the_stack_goes():
    found = imported(run_gcp())
    assert {made.kind: made.name for made in found.values()} == {
        "storage.Bucket": "vision-dev-store-bucket-old-store",
        "artifactregistry.Repository": "vision-dev-registry-images-old-images",
        "pubsub.Topic": "vision-dev-cpu-topic-old",
        "pubsub.Subscription": "vision-dev-cpu-work-old-work",
    }
    assert found["old-store"].inputs["name"] == "old-store"
    assert found[REPOSITORY].inputs["repositoryId"] == "old-images"
    assert found[WORK["topic"]].inputs["name"] == "old"
    assert found[WORK["subscription"]].inputs["name"] == "old-work"
    assert all(made.options["protect"] for made in found.values())
    assert {made.kind for made in found.values() if made.options["retain"]} == {
        "storage.Bucket",
        "artifactregistry.Repository",
    }


def test_a_purge_takes_nothing_away_that_was_there_before():
    found = imported(run_gcp(allow=["purge"]))
    assert not any(made.options["protect"] for made in found.values())
    assert found["old-store"].options["retain"] is found[REPOSITORY].options["retain"] is True
    found = imported(run_stack("vision-dev", allow=["purge"], imports={"store": "old-store"}))
    assert found["old-store"].options["retain"] is True


def test_images_are_pulled_from_the_repository_that_was_taken_over():
    recorder = run_stack(
        "vision-dev",
        queues={"cpu": {"images": {"default": "registry://preprocess:1.4.1", "other": "registry://other:1"}}},
        imports={"repositories": {"preprocess": "team/old-images"}},
    )
    host = f"{ACCOUNT}.dkr.ecr.us-west-2.amazonaws.com"
    pulled = {}
    for made in recorder.of("batch.JobDefinition"):
        pulled[made.name] = made.document("containerProperties")["image"]
    assert pulled == {
        "vision-dev-cpu-default": f"{host}/team/old-images:1.4.1",
        "vision-dev-cpu-other": f"{host}/vision-dev/other:1",
    }
