"""Dashboard and alarms on GCP. Recording mocks prove what is requested, not that Google accepts it."""

import json
import re
from typing import Any

import pytest

from components.config import ConfigError, Monitoring, part
from components.gcp.monitoring.dashboard import COLUMNS
from components.gcp.monitoring.line_metrics import COUNTED, failed_query
from components.gcp.monitoring.monitoring import GcpMonitoring, GcpMonitoringArgs
from components.services.pubsub.reconciler_function.decide import Group, Machine, QueueState, Sample
from components.services.pubsub.reconciler_function.trouble import due, troubles
from localcloud.gcp.filters import matches
from tests.components.recording import Recorder, run
from tests.components.stacks import run_stack
from tests.components.test_gcp_reconciler_function import Google, listed
from tests.components.test_gcp_reconciler_function import run as reconcile
from tidemill.fleet import GroupReport, QueueReport

CHANNEL = "projects/vision-project/notificationChannels/7"
METRICS = {suffix: f"v-logs-{suffix}-1a2b3c4" for suffix in COUNTED}
PUBSUB = {"num_undelivered_messages", "oldest_unacked_message_age"}
"""https://cloud.google.com/monitoring/api/metrics_gcp_p_z"""
COMPUTE = {"instance_group/size", "instance/cpu/utilization", "instance/network/sent_bytes_count"}
NOW = 1_000_000.0


def monitoring(**settings: Any) -> Recorder:
    given: dict[str, Any] = {"pipeline": "v", "log": "projects/p/logs/l", "metrics": dict(METRICS)}
    groups = [
        {"market": "spot", "manager": "v-cpu-spot-1a2b3c4"},
        {"market": "on_demand", "manager": "v-cpu-on-demand-5d"},
    ]
    given |= {"function": "v-reconciler-run", "subscriptions": {"cpu": "v-cpu"}}
    given |= {"fleets": [{"name": "cpu", "groups": groups}]}
    return run(lambda: GcpMonitoring("v-monitoring", GcpMonitoringArgs(**given | settings)))


def test_without_keys_there_is_neither_alarm_nor_dashboard():
    kinds = {each.kind for each in run_stack("vision-gcp-prod").resources}
    assert not kinds & {"GcpMonitoring", "monitoring.AlertPolicy", "monitoring.Dashboard"}


def test_saved_queries_read_this_stacks_lines():
    made = monitoring(queries=True)
    assert made.counts() == {"GcpMonitoring": 1, "logging.SavedQuery": 3}
    lines: list[dict[str, Any]] = [
        {"jsonPayload": {"event": "item", "status": "failed"}},
        {"severity": "ERROR"},
        {"jsonPayload": {"job": "NAME-1a2b3c4d"}},
    ]
    queries = made.of("logging.SavedQuery")
    filters = [each.inputs["loggingQuery"]["filter"] for each in queries]
    for line in lines:
        assert [matches(wanted, line | {"logName": "projects/p/logs/l"}) for wanted in filters].count(True) == 1
        assert not any(matches(wanted, line | {"logName": "projects/p/logs/other"}) for wanted in filters)
    assert {each.inputs["visibility"] for each in queries} == {"SHARED"}


OPTIONAL: dict[str, Any] = dict.fromkeys(("growing_hours", "full_hours", "reclaimed_percent"))


@pytest.mark.parametrize("more", [{}, OPTIONAL, {**OPTIONAL, "full_hours": 3}])
def test_as_many_conditions_are_made_as_the_estimate_counts(more: dict[str, Any]):
    made = monitoring(channels=[CHANNEL], **more)
    conditions = [each for policy in made.of("monitoring.AlertPolicy") for each in policy.inputs["conditions"]]
    assert len(conditions) == part(Monitoring, {"channels": [CHANNEL], **more}, "monitoring").conditions


def test_a_message_says_severity_owner_and_what_to_type():
    made = monitoring(notify=["b@example.com"], channels=[CHANNEL], owner="ml-oncall")
    policies = made.of("monitoring.AlertPolicy")
    severities = {each.name.removeprefix("v-monitoring-"): each.inputs["severity"] for each in policies}
    assert severities == {
        "trouble": "CRITICAL",
        "silent": "CRITICAL",
        "failed": "CRITICAL",
        "growing": "ERROR",
        "full": "WARNING",
        "reclaims": "WARNING",
    }
    texts = [each.inputs["documentation"]["content"] for each in policies]
    assert all(" Owner: ml-oncall. Next: `tidemill " in text for text in texts)
    # A condition on a line of a log has no end.
    assert sum(" Over when " in text for text in texts) == len(texts) - 1
    own = f"{made.one('monitoring.NotificationChannel').name}-1a2b3c4"
    assert {tuple(each.inputs["notificationChannels"]) for each in policies} == {(own, CHANNEL)}


def test_the_reconcilers_lines_alert_at_most_twice_an_hour():
    policy = monitoring(channels=[CHANNEL]).one("monitoring.AlertPolicy", "v-monitoring-trouble").inputs
    matched = policy["conditions"][0]["conditionMatchedLog"]
    assert matched["filter"].endswith('service_name = "v-reconciler-run" AND jsonPayload.event = "trouble"')
    assert policy["alertStrategy"]["notificationRateLimit"] == {"period": "1800s"}
    # What the text names is extracted.
    named = set(re.findall(r"log\.extracted_label\.(\w+)", policy["documentation"]["content"]))
    assert named == matched["labelExtractors"].keys()


def test_failed_items_of_enough_items_alert():
    query = failed_query(METRICS, 20)
    items = "logging_googleapis_com:user_v_logs_items_1a2b3c4_sum"
    failed = "logging_googleapis_com:user_v_logs_chunk_failures_1a2b3c4_sum"

    def summed(series: str) -> str:
        return f'sum by (queue) (increase({series}{{monitored_resource="generic_node"}}[15m]))'

    assert query == f"(100 * {summed(failed)} / {summed(items)} > 20) and ({summed(items)} >= 20)"


def test_the_silence_of_the_reconciler_alerts_without_a_look_at_a_metric_that_the_same_up_makes():
    condition = monitoring(channels=[CHANNEL]).one("monitoring.AlertPolicy", "v-monitoring-silent").inputs["conditions"]
    assert condition[0]["conditionPrometheusQueryLanguage"] == {
        "query": "absent_over_time(logging_googleapis_com:user_v_monitoring_runs_1a2b3c4"
        '{monitored_resource="cloud_run_revision"}[15m])',
        "duration": "0s",
        "evaluationInterval": "300s",
        "disableMetricValidation": True,
    }


def test_a_dashboard_names_metrics_that_exist():
    body = monitoring(dashboard=True).one("monitoring.Dashboard").document("dashboardJson")
    tiles = body["mosaicLayout"]["tiles"]
    kinds = {key for tile in tiles for key in tile["widget"] if key != "title"}
    assert kinds == {"logsPanel", "text", "xyChart"}
    text = json.dumps(body)
    assert set(re.findall(r"user_v_logs_(\w+?)_1a2b3c4", text)) == {each.replace("-", "_") for each in COUNTED}
    assert set(re.findall(r"googleapis\.com/subscription/(\w+)", text)) == PUBSUB
    assert set(re.findall(r"compute\.googleapis\.com/([\w/]+)", text)) == COMPUTE
    # The groups by their names, their machines by what the names begin with.
    assert {"v-cpu-spot-1a2b3c4", "v-cpu-on-demand-5d"} == set(re.findall(r'group_name = \\"([\w-]+)\\"', text))
    assert {"v-cpu-spot-", "v-cpu-on-demand-"} == set(re.findall(r'starts_with\(\\"([\w-]+)\\"\)', text))
    assert all(tile.get(key) != 0 for tile in tiles for key in ("xPos", "yPos")), "Google drops a position of 0"
    starts = [(tile.get("xPos", 0), tile.get("yPos", 0), tile["width"]) for tile in tiles]
    places = {(x, y) for start, y, width in starts for x in range(start, start + width)}
    assert len(places) == sum(tile["width"] for tile in tiles), "tiles overlap"
    assert max(x for x, _ in places) < COLUMNS


def test_a_stack_passes_its_keys_on():
    made = run_stack("vision-gcp-prod", monitoring={"notify": ["a@example.com"], "dashboard": True})
    assert len(made.of("monitoring.AlertPolicy")) == 6
    query = made.one("monitoring.AlertPolicy", "vision-prod-monitoring-failed").inputs["conditions"][0]
    assert "user_vision_prod_logs_items" in query["conditionPrometheusQueryLanguage"]["query"]
    assert len(made.of("monitoring.Dashboard")) == 1


def test_alone_it_refuses_what_a_stack_file_refuses():
    with pytest.raises(ConfigError, match=r"tidemill:monitoring\.channels"):
        monitoring(channels=["oncall"])


# ---- the reconciler's troubles ---------------------------------------------------------------------------------------


def found(machines: list[Machine], values: list[float], **shown: Any) -> list[str]:
    samples = [Sample(NOW - 150 - 60 * number, value) for number, value in enumerate(values)]
    queue = QueueState("cpu", [Group("spot", machines)], samples)
    report = QueueReport(None, {"spot": GroupReport(**shown)})
    return [each.cause for each in troubles(queue, report, NOW)]


WAITS = [3.0] * 14


@pytest.mark.parametrize(
    ("machines", "values", "shown", "causes"),
    [
        ([], [0.0] * 14, {}, []),
        ([Machine("a", "RUNNING")], WAITS, {}, []),
        ([], [3.0] * 5 + [0.0] * 9, {}, []),  # a cold start
        ([], [3.0] * 5, {}, []),  # a gap in the samples is not a backlog
        ([], WAITS, {}, ["no-machines"]),
        ([Machine("a", "PROVISIONING", "CREATING")], WAITS, {"stockout": True}, ["no-machines"]),
        ([Machine("a", "RUNNING")], [0.0], {"quotas": ["QUOTA_EXCEEDED: CPUS"]}, ["quota"]),
        ([Machine("a", "RUNNING", broken_at=NOW - 60)], [1.0], {}, ["broken"]),
        ([Machine("a", "RUNNING", broken_at=NOW - 3600)], [1.0], {}, []),
        ([Machine("a", "RUNNING", alive_at=NOW - 3600)], [1.0], {}, ["silent"]),
    ],
)
def test_what_the_reconciler_tells(machines: Any, values: Any, shown: Any, causes: list[str]):
    assert found(machines, values, **shown) == causes


def test_a_cause_is_said_once_in_half_an_hour():
    said = [at for at in range(0, 7200, 120) if due(at + 7, 120)]
    assert len(said) == 4


def day(waiting: float, machines: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """What the reconciler prints in the 720 runs of a day, as the entries that Logging makes of it."""
    google = Google(now=NOW)
    google.samples, google.machines["spot-m"] = [[waiting] * 12], machines
    for _ in range(720):
        reconcile(google)
        google.now += 120
        google.calls.clear()
    labels = {"service_name": "v-reconciler-run"}
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [{"resource": {"type": "cloud_run_revision", "labels": labels}, "jsonPayload": line} for line in lines]


@pytest.mark.parametrize(
    ("waiting", "machines", "told"),
    [(0.0, [], 0), (900.0, [listed("up", "RUNNING")], 0), (900.0, [], 48)],
    ids=["idle", "at work", "no machines"],
)
def test_a_healthy_day_tells_nothing_and_a_stuck_one_each_half_hour(
    waiting: float, machines: list[dict[str, Any]], told: int, capsys: pytest.CaptureFixture[str]
):
    policy = monitoring(channels=[CHANNEL]).one("monitoring.AlertPolicy", "v-monitoring-trouble").inputs
    matched = policy["conditions"][0]["conditionMatchedLog"]
    entries = day(waiting, machines, capsys)
    found = [entry["jsonPayload"] for entry in entries if matches(matched["filter"], entry)]
    assert len(found) == told
    assert {(line["queue"], line["cause"]) for line in found} <= {("cpu", "no-machines")}
    # The metric whose absence says that the reconciler is silent has a point of each run.
    runs = monitoring(channels=[CHANNEL]).one("logging.Metric", "v-monitoring-runs").inputs["filter"]
    assert sum(matches(runs, entry) for entry in entries) == 720
