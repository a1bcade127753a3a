"""The autoscaler on virtual time. This does not prove that Google's behaves so; docs/cloud-facts.md has the sources."""

from __future__ import annotations

from typing import Any

import pytest

from localcloud.gcp.compute.autoscaler import Autoscaler, left_out
from localcloud.gcp.compute.capacity import QUOTA, STOCKOUT
from localcloud.gcp.compute.managed import Managed

METRIC = {
    "metric": "pubsub.googleapis.com/subscription/num_undelivered_messages",
    "filter": 'resource.type = "pubsub_subscription" AND resource.labels.subscription_id = "s"',
    "singleInstanceAssignment": 4,
}


class Group:
    """The size of a group."""

    def __init__(self) -> None:
        self.target = 0
        self.vms: list[Managed] = []
        self.sizes: list[int] = []

    def resize(self, size: int) -> None:
        self.target = size
        self.sizes.append(size)

    def instances(self) -> list[Managed]:
        return self.vms


class Made:
    """An autoscaler, its group, and a metric by minute: the value visible then, None for a gap."""

    def __init__(self, values: dict[int, float | None], **policy: Any) -> None:
        self.policy = {
            "mode": "ON", "minNumReplicas": 0, "maxNumReplicas": 100, "stabilizationPeriodSec": 600,
            "customMetricUtilizations": [METRIC],
        } | policy  # fmt: skip
        self.values, self.group, self.reads = values, Group(), 0
        self.scaler = Autoscaler(lambda: self.policy, self.group, self._read)

    def _read(self, metric: dict[str, Any], now: float) -> float | None:
        self.reads += 1
        return self.values[max(minute for minute in self.values if minute * 60 <= now)]

    def at(self, minute: int) -> int:
        """The target after every ten seconds up to this minute."""
        for now in range(0, minute * 60 + 1, 10):
            if now >= self.scaler.next_at():
                self.scaler.tick(now)
        return self.group.target

    def details(self) -> set[str]:
        return {each["type"] for each in self.scaler.status()}


def test_the_size_is_the_metric_over_the_assignment_rounded_up() -> None:
    made = Made({0: 9})
    assert (made.at(0), made.scaler.recommended) == (3, 3)
    assert made.at(1) == 3


def test_it_looks_once_a_minute() -> None:
    made = Made({0: 1})
    made.at(10)
    assert made.reads == 11


@pytest.mark.parametrize(("value", "size"), [(0, 2), (5, 2), (12, 3), (1000, 10)])
def test_the_size_stays_within_its_bounds(value: float, size: int) -> None:
    made = Made({0: value}, minNumReplicas=2, maxNumReplicas=10)
    assert made.at(0) == size
    assert ("CAPPED_AT_MAX_NUM_REPLICAS" in made.details()) is (value == 1000)


def test_mode_on_scales_in_after_the_stabilization_period() -> None:
    made = Made({0: 40, 1: 0})
    assert made.at(10) == 10
    assert made.at(12) == 0
    assert made.group.sizes == [10, 0], "the whole at once"


def test_the_stabilization_period_is_the_policy_s() -> None:
    made = Made({0: 40, 1: 0}, stabilizationPeriodSec=0)
    assert made.at(1) == 0


def test_only_scale_out_never_scales_in_and_fills_up_to_the_recent_peak() -> None:
    made = Made({0: 40, 1: 0}, mode="ONLY_SCALE_OUT")
    assert made.at(60) == 10
    made = Made({0: 40, 1: 0}, mode="ONLY_SCALE_OUT")
    made.at(5)
    made.group.target = 3  # as if somebody had deleted seven
    made.scaler.tick(360)
    assert made.group.target == 10
    made.group.target = 3
    made.scaler.tick(3600)
    assert (made.group.target, made.scaler.recommended) == (3, 0)


def test_off_only_recommends() -> None:
    made = Made({0: 40}, mode="OFF")
    assert (made.at(5), made.scaler.recommended, made.group.sizes) == (0, 10, [])
    assert made.details() == {"MODE_OFF"}
    made.policy["mode"] = "ONLY_SCALE_OUT"
    made.scaler.tick(3600)
    assert made.group.target == 10
    assert made.details() == {"MODE_ONLY_SCALE_OUT"}


@pytest.mark.parametrize("mode", ["ON", "ONLY_SCALE_OUT"])
def test_it_holds_while_the_metric_is_missing(mode: str) -> None:
    made = Made({0: 40, 1: None}, mode=mode)
    assert made.at(120) == 10
    assert made.group.sizes == [10]
    assert "MISSING_CUSTOM_METRIC_DATA_POINTS" in made.details()
    made.values[121] = 4
    made.scaler.tick(121 * 60)
    assert "MISSING_CUSTOM_METRIC_DATA_POINTS" not in made.details()


def test_nothing_known_keeps_the_size_but_not_below_the_minimum() -> None:
    made = Made({0: None})
    made.group.target = 7
    assert made.at(5) == 7
    made = Made({0: None}, minNumReplicas=2)
    assert made.at(5) == 2


def test_it_says_what_keeps_machines_from_coming() -> None:
    made = Made({0: 8})
    made.at(0)
    made.group.vms = [Managed("a", "z", "t", errors=[(STOCKOUT, "")]), Managed("b", "z", "t", errors=[(QUOTA, "")])]
    assert made.details() == {"ZONE_RESOURCE_STOCKOUT", "NOT_ENOUGH_QUOTA_AVAILABLE"}


@pytest.mark.parametrize(
    ("policy", "named"),
    [
        ({"customMetricUtilizations": [METRIC]}, ""),
        ({}, "CPU"),
        ({"customMetricUtilizations": [METRIC], "cpuUtilization": {"utilizationTarget": 0.6}}, "cpuUtilization"),
        ({"customMetricUtilizations": [METRIC], "scaleInControl": {"timeWindowSec": 60}}, "scaleInControl"),
        ({"customMetricUtilizations": [{"metric": "m"}]}, "singleInstanceAssignment"),
        ({"customMetricUtilizations": [METRIC | {"utilizationTarget": 1}]}, "utilizationTarget"),
    ],
)
def test_what_is_not_emulated_is_named(policy: dict[str, Any], named: str) -> None:
    answer = left_out(policy)
    assert named in answer
    assert bool(answer) is bool(named)
