"""Doctor's findings about what a stack sends by itself. What this cannot prove: what the clouds answer."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import boto3
import pytest
from botocore.stub import Stubber

from tests.unit.client_fakes import descriptor
from tests.unit.template_fakes import World
from tidemill.client.health.sender import sender_findings
from tidemill.clouds.aws import events as aws_events
from tidemill.clouds.findings import Finding
from tidemill.clouds.gcp.events import bucket_finding
from tidemill.clouds.gcp.session import GoogleSession
from tidemill.descriptor import Arrival
from tidemill.errors import CloudError
from tidemill.layout import DESCRIPTOR

PREFIX = "s3://incoming/new/"
TILES = Arrival(template="tiles", queues=["cpu"], prefix=PREFIX, settle_minutes=5, most_per_hour=12, queue="q")
SUBSCRIPTION = "projects/p/subscriptions/tiles"


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """A stack whose descriptor was written now, which is earlier than all that follows."""
    made = World(monkeypatch)
    made.store.put(DESCRIPTOR, b"{}")
    made.now = datetime.now(UTC)

    def denied(*given: object) -> Finding:
        raise CloudError("s3:GetBucketNotification is denied.")

    monkeypatch.setattr(aws_events, "check_bucket", denied)
    return made


def found(world: World) -> list[Finding]:
    """All but those about buckets, whose events nobody here may see."""
    return [finding for finding in sender_findings(world.pipeline.site) if finding.verdict != "unknown"]


def due_tomorrow(world: World) -> str:
    """The schedule's next time that is a day away."""
    return f"{world.now + timedelta(days=2):%Y-%m-%d}T02:00+01:00"


def test_a_schedule_is_well_while_each_of_its_times_has_a_note(world: World) -> None:
    world.schedule(timezone="Etc/GMT-1")
    world.save(items=["a"])
    assert [each.verdict for each in found(world)] == ["ok"], "it has not been due yet"
    world.fire(due_tomorrow(world))
    world.now += timedelta(hours=5)
    (finding,) = found(world)
    assert (finding.verdict, finding.detail[:8]) == ("ok", "sent for")
    world.now += timedelta(days=1)
    (finding,) = found(world)
    assert (finding.verdict, finding.owner) == ("fault", True)
    assert "has noted nothing for" in finding.detail
    assert finding.command.startswith("aws logs tail ")


def test_a_schedule_that_was_never_sent_and_one_whose_sends_fail_are_faults(world: World) -> None:
    world.schedule(timezone="Etc/GMT-1")
    world.now += timedelta(days=3)
    (never,) = found(world)
    assert (never.verdict, "has noted nothing" in never.detail) == ("fault", True)
    for day in (1, 2, 3):
        at = f"{world.now + timedelta(days=day):%Y-%m-%d}T02:00+01:00"
        world.fire(at)
        (finding,) = found(world)
        if day == 1:
            assert (finding.verdict, finding.command) == ("fault", "tidemill template history nightly")
            assert "There is no template" in finding.detail
    assert (finding.verdict, finding.command) == ("warning", "tidemill template resume nightly")


def test_files_that_wait_for_hours_are_a_fault(world: World) -> None:
    world.receive()
    world.save("tiles", items=())
    world.arrive("a")
    assert world.tick()["waits"]
    (finding,) = found(world)
    assert (finding.verdict, finding.detail) == ("ok", "nothing was sent yet")
    world.now += timedelta(hours=3)
    (finding,) = found(world)
    assert (finding.verdict, "files wait since" in finding.detail) == ("fault", True)
    world.tick()
    (finding,) = found(world)
    assert (finding.verdict, finding.detail) == ("ok", "newest send: sent")


# ---- buckets --------------------------------------------------------------------------------------------------------


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stubber]:
    made = boto3.client("s3", region_name="us-west-2", aws_access_key_id="AKID", aws_secret_access_key="key")
    monkeypatch.setattr(aws_events, "client", lambda service, region, session: made)
    with Stubber(made) as stub:
        yield stub


def test_a_bucket_without_eventbridge_is_a_fault_whose_command_keeps_its_other_notifications(s3: Stubber) -> None:
    call, other = (
        "get_bucket_notification_configuration",
        {"TopicArn": "arn:aws:sns:t", "Events": ["s3:ObjectCreated:*"]},
    )
    s3.add_response(call, {"TopicConfigurations": [other]}, {"Bucket": "incoming"})
    finding = aws_events.check_bucket(descriptor(), "arrivals tiles", TILES)
    assert (finding.verdict, finding.owner) == ("fault", True)
    whole = shlex.split(finding.command)[-1]
    assert '"EventBridgeConfiguration": {}' in whole
    assert "arn:aws:sns:t" in whole
    s3.add_response(call, {"EventBridgeConfiguration": {}}, {"Bucket": "incoming"})
    assert aws_events.check_bucket(descriptor(), "arrivals tiles", TILES).verdict == "ok"
    s3.add_client_error(call, "AccessDenied")
    with pytest.raises(CloudError, match="s3:GetBucketNotification is denied"):
        aws_events.check_bucket(descriptor(), "arrivals tiles", TILES)


class Google:
    """Answers with a subscription and a bucket's notifications."""

    def __init__(self, *notifications: dict[str, Any]) -> None:
        self._notifications = notifications

    def call(self, api: str, method: str, path: str, *, action: str) -> dict[str, Any]:
        if api == "pubsub":
            return {"name": path, "topic": "projects/p/topics/tiles"}
        assert path == "storage/v1/b/incoming/notificationConfigs"
        return {"items": [*self._notifications]} if self._notifications else {}


@pytest.mark.parametrize(
    ("notification", "verdict"),
    [
        ({}, "ok"),
        ({"object_name_prefix": "new/"}, "ok"),
        ({"object_name_prefix": "new/tiles/"}, "fault"),
        ({"event_types": ["OBJECT_DELETE"]}, "fault"),
        ({"topic": "//pubsub.googleapis.com/projects/p/topics/other"}, "fault"),
        (None, "fault"),
    ],
)
def test_a_bucket_without_a_notification_for_the_topic_is_a_fault(
    notification: dict[str, Any] | None, verdict: str
) -> None:
    plain = {"topic": "//pubsub.googleapis.com/projects/p/topics/tiles", "event_types": ["OBJECT_FINALIZE"]}
    session = Google(*([] if notification is None else [plain | notification]))
    arrival = TILES.model_copy(update={"prefix": "gs://incoming/new/", "queue": SUBSCRIPTION})
    finding = bucket_finding(cast(GoogleSession, session), "arrivals tiles", arrival)
    assert (finding.verdict, bool(finding.command)) == (verdict, verdict == "fault")
