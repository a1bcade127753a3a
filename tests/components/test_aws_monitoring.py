"""Dashboard and alarms on AWS. Recording mocks prove what is requested; the arithmetic of the alarms is worked out here
as CloudWatch documents it, not by CloudWatch."""

import json
import re
from types import SimpleNamespace
from typing import Any

import pytest

from components.aws.monitoring.alarms import FEWEST_ITEMS
from components.aws.monitoring.metrics import COUNTED, FAILED, RUNNABLE, STARTING, SUBMITTED, SUCCEEDED, WAITED
from components.aws.monitoring.monitoring import AwsMonitoring, AwsMonitoringArgs
from components.aws.monitoring.queries import QUERIES
from components.config import ConfigError, Monitoring, part
from localcloud.aws.iam import DIRECT, Query, refusal
from localcloud.aws.mended import insights, quotas
from tests.components.recording import ACCOUNT, REGION, Made, Recorder, run
from tests.components.stacks import run_stack

QUEUE = "arn:aws:batch:us-west-2:123456789012:job-queue/vision-dev-cpu"
OURS = {("Tidemill/v", counted.name) for counted in COUNTED.values()}
CLOUDS = {("AWS/ECS", "CPUReservation"), ("AWS/ECS", "MemoryReservation")}
BATCHES = {("AWS/Batch", name) for name in (SUBMITTED, RUNNABLE, STARTING, SUCCEEDED, FAILED, WAITED)}
"""https://docs.aws.amazon.com/AmazonECS/latest/developerguide/available-metrics.html"""
WIDGETS = {"alarm", "log", "metric", "text"}


def monitoring(**settings: Any) -> Recorder:
    given: dict[str, Any] = {"pipeline": "v", "log_group": "v-logs", "queues": {"cpu": QUEUE}}
    given |= {"clusters": {"cpu": ["spot-cluster", "more-cluster"]}, "metric_namespace": "Tidemill/v"}
    return run(lambda: AwsMonitoring("v-monitoring", AwsMonitoringArgs(**given | settings)))


def told(**settings: Any) -> Recorder:
    return monitoring(notify=["b@example.com", "A.b@example.com"], **settings)


def metrics_of(alarm: Made) -> set[tuple[str, str]]:
    found = [query["metric"] for query in alarm.inputs["metricQueries"] if "metric" in query]
    return {(metric["namespace"], metric["metricName"]) for metric in found}


def test_without_keys_there_is_nothing_to_pay():
    made = run_stack("vision-prod")
    kinds = {each.kind for each in made.resources}
    assert not kinds & {"AwsMonitoring", "cloudwatch.MetricAlarm", "cloudwatch.Dashboard", "sns.Topic"}
    assert len(made.of("cloudwatch.LogMetricFilter")) == len(COUNTED)


def test_saved_queries_read_this_stacks_lines():
    made = monitoring(queries=True)
    assert made.counts() == {"AwsMonitoring": 1, "cloudwatch.QueryDefinition": len(QUERIES)}
    for each in made.of("cloudwatch.QueryDefinition"):
        assert each.inputs["name"].startswith("v/")
        assert each.inputs["logGroupNames"] == ["v-logs"]


def test_saved_queries_find_what_they_name():
    """Localcloud's Insights knows only a part of the language; CloudWatch knows it all."""
    lines: list[dict[str, Any]] = [
        {"event": "item", "status": "failed", "job": "a", "item": 3},
        {"event": "item", "status": "succeeded", "job": "a"},
        {"event": "worker_error", "level": "error", "code": 71},
        {"job": "NAME-1a2b3c4d", "item": 7, "message": "hello"},
    ]
    events = [SimpleNamespace(timestamp=n, message=json.dumps(each), event_id=n) for n, each in enumerate(lines)]
    group = SimpleNamespace(streams={"s": SimpleNamespace(events=events, log_stream_name="s")})
    found = [[row["@ptr"] for row in insights.run([group], text, 0, 9)] for text in QUERIES.values()]
    assert found == [["0"], ["2"], ["3"]]


def test_each_queue_has_its_alarms_and_all_have_the_same_rules():
    assert told().counts() == {
        "AwsMonitoring": 1,
        "cloudwatch.EventRule": 2,
        "cloudwatch.EventTarget": 2,
        "cloudwatch.MetricAlarm": 5,
        "sns.Topic": 1,
        "sns.TopicPolicy": 1,
        "sns.TopicSubscription": 2,
    }


ALARM = f"arn:aws:cloudwatch:{REGION}:{ACCOUNT}:alarm:v-monitoring-cpu-failed-1a2b3c4"


@pytest.mark.parametrize(
    ("service", "action", "source", "account", "may"),
    [
        ("cloudwatch", "sns:Publish", ALARM, ACCOUNT, True),
        ("cloudwatch", "sns:Publish", ALARM.replace("alarm:v-", "alarm:w-"), ACCOUNT, False),
        ("cloudwatch", "sns:Publish", ALARM.replace(ACCOUNT, "210987654321"), "210987654321", False),
        ("cloudwatch", "sns:Publish", None, None, False),
        ("cloudwatch", "sns:Subscribe", ALARM, ACCOUNT, False),
        ("events", "sns:Publish", None, None, True),
        ("events", "sns:Subscribe", None, None, False),
        ("events", "sns:SetTopicAttributes", None, None, False),
        ("s3", "sns:Publish", None, None, False),
        ("budgets", "sns:Publish", None, ACCOUNT, False),
    ],
)
def test_who_may_publish(service: str, action: str, source: str | None, account: str | None, may: bool):
    """EventBridge hands SNS no rule and no account, so its grant cannot name them."""
    made = told()
    statements = made.document_of("v-monitoring-alarms-policy")
    topic = made.one("sns.TopicPolicy").inputs["arn"]
    given = {"aws:sourcearn": source, "aws:sourceaccount": account}
    context = {key: value for key, value in given.items() if value}
    query = Query(action, topic, {f"Service:{service}.amazonaws.com": DIRECT}, context)
    policy = {"Version": "2012-10-17", "Statement": statements}
    assert (refusal(query, [], policy, resource_decides=True) is None) is may
    assert all(each.name.startswith("v-monitoring-") for each in made.of("cloudwatch.MetricAlarm"))


def test_addresses_that_would_share_a_name_are_two_subscriptions():
    wanted = ["ml.oncall@example.com", "ml-oncall@example.com", "ML-oncall@example.com"]
    made = monitoring(notify=wanted).of("sns.TopicSubscription")
    assert {each.inputs["endpoint"] for each in made} == set(wanted)
    assert len({each.urn for each in made}) == 3
    alone = monitoring(notify=["ml.oncall@example.com"]).one("sns.TopicSubscription")
    assert alone.name == "v-monitoring-ml-oncall-example-com"


def longest_queues(number: int) -> dict[str, str]:
    """Queues that were imported, with the longest names of Batch in the partition with the longest name."""
    start = "arn:aws-us-gov:batch:us-gov-west-1:123456789012:job-queue/"
    return {f"q{each}": start + f"{each:03}".ljust(128, "q") for each in range(number)}


def test_rules_of_fifty_queues_fit_eventbridge():
    queues = longest_queues(50)
    made = told(queues=queues, clusters={})
    rules = made.of("cloudwatch.EventRule")
    assert len(rules) == 2 * 7
    assert max(len(each.inputs["eventPattern"]) for each in rules) <= quotas.PATTERN_CHARACTERS
    for kind in ("stuck", "ended"):
        patterns = [each.document("eventPattern") for each in rules if f"-{kind}" in each.name]
        assert [arn for each in patterns for arn in each["detail"]["jobQueue"]] == list(queues.values())


def test_a_dashboard_of_many_alarms_has_a_widget_for_each_hundred():
    made = told(queues=longest_queues(30), clusters={}, stalled_minutes=60, dashboard=True)
    widgets = made.one("cloudwatch.Dashboard").document("dashboardBody")["widgets"]
    alarms = [widget["properties"]["alarms"] for widget in widgets if widget["type"] == "alarm"]
    assert [len(each) for each in alarms] == [100, 80]
    assert len({alarm for each in alarms for alarm in each}) == 180


def test_an_existing_topic_is_told_and_not_changed():
    topic = "arn:aws:sns:us-west-2:123456789012:oncall"
    made = monitoring(topic=topic)
    assert not made.of("sns.Topic") + made.of("sns.TopicPolicy") + made.of("sns.TopicSubscription")
    assert {each.inputs["arn"] for each in made.of("cloudwatch.EventTarget")} == {topic}
    assert all(each.inputs["alarmActions"] == [topic] for each in made.of("cloudwatch.MetricAlarm"))


def test_an_event_names_the_queue_the_reason_and_the_command():
    made = told()
    rule = made.one("cloudwatch.EventRule", "v-monitoring-stuck").document("eventPattern")
    assert rule == {
        "source": ["aws.batch"],
        "detail-type": ["Batch Job Queue Blocked"],
        "detail": {"jobQueue": [QUEUE]},
    }
    transformer = made.one("cloudwatch.EventTarget", "v-monitoring-stuck-topic").inputs["inputTransformer"]
    text = json.loads(transformer["inputTemplate"])
    assert text.startswith("HIGH: Queue <queue>")
    assert " Owner: v. Next: " in text
    # Whoever may send a job chooses its name: `x; curl …`.
    assert "<" not in text.partition(" Next: ")[2]
    assert "tidemill explain JOB" in text
    assert set(re.findall(r"<(\w+)>", text)) <= transformer["inputPaths"].keys()


def test_a_failed_array_is_told_and_its_children_and_cancelled_ones_are_not():
    detail = told().one("cloudwatch.EventRule", "v-monitoring-ended").document("eventPattern")["detail"]
    assert detail["arrayProperties"] == {"index": [{"exists": False}]}
    assert detail["statusReason"] == [{"exists": False}, {"anything-but": {"prefix": "cancelled: "}}]


@pytest.mark.parametrize(
    ("items", "failed", "alarms"),
    [(1000, 0, False), (1000, 200, False), (1000, 201, True), (FEWEST_ITEMS - 1, 19, False), (FEWEST_ITEMS, 5, True)],
)
def test_when_failed_items_tell(items: int, failed: int, alarms: bool):
    alarm = told().one("cloudwatch.MetricAlarm", "v-monitoring-cpu-failed").inputs
    assert alarm["metricQueries"][0]["expression"] == "IF(items >= 20, 100 * FILL(failed, 0) / items, 0)"
    rate = 100 * failed / items if items >= 20 else 0
    assert (rate > alarm["threshold"]) is alarms
    assert (alarm["comparisonOperator"], alarm["treatMissingData"]) == ("GreaterThanThreshold", "notBreaching")


def test_stalled_looks_back_as_far_as_told():
    alarm = told(stalled_minutes=240).one("cloudwatch.MetricAlarm", "v-monitoring-cpu-stalled")
    assert alarm.inputs["evaluationPeriods"] == 240 // 5
    expression = alarm.inputs["metricQueries"][0]["expression"]
    assert expression == "IF(FILL(r0, 0) + FILL(r1, 0) > 0 AND FILL(items, 0) == 0, 1, 0)"
    assert metrics_of(alarm) == {("AWS/ECS", "CPUReservation"), ("Tidemill/v", "Items")}


EVERY = {"growing_hours": 6, "full_hours": 6, "reclaimed_percent": 30, "no_machine_minutes": 60, "stalled_minutes": 60}
NONE = dict.fromkeys(EVERY)


@pytest.mark.parametrize("more", [{}, EVERY, NONE, *({**NONE, key: EVERY[key]} for key in EVERY)])
def test_as_many_metrics_are_read_as_the_estimate_counts(more: dict[str, Any]):
    alarms = told(**more).of("cloudwatch.MetricAlarm")
    read = [query for alarm in alarms for query in alarm.inputs["metricQueries"] if "metric" in query]
    assert len(read) == part(Monitoring, {"notify": ["a@example.com"], **more}).alarm_metrics(rungs=2)


@pytest.mark.parametrize("markets", [["spot"], ["spot", "on_demand"]])
def test_jobs_that_ask_for_a_market_are_watched_and_priced_as_the_others(markets: list[str]):
    arns = {market: f"{QUEUE}-{market}" for market in markets}
    made = told(market_queues={"cpu": arns}, dashboard=True, **EVERY)
    alarms = {each.name.removeprefix("v-monitoring-cpu-"): each for each in made.of("cloudwatch.MetricAlarm")}
    read = {
        name: [query["metric"] for query in alarm.inputs["metricQueries"] if "metric" in query]
        for name, alarm in alarms.items()
    }
    assert all(len(metrics) <= 10 for metrics in read.values()), "CloudWatch takes ten of an alarm"
    asked = part(Monitoring, {"notify": ["a@example.com"], **EVERY})
    assert sum(map(len, read.values())) == asked.alarm_metrics(rungs=2, job_queues=1 + len(markets))
    for own in ("growing", "full", "no-machine"):
        seen = {each["dimensions"].get("JobQueueName") for each in read[f"market-spot-{own}"]} - {None}
        assert seen == {"vision-dev-cpu-spot"}
        assert "queue cpu (spot)" in alarms[f"market-spot-{own}"].inputs["alarmDescription"]
    # A reclaim is counted for the queue, whatever the job asks for, so all its starts are.
    started = {each["dimensions"].get("JobQueueName") for each in read["reclaims"]} - {None}
    assert started == {"vision-dev-cpu", *(arn.rpartition("/")[2] for arn in arns.values())}
    widgets = made.one("cloudwatch.Dashboard").document("dashboardBody")["widgets"]
    charts = [widget["properties"]["metrics"] for widget in widgets if widget["type"] == "metric"]
    assert {row[3] for chart in charts for row in chart if row[0] == "AWS/Batch"} == started
    for chart in charts:
        ids = [row[-1]["id"] for row in chart if "id" in row[-1]]
        assert len(ids) == len(set(ids))


def test_alarms_name_metrics_that_are_counted_and_commands():
    for alarm in told(**EVERY).of("cloudwatch.MetricAlarm"):
        assert metrics_of(alarm) <= OURS | CLOUDS | BATCHES
        assert re.match(
            r"(HIGH|MEDIUM|LOW): .* Over when .* Owner: v. Next: `tidemill ", alarm.inputs["alarmDescription"]
        )
        assert alarm.inputs["okActions"] == alarm.inputs["alarmActions"]
        [shown] = [query for query in alarm.inputs["metricQueries"] if query.get("returnData")]
        assert shown


def test_a_dashboard_names_metrics_that_are_counted():
    made = told(dashboard=True).one("cloudwatch.Dashboard")
    assert made.inputs["dashboardName"] == "v"
    widgets = made.document("dashboardBody")["widgets"]
    assert {widget["type"] for widget in widgets} == WIDGETS
    rows = [row for widget in widgets for row in widget["properties"].get("metrics", [])]
    named = {(row[0], row[1]) for row in rows if isinstance(row[0], str)}
    read_by_alarms_alone = {("AWS/Batch", RUNNABLE), ("AWS/Batch", STARTING)}
    assert named == OURS | CLOUDS | BATCHES - read_by_alarms_alone
    assert {row[3] for row in rows if row[0] == "AWS/Batch"} == {"vision-dev-cpu"}
    [alarms] = [widget["properties"]["alarms"] for widget in widgets if widget["type"] == "alarm"]
    assert len(alarms) == 5
    places = {(x, y) for w in widgets for x in range(w["x"], w["x"] + w["width"]) for y in range(w["y"], w["y"] + 1)}
    assert len(places) == sum(widget["width"] for widget in widgets), "widgets overlap"
    assert all(widget["x"] + widget["width"] <= 24 for widget in widgets)


def test_a_stack_passes_its_keys_on():
    keys = {"notify": ["a@example.com"], "dashboard": True, "failed_percent": 5, "stalled_minutes": 60}
    made = run_stack("vision-prod", monitoring=keys)
    assert len(made.of("cloudwatch.MetricAlarm")) == 2 * 6
    alarm = made.one("cloudwatch.MetricAlarm", "vision-prod-monitoring-gpu-failed").inputs
    assert alarm["threshold"] == 5
    assert " Owner: vision. " in alarm["alarmDescription"]
    assert alarm["metricQueries"][1]["metric"]["namespace"] == "Tidemill/vision-prod"
    counted = made.one("cloudwatch.LogMetricFilter", "vision-prod-logs-items").inputs["metricTransformation"]
    assert counted["namespace"] == "Tidemill/vision-prod"
    body = made.one("cloudwatch.Dashboard").document("dashboardBody")
    assert "vision-prod-cpu-spot" in json.dumps(body)


def test_the_budget_tells_an_existing_topic_too():
    topic = "arn:aws:sns:us-west-2:123456789012:oncall"
    notices = run_stack("vision-prod", monitoring={"topic": topic}).one("budgets.Budget").inputs["notifications"]
    assert all(each["subscriberSnsTopicArns"] == [topic] for each in notices)


def test_alone_it_refuses_what_a_stack_file_refuses():
    with pytest.raises(ConfigError, match=r"tidemill:monitoring\.notify"):
        monitoring(notify=["nobody"])
