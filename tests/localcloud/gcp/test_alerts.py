"""Each alert policy of a pipeline on GCP fires: `GcpMonitoring`'s conditions over lines and backlogs.

The policy on the reconciler's troubles is fired in tests/components/test_gcp_monitoring.py, by the reconciler itself.
"""

from dataclasses import replace
from typing import Any

import pulumi
import pytest

from components.gcp.monitoring.line_metrics import BACKLOG, COUNTED, FEWEST_CHUNKS, in_promql, metrics
from components.gcp.monitoring.monitoring import GcpMonitoring, GcpMonitoringArgs
from components.services.pubsub.reconciler_function.trouble import CAPPED, full
from localcloud.gcp.promql import Points, counted, query
from tests.components.recording import Recorder, run
from tidemill.fleet import GroupReport, QueueReport, ScalerNote

NOW, HOUR, PERIOD = 1_000_000.0, 3600.0, 120.0
LOG = "projects/p/logs/l"
Entry = tuple[float, dict[str, Any]]


def planned(**settings: Any) -> Recorder:
    def program() -> None:
        counting = metrics("v-logs", f'logName = "{LOG}"', pulumi.ResourceOptions())
        args = GcpMonitoringArgs(
            pipeline="v",
            log=LOG,
            metrics=dict(counting),
            function="v-reconciler-run",
            subscriptions={"cpu": "v-cpu", "gpu": "v-gpu"},
            channels=["projects/p/notificationChannels/7"],
            **settings,
        )
        GcpMonitoring("v-monitoring", args)

    return run(program)


def fires(made: Recorder, policy: str, entries: list[Entry], at: float, gauges: list[Points] | None = None) -> set[str]:
    """The queues, or subscriptions, for which a policy's condition holds."""
    series = [*(gauges or [])]
    for each in made.of("logging.Metric"):
        series += counted(in_promql(f"{each.name}-1a2b3c4"), each.inputs, entries)
    [condition] = made.one("monitoring.AlertPolicy", f"v-monitoring-{policy}").inputs["conditions"]
    found = query(condition["conditionPrometheusQueryLanguage"]["query"], series, at)
    return {dict(labels).get("queue") or dict(labels).get("subscription_id", "") for labels in found}


def line(at: float, event: str, queue: str = "cpu", **fields: Any) -> Entry:
    """A line of a worker."""
    payload = {"event": event, "queue": queue, **fields}
    return at, {"logName": LOG, "resource": {"type": "generic_node"}, "jsonPayload": payload}


def look(at: float, queue: str = "cpu", *, full: bool = False) -> Entry:
    """A line of the reconciler about a queue."""
    resource = {"type": "cloud_run_revision", "labels": {"service_name": "v-reconciler-run"}}
    return at, {"resource": resource, "jsonPayload": {"event": "queue", "queue": queue, "full": full}}


def test_failed_items():
    made = planned(failed_percent=20)
    few = [line(NOW - 60, "chunk", items=100, failed=20), line(NOW - 60, "chunk", "gpu", items=10, failed=10)]
    assert fires(made, "failed", few, NOW) == set()
    many = [*few, line(NOW - 30, "chunk", items=10, failed=10)]
    assert fires(made, "failed", many, NOW) == {"cpu"}
    assert fires(made, "failed", many, NOW + HOUR) == set(), "it is over"


def test_a_silent_reconciler():
    made = planned()
    assert fires(made, "silent", [look(NOW - 600)], NOW) == set()
    assert fires(made, "silent", [look(NOW - 960)], NOW) == {""}


def backlogs(**hourly: list[int]) -> list[Points]:
    """The hours' backlogs of subscriptions, the newest last."""
    of = {"monitored_resource": "pubsub_subscription"}
    return [
        Points(
            BACKLOG,
            {**of, "subscription_id": f"v-{queue}"},
            [(NOW - 60 - HOUR * age, float(value)) for age, value in enumerate(reversed(values))],
        )
        for queue, values in hourly.items()
    ]


def test_a_growing_backlog():
    made = planned(growing_hours=3)
    assert fires(made, "growing", [], NOW, backlogs(cpu=[0, 5, 9, 12], gpu=[0, 900, 800, 700])) == {"v-cpu"}
    assert fires(made, "growing", [], NOW, backlogs(cpu=[0, 5, 9, 9], gpu=[9, 8, 9, 10])) == set()
    [own] = backlogs(cpu=[1, 2, 3, 4])
    other = [Points(BACKLOG, {**own.labels, "subscription_id": "w-cpu"}, own.values)]
    assert fires(made, "growing", [], NOW, other) == set(), "another stack's"


@pytest.mark.parametrize(
    ("capped", "waits", "told"),
    [
        (1.0, [5, 9, 12], {"cpu"}),
        (0.95, [5, 9, 9], {"cpu"}),
        (0.5, [5, 9, 12], set[str]()),
        (1.0, [900, 800, 700], set[str]()),
    ],
    ids=["grows", "stays", "half of the looks", "shrinks"],
)
def test_a_queue_at_its_cap(capped: float, waits: list[int], told: set[str]):
    made = planned(full_hours=2)
    looks = int(2 * HOUR / PERIOD)
    entries = [look(NOW - PERIOD * number, full=number < capped * looks) for number in range(looks)]
    entries += [look(NOW - PERIOD * number, "gpu") for number in range(looks)]
    assert fires(made, "full", entries, NOW, backlogs(cpu=waits, gpu=[1, 2, 3])) == told


@pytest.mark.parametrize("began", range(9))
def test_a_job_that_takes_all_night_at_the_cap_tells_nobody(began: int):
    """It comes at once, and is at the cap from then on."""
    made = planned(full_hours=6)
    entries = [look(NOW - PERIOD * number, full=True) for number in range(int(began * HOUR / PERIOD))]
    waits = [0] * (9 - began) + [1000 - 100 * hour for hour in range(began + 1)]
    assert fires(made, "full", entries, NOW, backlogs(cpu=waits)) == set()


def test_the_reconciler_sees_the_cap_of_rungs_that_are_open():
    capped = GroupReport(notes=[ScalerNote(CAPPED)])
    assert full(QueueReport(5, {"spot": capped}))
    assert not full(QueueReport(0, {"spot": capped}))
    assert not full(QueueReport(None, {"spot": capped}))
    assert not full(QueueReport(5, {"spot": GroupReport(), "on_demand": replace(capped, open=False)}))


def test_a_trend_of_reclaims():
    made = planned(reclaimed_percent=30)
    ended = [line(NOW - HOUR, "chunk", items=1, failed=0) for _ in range(FEWEST_CHUNKS)]
    lost = [line(NOW - 2 * HOUR, "reclaim", chunks=1) for _ in range(FEWEST_CHUNKS)]
    assert fires(made, "reclaims", ended + lost[:20], NOW) == set()
    assert fires(made, "reclaims", ended + lost, NOW) == {"cpu"}
    assert fires(made, "reclaims", lost, NOW) == {"cpu"}, "no chunk has ended at all"
    assert fires(made, "reclaims", lost[:-1], NOW) == set(), "too few to say something"


def test_every_counted_line_has_a_metric():
    made = planned()
    assert {f"v-logs-{suffix}" for suffix in COUNTED} < {each.name for each in made.of("logging.Metric")}


@pytest.mark.parametrize("text", ["rate(m{}[5m])", "m{} unless m{}", "sum(m{})", "1 + 1"])
def test_promql_that_is_not_known_is_refused(text: str):
    with pytest.raises((ValueError, IndexError)):
        query(text, [], NOW)
