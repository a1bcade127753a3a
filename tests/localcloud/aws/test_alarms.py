"""Each alarm of a queue on AWS fires, and tells when it is over: `AwsMonitoring`'s alarms on localcloud's CloudWatch.

What this cannot prove: that CloudWatch evaluates the same expressions alike, above all a running sum over the looks of
an evaluation (docs/first-account.md).
"""

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from components.aws.monitoring.alarms import FEWEST_STARTS, RECLAIM_HOURS, SPARE_LOOKS
from components.aws.monitoring.monitoring import AwsMonitoring, AwsMonitoringArgs
from localcloud.aws import alarms
from localcloud.aws.accounts import service_client
from localcloud.aws.batch.metrics import metrics
from localcloud.aws.mended import gaps  # noqa: F401
from tests.components.recording import Made, run
from tests.localcloud.aws.batch.account import REGION, account
from tests.localcloud.aws.team import SMALL, Team
from tests.localcloud.waiting import until

HOUR, LOOK = 3600, 300
RECOVERS = (SPARE_LOOKS + 1) * LOOK
"""Seconds after which no state of the looks before a chunk started can hold an alarm."""
NOW = float(int(time.time()) // HOUR * HOUR)
QUEUE = "arn:aws:batch:us-west-2:123456789012:job-queue/"


class Watched:
    """The alarms of a queue, its metrics, and a queue of SQS in place of the people who are told.

    Args:
        job_queue: ARN of the job queue; one of its own without.
    """

    def __init__(self, job_queue: str | None = None, **settings: Any) -> None:
        self.name = f"w{uuid.uuid4().hex[:8]}"
        self.job_queue = (job_queue or f"{QUEUE}{self.name}").rpartition("/")[2]
        self._watch, self._sqs = service_client("cloudwatch", REGION), service_client("sqs", REGION)
        self.url = self._sqs.create_queue(QueueName=self.name)["QueueUrl"]
        sns = service_client("sns", REGION)
        topic = sns.create_topic(Name=self.name)["TopicArn"]
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=f"arn:aws:sqs:{REGION}:123456789012:{self.name}")
        args = AwsMonitoringArgs(
            pipeline="v",
            log_group="l",
            queues={"cpu": f"{QUEUE}{self.job_queue}"},
            clusters={"cpu": [f"{self.name}-cluster"]},
            metric_namespace=f"Tidemill/{self.name}",
            notify=["a@example.com"],
            owner="ml-oncall",
            **settings,
        )
        made = run(lambda: AwsMonitoring(f"{self.name}-monitoring", args))
        policy = made.one("sns.TopicPolicy").inputs["policy"]
        own = made.one("sns.TopicPolicy").inputs["arn"]
        sns.set_topic_attributes(TopicArn=topic, AttributeName="Policy", AttributeValue=policy.replace(own, topic))
        for alarm in made.of("cloudwatch.MetricAlarm"):
            self._watch.put_metric_alarm(**_request(alarm, topic))

    def ours(self, name: str, value: float, at: float) -> None:
        """A datapoint of a metric that filters count in the workers' lines."""
        self._put(f"Tidemill/{self.name}", name, {"queue": "cpu"}, value, at)

    def reserve(self, percent: float, at: float) -> None:
        """What ECS says of the queue's machines."""
        self._put("AWS/ECS", "CPUReservation", {"ClusterName": f"{self.name}-cluster"}, percent, at)

    def batch(self, name: str, value: float, at: float) -> None:
        """A metric of Batch itself."""
        metrics.add(REGION, self.job_queue, name, value, at)

    def _put(self, namespace: str, name: str, dimensions: Mapping[str, str], value: float, at: float) -> None:
        datum = {
            "MetricName": name,
            "Dimensions": [{"Name": key, "Value": each} for key, each in dimensions.items()],
            "Timestamp": at,
            "Value": value,
        }
        self._watch.put_metric_data(Namespace=namespace, MetricData=[datum])

    def told(self, at: float) -> list[tuple[str, str, str]]:
        """What people are told by a look at this time: alarm, state, text."""
        alarms.evaluate(REGION, at)
        found = self._sqs.receive_message(QueueUrl=self.url, MaxNumberOfMessages=10).get("Messages", [])
        for each in found:
            self._sqs.delete_message(QueueUrl=self.url, ReceiptHandle=each["ReceiptHandle"])
        said = [json.loads(json.loads(each["Body"])["Message"]) for each in found]
        start = f"{self.name}-monitoring-cpu-"
        return [
            (each["AlarmName"].removeprefix(start), each["NewStateValue"], each["AlarmDescription"]) for each in said
        ]


def _request(alarm: Made, topic: str) -> dict[str, Any]:
    """PutMetricAlarm's request, as the provider makes it."""
    given = alarm.inputs
    assert given["alarmActions"] == given["okActions"], "whoever hears of trouble hears that it is over"
    queries = []
    for each in given["metricQueries"]:
        query = {"Id": each["id"], "ReturnData": each.get("returnData", False)}
        if "expression" in each:
            query |= {"Expression": each["expression"], "Label": each["label"]}
        else:
            metric = each["metric"]
            dimensions = [{"Name": key, "Value": value} for key, value in metric["dimensions"].items()]
            named = {"Namespace": metric["namespace"], "MetricName": metric["metricName"], "Dimensions": dimensions}
            query["MetricStat"] = {"Metric": named, "Period": int(metric["period"]), "Stat": metric["stat"]}
        queries.append(query)
    return {
        "AlarmName": alarm.name,
        "AlarmDescription": given["alarmDescription"],
        "ComparisonOperator": given["comparisonOperator"],
        "Threshold": given["threshold"],
        "EvaluationPeriods": int(given["evaluationPeriods"]),
        "DatapointsToAlarm": int(given["datapointsToAlarm"]),
        "TreatMissingData": given["treatMissingData"],
        "Metrics": queries,
        "AlarmActions": [topic],
        "OKActions": [topic],
    }


@pytest.fixture(autouse=True)
def _no_other_alarms() -> Iterator[None]:
    yield
    watch = service_client("cloudwatch", REGION)
    names = [each["AlarmName"] for each in watch.describe_alarms()["MetricAlarms"]]
    watch.delete_alarms(AlarmNames=names)


def only(told: list[tuple[str, str, str]]) -> tuple[str, str]:
    """The one message: its alarm and state. Its text says who owns the queue and what to type."""
    [(alarm, state, text)] = told
    assert text.split(":")[0] in ("HIGH", "MEDIUM", "LOW")
    assert " Over when " in text
    assert " Owner: ml-oncall. Next: `tidemill " in text
    return alarm, state


def test_failed_items_tell_and_their_end_too():
    watched = Watched(growing_hours=None, full_hours=None, reclaimed_percent=None)
    watched.ours("Items", 100, NOW - 60)
    watched.ours("FailedItems", 30, NOW - 60)
    assert only(watched.told(NOW)) == ("failed", "ALARM")
    assert watched.told(NOW + 60) == []
    assert only(watched.told(NOW + 1800)) == ("failed", "OK")


def test_errors_of_workers_tell():
    watched = Watched()
    for _ in range(11):
        watched.ours("WorkerErrors", 1, NOW - 60)
    assert only(watched.told(NOW)) == ("errors", "ALARM")
    assert only(watched.told(NOW + 1800)) == ("errors", "OK")


def test_a_backlog_that_grows_for_hours_tells_and_a_large_job_does_not():
    watched = Watched(growing_hours=3)
    watched.batch("JobsMovedToRunnable", 10_000, NOW - 3 * HOUR + 60)
    for hour in range(3):
        watched.batch("JobsMovedToStarting", 100, NOW - hour * HOUR - 60)
    assert watched.told(NOW) == [], "one job that is larger than the queue is no growth"
    for hour in range(3):
        watched.batch("JobsMovedToRunnable", 150, NOW + hour * HOUR + 60)
        watched.batch("JobsMovedToStarting", 100, NOW + hour * HOUR + 60)
        assert watched.told(NOW + hour * HOUR) == []
    assert only(watched.told(NOW + 3 * HOUR)) == ("growing", "ALARM")
    watched.batch("JobsMovedToStarting", 100, NOW + 3 * HOUR + 60)
    assert only(watched.told(NOW + 4 * HOUR)) == ("growing", "OK")


WAITED, CAME, STARTED = "JobAttemptRunnableToStartingDuration", "JobsMovedToRunnable", "JobsMovedToStarting"


def test_a_queue_that_cannot_keep_up_tells():
    watched = Watched(full_hours=4, growing_hours=None)
    for hour in range(8):
        at = NOW + hour * HOUR + 60
        watched.batch(CAME, 100, at)
        watched.batch(STARTED, 90 if hour < 6 else 110, at)
        watched.batch(WAITED, 4.5 * HOUR * 1000, at)
    watched.batch(CAME, 4, NOW - HOUR)
    assert only(watched.told(NOW + 3 * HOUR)) == ("full", "ALARM")
    assert watched.told(NOW + 6 * HOUR) == []
    assert only(watched.told(NOW + 9 * HOUR)) == ("full", "OK"), "fewer came than started"


def test_a_job_that_takes_all_night_at_the_cap_tells_nobody():
    watched = Watched(full_hours=4, growing_hours=None)
    watched.batch(CAME, 1200, NOW + 60)
    for hour in range(12):
        watched.batch(STARTED, 100, NOW + hour * HOUR + 120)
        watched.batch(WAITED, hour * HOUR * 1000, NOW + hour * HOUR + 120)
    for look in range(0, 14 * HOUR, HOUR // 4):
        assert watched.told(NOW + look) == []


def test_a_trend_of_reclaims_tells_and_a_few_do_not():
    watched = Watched(reclaimed_percent=30)
    for hour in range(RECLAIM_HOURS):
        watched.batch("JobsMovedToStarting", FEWEST_STARTS - 1, NOW - hour * HOUR - 60)
        watched.ours("Reclaims", FEWEST_STARTS - 1, NOW - hour * HOUR - 60)
    assert watched.told(NOW) == []
    for hour in range(RECLAIM_HOURS):
        watched.batch("JobsMovedToStarting", 1, NOW - hour * HOUR - 60)
    assert only(watched.told(NOW)) == ("reclaims", "ALARM")
    assert only(watched.told(NOW + HOUR)) == ("reclaims", "OK")


class TestNoMachine:
    """The alarm of work that no machine runs, with 60 minutes."""

    def watched(self) -> Watched:
        return Watched(no_machine_minutes=60)

    def test_work_that_waits_tells_and_stays_told_until_a_chunk_starts(self):
        watched, came = self.watched(), NOW - HOUR
        watched.batch("JobsMovedToRunnable", 50, came + 60)
        for minutes in (5, 30, 55):
            assert watched.told(came + minutes * 60) == []
        assert only(watched.told(came + HOUR)) == ("no-machine", "ALARM")
        assert watched.told(came + 6 * HOUR) == [], "it stays, though the work came hours ago"
        watched.batch("JobsMovedToStarting", 1, came + 6 * HOUR + 60)
        assert only(watched.told(came + 6 * HOUR + RECOVERS)) == ("no-machine", "OK")

    def test_cancelled_work_ends_it(self):
        watched, came = self.watched(), NOW - HOUR
        watched.batch("JobsMovedToRunnable", 50, came + 60)
        assert only(watched.told(came + HOUR)) == ("no-machine", "ALARM")
        watched.batch("JobsMovedToFailed", 50, came + 3 * HOUR)
        assert only(watched.told(came + 3 * HOUR + RECOVERS)) == ("no-machine", "OK")

    def test_a_cold_start_and_machines_that_are_busy_tell_nothing(self):
        watched, came = self.watched(), NOW - 2 * HOUR
        watched.batch("JobsMovedToRunnable", 50, came + 60)
        watched.batch("JobsMovedToStarting", 5, came + 6 * 60)
        for look in range(24):
            watched.reserve(100, came + look * LOOK)
            assert watched.told(came + look * LOOK) == []
        watched.batch("JobsMovedToRunnable", 50, came + 2 * HOUR)
        for look in range(24, 40):
            watched.reserve(100, came + look * LOOK)
            assert watched.told(came + look * LOOK) == [], "its machines are busy with long chunks"


def test_machines_that_get_nothing_done_tell():
    watched = Watched(stalled_minutes=15)
    for look in (1, 2, 3):
        watched.reserve(80, NOW - look * LOOK)
    assert only(watched.told(NOW)) == ("stalled", "ALARM")
    watched.ours("Items", 3, NOW + 60)
    assert only(watched.told(NOW + LOOK)) == ("stalled", "OK")


def counted(job_queue: str, name: str) -> float:
    return sum(each.total for _, each in metrics.of(REGION, job_queue.rpartition("/")[2], name))


def test_batch_counts_what_alarms_read():
    """A job that no machine takes and one that runs, through localcloud's Batch."""
    with pytest.MonkeyPatch.context() as patch, account(namespaces=False, submit_rate=1000) as cloud:
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{cloud.port}")
        team = Team(cloud)
        stuck, sound = (team.queue(team.environment(**SMALL)) for _ in range(2))
        watched, start = Watched(stuck, no_machine_minutes=15), time.time()
        team.submit(stuck, "true", cpus=64)
        until(lambda: counted(stuck, "JobsMovedToRunnable") == 2)
        assert only(watched.told(start + 15 * 60)) == ("no-machine", "ALARM")
        team.submit(sound, "true")
        until(lambda: counted(sound, "JobsMovedToSucceeded") == 2)
        moved = ("JobsSubmitted", "JobsMovedToStarting", "JobsMovedToRunning", "JobsMovedToFailed")
        assert [counted(sound, each) for each in moved] == [2, 2, 2, 0]
        assert 0 < counted(sound, "JobAttemptRunnableToStartingDuration") < 60_000


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("FILL(a, 0) - FILL(b, 0)", [1.0, 2.0, -3.0]),
        ("IF(a > 1 AND b == 3, 1, 0)", [None, None, None]),
        ("IF(FILL(a, 0) > 1, a)", [None, 2.0, None]),
        ("RUNNING_SUM(FILL(a, 0))", [1.0, 3.0, 3.0]),
        ("100 * a / FILL(b, 0)", [None, None, None]),
    ],
)
def test_metric_math(expression: str, values: list[float | None]):
    """https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/using-metric-math.html"""
    assert alarms.compute(expression, {"a": [1.0, 2.0, None], "b": [None, None, 3.0]}, 3) == values


@pytest.mark.parametrize("expression", ["SEARCH('x')", "a ** 2", "RATE(a)"])
def test_math_that_is_not_known_is_refused(expression: str):
    with pytest.raises((ValueError, KeyError)):
        alarms.compute(expression, {"a": [1.0]}, 1)
