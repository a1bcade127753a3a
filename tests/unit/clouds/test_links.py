"""Addresses in the clouds' consoles. What this cannot prove: that a console still opens at them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from tests.unit.client_fakes import descriptor
from tidemill.client.plan.spec import build_spec
from tidemill.clouds.links import console_links
from tidemill.descriptor import AwsQueue, Descriptor, GcpQueue
from tidemill.job import JobSpec

BEGAN, UNTIL = datetime(2026, 11, 22, 9, tzinfo=UTC), datetime(2026, 11, 22, 11, 30, tzinfo=UTC)


def spec(**changes: object) -> JobSpec:
    made = build_spec(name="tiles", queue="cpu", command=["x"], chunk_size=1, items_total=1, chunks_total=1)
    return made.model_copy(update={"created_at": BEGAN, "job": "tiles-1a2b3c4d", **changes})


def on_aws(partition: str = "aws") -> Descriptor:
    made = descriptor("s3://vision-store")
    arn = f"arn:{partition}:batch:us-west-2:123456789012:job-queue/vision-cpu"
    queue = made.queues["cpu"].model_copy(update={"aws": AwsQueue(job_queue=arn)})
    return made.model_copy(update={"queues": {"cpu": queue}, "log_group": "/tidemill/vision 'x'"})


def on_gcp() -> Descriptor:
    made = descriptor("gs://vision-store")
    names = {key: f"projects/p/{key}s/vision-cpu" for key in ("topic", "subscription")}
    queue = made.queues["cpu"].model_copy(update={"aws": None, "gcp": GcpQueue(**names, dead_letters="projects/p/d")})
    bucket = "projects/p/locations/europe-west4/buckets/vision-logs"
    return made.model_copy(update={"cloud": "gcp", "account": "p", "queues": {"cpu": queue}, "log_group": bucket})


def unstarred(text: str) -> str:
    """What CloudWatch's console makes of its address."""
    return re.sub(r"(\*[0-9a-f]{2})+", lambda found: bytes.fromhex(found[0].replace("*", "")).decode(), text)


def test_a_job_on_aws():
    found = console_links(on_aws(), spec(), UNTIL)
    assert found
    assert found.queue == (
        "https://us-west-2.console.aws.amazon.com/batch/home?region=us-west-2"
        "#queues/detail/arn:aws:batch:us-west-2:123456789012:job-queue/vision-cpu"
    )
    store = urlsplit(found.store)
    assert store.path == "/s3/buckets/vision-store"
    assert parse_qs(store.query)["prefix"] == ["jobs/tiles-1a2b3c4d/"]
    assert parse_qs(urlsplit(found.outputs).query)["prefix"] == ["out/tiles-1a2b3c4d/"]


def test_the_query_of_a_job_on_aws_is_filled_in():
    found = console_links(on_aws(), spec(), UNTIL)
    assert found
    assert found.log
    place = urlsplit(found.log).fragment
    assert place.startswith("logsV2:logs-insights$3FqueryDetail$3D~(")
    [inner] = re.findall(r"~\((.*)~source~\(~'([^)]*)\)\)$", place)
    parts = re.split("~'?", inner[0])
    told = {key: unstarred(value) for key, value in zip(parts[::2], parts[1::2], strict=True)}
    assert (told["start"], told["end"]) == ("2026-11-22T09:00:00.000Z", "2026-11-22T11:30:00.000Z")
    assert 'filter job = "tiles-1a2b3c4d"' in told["editorString"]
    assert unstarred(inner[1]) == "/tidemill/vision 'x'"


@pytest.mark.parametrize(
    ("partition", "host"), [("aws-cn", "console.amazonaws.cn"), ("aws-us-gov", "console.amazonaws-us-gov.com")]
)
def test_other_partitions_have_consoles_of_their_own(partition: str, host: str):
    found = console_links(on_aws(partition), spec(), UNTIL)
    assert found
    assert urlsplit(found.store).hostname == f"us-west-2.{host}"


def test_a_job_on_gcp():
    found = console_links(on_gcp(), spec(output="gs://other/maps of/ä"), UNTIL)
    assert found
    assert found.queue == "https://console.cloud.google.com/cloudpubsub/subscription/detail/vision-cpu?project=p"
    assert found.store == "https://console.cloud.google.com/storage/browser/vision-store/jobs/tiles-1a2b3c4d/?project=p"
    assert unquote(urlsplit(found.outputs).path) == "/storage/browser/other/maps of/ä/"
    assert found.log
    address, _, query = found.log.partition(";query=")
    assert address == "https://console.cloud.google.com/logs/query"
    words, _, scope = unquote(query).partition(";")
    assert words == 'jsonPayload.job="tiles-1a2b3c4d"\ntimestamp>="2026-11-22T09:00:00.000Z"'
    assert scope == (
        "storageScope=storage,projects/p/locations/europe-west4/buckets/vision-logs/views/_AllLogs?project=p"
    )


def test_what_the_descriptor_does_not_name_has_no_address():
    for made in (on_aws(), on_gcp()):
        found = console_links(made.model_copy(update={"queues": {}, "log_group": None}), spec(), UNTIL)
        assert found
        assert found.queue is None
        assert found.log is None
        assert "vision-store" in found.store
    assert console_links(on_aws().model_copy(update={"cloud": "local"}), spec(), UNTIL) is None
