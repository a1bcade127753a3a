"""A service that is in no file of the product: `toy` of tests/outside, which its entry points alone tell of.

tests/unit/client/test_every_cloud.py sends, kills, loses and repairs jobs on it.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import Any

import pytest

from components.config import ConfigError, parse
from components.services.queues import worker_variables
from tests.components.recording import Recorder
from tests.components.stacks import run_program, settings
from tests.unit.client_fakes import FakeBackend, descriptor, queue, uris
from tidemill import services
from tidemill.client import Pipeline, site
from tidemill.descriptor import Descriptor
from tidemill.store import Store

IMAGE = "docker.io/team/toys@sha256:" + 64 * "0"
TOYS = {"images": {"default": IMAGE}, "service": "toy", "options": {"shelf": "blocks"}}


def stack(**queues: Any) -> dict[str, Any]:
    return {"team": "t", "environment": "e", "queues": queues}


def test_its_entry_point_is_found() -> None:
    toy = services.find("toy")
    assert toy
    assert toy.package == "toy_service"
    assert toy in services.in_cloud("aws")
    assert toy not in services.in_cloud("gcp")


def test_a_pipeline_has_queues_of_two_services(monkeypatch: pytest.MonkeyPatch) -> None:
    real, batch = site.open_backend, FakeBackend()
    monkeypatch.setattr(
        site,
        "open_backend",
        lambda service, made, store, _: batch if service.name == "batch" else real(service, made, store, batch),
    )
    made = descriptor("memory://", {"cpu": queue(), "toys": queue(service="toy", aws=None, place={"shelf": "blocks"})})
    pipeline = Pipeline(made, Store.open("memory://"))
    toys = pipeline.submit(["x", "{uri}"], uris(10), queue="toys", name="tiles", chunk_size=1, cpus=0.5)
    pipeline.submit(["x", "{uri}"], uris(3), queue="cpu", name="other")
    assert ([*pipeline.store.list("blocks")], len(batch.arrays)) == ([f"blocks/{toys.id}/{toys.id}-r0-a0.json"], 1)
    assert [(info.name, info.state.detail) for info in pipeline.queues()] == [
        ("cpu", "enabled, valid"),
        ("toys", "blocks stands"),
    ]
    checks = site.open_checks("s3://store/pipeline.json", made)
    assert [(type(each).__name__, [*own.queues]) for each, own in checks] == [
        ("AwsChecks", ["cpu"]),
        ("ToyChecks", ["toys"]),
    ]


def test_a_worker_takes_the_place_of_its_service() -> None:
    assert worker_variables("aws", queue(service="toy")) == {"TIDEMILL_SERVICE": "toy"}
    assert worker_variables("aws", queue()) == worker_variables("aws", queue(service="batch")) == {}
    place = services.of_queue("aws", queue(service="toy")).part("lease").place
    lease = place(None, {"TIDEMILL_JOB": "tiles", "TIDEMILL_ROUND": "0"}, ExitStack()).leases.lease(0)
    assert lease
    assert (lease.job, lease.round) == ("tiles", 0)


@pytest.fixture(scope="module")
def recorder() -> Recorder:
    values = settings("demo-aws")
    return run_program(values | {"tidemill:queues": {**values["tidemill:queues"], "toys": TOYS}})


def test_a_stack_puts_its_queue_into_the_descriptor(recorder: Recorder) -> None:
    written = json.loads(recorder.one("s3.BucketObjectv2").inputs["content"])
    cpu, toys = written["queues"]["cpu"], written["queues"]["toys"]
    assert {"service", "place"}.isdisjoint(cpu)
    assert (toys["service"], toys["place"], toys["images"]["default"]["ref"]) == ("toy", {"shelf": "blocks"}, IMAGE)
    assert Descriptor.model_validate(written).queues["toys"].block == {"shelf": "blocks"}


def test_a_stack_makes_nothing_else_of_it(recorder: Recorder) -> None:
    assert [made.name for made in recorder.of("AwsBatchQueue")] == ["demo-local-cpu"]
    definition = recorder.one("batch.JobDefinition").inputs["containerProperties"]
    assert "TIDEMILL_SERVICE" not in definition


def test_a_pipeline_may_have_its_queues_alone() -> None:
    made = run_program(settings("demo-aws") | {"tidemill:queues": {"toys": TOYS}})
    written = Descriptor.model_validate_json(made.one("s3.BucketObjectv2").inputs["content"])
    assert [*written.queues] == ["toys"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"toys": TOYS | {"service": "toi"}}, r'queues\.toys\.service: "toi" .* services of AWS: batch, toy\. '),
        ({"toys": TOYS | {"service": "pubsub"}}, r'queues\.toys\.service: "pubsub" .* services of AWS: batch, toy\. '),
        ({"toys": TOYS | {"service": "local"}}, r'queues\.toys\.service: "local" .* services of AWS: batch, toy\. '),
        ({"toys": TOYS | {"options": {"shelf": 3}}}, r"queues\.toys\.options\.shelf: 3 .* a text"),
        ({"toys": TOYS | {"options": {}}}, r"queues\.toys\.options\.shelf is missing"),
        ({"cpu": TOYS | {"service": "batch"}}, r"queues\.cpu\.options: .* only for a service that a package adds"),
    ],
)
def test_a_wrong_key_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse(stack(**given))


def test_a_queue_may_name_its_clouds_own_service() -> None:
    named = parse(stack(cpu={"images": {"default": IMAGE}, "service": "batch"}))
    assert named.queues["cpu"].service == "batch"
