"""localcloud's Monitoring: which samples it takes, and when they become visible."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from localcloud.gcp.monitoring import Monitoring, Samples
from localcloud.gcp.wire import RestError
from tests.localcloud.gcp.running import BASE, RunningGcp
from tests.localcloud.waiting import until

METRIC = "pubsub.googleapis.com/subscription/num_undelivered_messages"
AGE = "pubsub.googleapis.com/subscription/oldest_unacked_message_age"
RESOURCE = 'resource.type = "pubsub_subscription" AND resource.labels.subscription_id = "s"'


def sampled() -> Samples:
    samples = Samples(120.0)
    for minute in range(5):
        samples.add(60.0 * minute, METRIC, "p", "s", minute)
        samples.add(60.0 * minute, METRIC, "p", "other", 100)
        samples.add(60.0 * minute, AGE, "p", "s", 7)
    return samples


def test_a_sample_is_visible_two_minutes_after_it_was_taken() -> None:
    samples = sampled()
    assert samples.newest(METRIC, RESOURCE, 119.9) is None
    assert samples.newest(METRIC, RESOURCE, 120.0) == (0.0, 0.0)
    assert samples.newest(METRIC, RESOURCE, 359.9) == (180.0, 3.0)
    assert samples.newest(METRIC, RESOURCE, 10_000.0) == (240.0, 4.0)


def test_series_that_match_are_added_up_and_names_are_exact() -> None:
    samples = sampled()
    assert samples.newest(METRIC, 'resource.type = "pubsub_subscription"', 1000.0) == (240.0, 104.0)
    assert samples.newest(AGE, RESOURCE, 1000.0) == (240.0, 7.0)
    assert samples.newest(METRIC, RESOURCE.replace('"s"', '"S"'), 1000.0) is None
    assert samples.newest(METRIC, 'resource.type = "gce_instance"', 1000.0) is None


@pytest.mark.parametrize(
    "text",
    [
        'resource.type != "x"',
        'resource.type = starts_with("x")',
        'resource.type = "a" OR resource.type = "b"',
        "(",
        "x",
    ],
)
def test_what_the_filter_language_knows_beyond_equality_is_refused(text: str) -> None:
    with pytest.raises(RestError) as error:
        Samples(0.0).newest(METRIC, text, 0.0)
    assert error.value.code == 400


def test_the_daemon_samples_the_backlog_and_shows_it_late(tmp_path: Path) -> None:
    factor = 600.0  # a sample each tenth of a second, seen a fifth later

    def points(metric: str = METRIC) -> list[tuple[float, int]]:
        wanted = f'metric.type = "{metric}" AND {RESOURCE}'
        query = f"filter={wanted}&interval.startTime={_iso(0)}&interval.endTime={_iso(gcp.site.clock.now())}"
        found = gcp.call("monitoring", "GET", f"v3/{BASE}/timeSeries?{query}")
        values = [point for series in found.get("timeSeries", []) for point in series["points"]]
        return [(_epoch(point["interval"]["endTime"]), int(point["value"]["int64Value"])) for point in values]

    with RunningGcp(tmp_path, time_factor=factor) as gcp:
        site = gcp.site
        gcp.call("pubsub", "PUT", f"v1/{BASE}/topics/t", {})
        gcp.call("pubsub", "PUT", f"v1/{BASE}/subscriptions/s", {"topic": f"{BASE}/topics/t"})
        messages = [{"attributes": {"chunk": str(number)}} for number in range(3)]
        gcp.call("pubsub", "POST", f"v1/{BASE}/topics/t:publish", {"messages": messages})
        published = site.clock.now()
        until(lambda: any(at > published for at, _ in points()))
        seen = points()
        assert [value for at, value in seen if at > published][-1] == 3
        assert seen == sorted(seen, reverse=True), "newest first"
        assert all(at <= site.clock.now() - 120 for at, _ in seen)
        until(lambda: any(age > 0 for _, age in points(AGE)))
        assert site.plugin(Monitoring).newest(METRIC, RESOURCE, site.clock.now()) is not None
        with pytest.raises(RestError, match="interval"):
            gcp.call("monitoring", "GET", f'v3/{BASE}/timeSeries?filter=metric.type="x"')


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()


def _epoch(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
