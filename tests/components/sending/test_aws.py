"""The sender on AWS: what a stack file's schedules and arrivals make. Recording mocks prove what is requested, not that
AWS accepts it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pulumi
import pytest
from cronsim import CronSim

from components.aws.sending.schedule_times import six_fields
from localcloud.aws.functions.cron import Expression
from tests.components.recording import ACCOUNT, REGION, Recorder
from tests.components.stacks import run_stack

WORKER = "registry://tidemill-worker@sha256:" + 64 * "0"
KINDS = {"lambda.Function", "scheduler.Schedule", "scheduler.ScheduleGroup", "sqs.Queue", "ecr.RepositoryPolicy"}
SCHEDULES = {
    "nightly": {"template": "a", "cron": "30 2 * * *", "timezone": "Europe/Berlin", "queues": ["cpu"]},
    "weekly": {"template": "b", "cron": "0 0 * * 7", "queues": ["cpu"]},
}
ARRIVALS = {"tiles": {"template": "t", "prefix": "s3://incoming/tiles/", "queues": ["cpu"]}}


def stack(**keys: Any) -> Recorder:
    data = {"read": ["s3://raw", "s3://incoming"], "write": ["s3://features/out/"]}
    return run_stack("vision-dev", worker_image=WORKER, data=data, **keys)


@pytest.fixture(scope="module")
def both() -> Recorder:
    return stack(schedules=SCHEDULES, arrivals=ARRIVALS, permission_boundary=f"arn:aws:iam::{ACCOUNT}:policy/b")


def test_without_the_keys_there_is_nothing_and_with_them_a_schedule_each():
    counts = {kind: stack().counts().get(kind, 0) for kind in KINDS}
    assert set(counts.values()) == {0}
    made = stack(schedules=SCHEDULES)
    assert [made.counts().get(kind, 0) for kind in sorted(KINDS)] == [1, 1, 2, 1, 0]


def test_a_preview_says_what_the_owner_of_a_bucket_does(monkeypatch):
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "info", lambda text, *_: said.append(text))
    stack(arrivals=ARRIVALS)
    assert any("the owner of the bucket incoming lets it send notifications to Amazon EventBridge" in it for it in said)


def test_a_schedule_calls_the_function_with_its_name_and_time(both):
    made = both.one("scheduler.Schedule", "vision-dev-sender-schedule-nightly").inputs
    assert (made["name"], made["scheduleExpressionTimezone"]) == ("nightly", "Europe/Berlin")
    assert json.loads(made["target"]["input"]) == {"schedule": "nightly", "time": "<aws.scheduler.scheduled-time>"}
    assert made["target"]["arn"] == "arn:mock:Function:vision-dev-sender-function"
    every = both.one("scheduler.Schedule", "vision-dev-sender-schedule-_arrivals").inputs
    assert (every["scheduleExpression"], json.loads(every["target"]["input"])) == ("rate(1 minute)", {"arrivals": True})


def test_the_function_is_the_image_of_the_workers(both):
    made = both.one("lambda.Function").inputs
    assert made["imageUri"].endswith("/vision-dev/tidemill-worker@sha256:" + 64 * "0")
    assert made["imageConfig"] == {"entryPoints": ["/tidemill/tidemill-worker"], "commands": ["sender"]}
    assert made["environment"]["variables"]["TIDEMILL_PIPELINE"].endswith("/pipeline.json")
    assert made["loggingConfig"]["logGroup"]
    (pulled,) = both.one("ecr.RepositoryPolicy").document("policy")["Statement"]
    assert pulled["Principal"] == {"Service": "lambda.amazonaws.com"}
    own = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:vision-dev-sender-*"
    assert pulled["Condition"] == {"StringLike": {"aws:sourceArn": own}}
    roles = [each for each in both.of("iam.Role") if "-sender-" in each.name]
    assert {each.inputs["permissionsBoundary"] for each in roles} == {f"arn:aws:iam::{ACCOUNT}:policy/b"}


def test_new_objects_wait_in_a_queue_that_admits_their_rule_alone(both):
    pattern = json.loads(both.one("cloudwatch.EventRule", "vision-dev-tiles-rule").inputs["eventPattern"])
    assert pattern["detail"] == {"bucket": {"name": ["incoming"]}, "object": {"key": [{"prefix": "tiles/"}]}}
    queue = both.one("sqs.Queue").inputs
    assert (queue["sqsManagedSseEnabled"], queue["messageRetentionSeconds"]) == (True, 14 * 86_400)
    (admitted,) = both.one("sqs.QueuePolicy").document("policy")["Statement"]
    assert admitted["Condition"]["ArnEquals"]["aws:SourceArn"].startswith("arn:")


def test_the_sender_may_submit_to_the_named_queues_and_write_no_template(both):
    submit, *_ = both.document_of("vision-dev-sender-submit-vision-dev-sender-function")
    assert submit["Action"] == ["batch:SubmitJob", "batch:TagResource"]
    assert all("cpu" in arn for arn in submit["Resource"])
    sent = both.document_of("vision-dev-store-send-vision-dev-sender-function")
    written = [arn for each in sent if "s3:PutObject" in each["Action"] for arn in each["Resource"]]
    assert [arn.rpartition("/")[0].rpartition("/")[2] for arn in written] == ["jobs", "sends"]


@pytest.mark.parametrize(
    ("cron", "zone"),
    [
        ("30 2 * * *", "Europe/Berlin"),
        ("0 0 * * 7", "America/Sao_Paulo"),
        ("*/15 1-3 * * *", "America/New_York"),
        ("5 0 1,15 * *", "Africa/Cairo"),
        ("0 8 29 2 *", "Pacific/Niue"),
        ("0 */6 * JAN,MAR MON-FRI", "Pacific/Kiritimati"),
        ("0 * * * *", "Australia/Lord_Howe"),
    ],
)
def test_eventbridge_fires_within_an_hour_of_every_time_that_cron_knows(cron, zone):
    """Through all changes of clocks of four years; when nothing is due the sender does nothing."""
    begin, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=UTC)
    fired = iter([*Expression(six_fields(cron, zone), zone).between(begin, end), end])
    at = next(fired)
    for due in CronSim(cron, begin.astimezone(ZoneInfo(zone))):
        if (due := due.astimezone(UTC)) > end - timedelta(days=1):
            return
        while at < due:
            at = next(fired)
        assert at - due <= timedelta(hours=1), (due, at)
