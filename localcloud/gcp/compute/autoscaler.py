"""A regional autoscaler on metrics of a whole group: computes the wanted size from the metrics it can see.

It is a state machine on the caller's clock. The facts are in docs/cloud-facts.md.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from localcloud.gcp.compute.capacity import QUOTA, STOCKOUT
from localcloud.gcp.compute.managed import Managed

Json = dict[str, Any]
PERIOD = 60.0
ADDING = ("ON", "ONLY_SCALE_OUT", "ONLY_UP")
LEFT_OUT = ("cpuUtilization", "loadBalancingUtilization", "scalingSchedules", "scaleInControl")
TEXTS = {
    "CAPPED_AT_MAX_NUM_REPLICAS": "The autoscaler recommends a size greater than maxNumReplicas.",
    "MISSING_CUSTOM_METRIC_DATA_POINTS": "The autoscaler did not receive any data from the custom metric.",
    "MODE_OFF": "Autoscaling is turned off.",
    "MODE_ONLY_SCALE_OUT": "Instances in the group will be only added.",
    "ZONE_RESOURCE_STOCKOUT": "There is a resource stockout in at least one of the zones.",
    "ALL_INSTANCES_UNHEALTHY": "All instances in the instance group are unhealthy (not in RUNNING state).",
    "NOT_ENOUGH_QUOTA_AVAILABLE": "There is insufficient quota for the necessary resources.",
}


class Sized(Protocol):
    """The group that is scaled."""

    target: int

    def resize(self, size: int) -> None: ...

    def instances(self) -> list[Managed]: ...


def left_out(policy: Json) -> str:
    """The parts of a policy that are not emulated; empty when all are."""
    names = [name for name in LEFT_OUT if policy.get(name)]
    metrics = policy.get("customMetricUtilizations", [])
    names += [name for each in metrics for name in ("utilizationTarget", "utilizationTargetType") if each.get(name)]
    if not metrics:
        names.append("a policy without customMetricUtilizations (scaling by CPU)")
    elif not all(float(each.get("singleInstanceAssignment", 0)) > 0 for each in metrics):
        names.append("a metric without singleInstanceAssignment")
    return ", ".join(names)


class Autoscaler:
    """One autoscaler.

    Args:
        policy: Returns the current ``autoscalingPolicy``.
        group: The group it scales.
        read: (an entry of ``customMetricUtilizations``, now) → the newest visible value of the metric, None without
            a fresh one.

    Attributes:
        recommended: ``recommendedSize``; computed even while the mode is OFF.
        healthy: Whether its instances count as healthy.
    """

    def __init__(self, policy: Callable[[], Json], group: Sized, read: Callable[[Json, float], float | None]) -> None:
        self._policy, self._group, self._read = policy, group, read
        self._next = -math.inf
        self._loads: deque[tuple[float, int]] = deque()
        self._missing = self._capped = False
        self.recommended: int | None = None
        self.healthy = True

    def next_at(self) -> float:
        """When it next looks."""
        return self._next

    def tick(self, now: float) -> None:
        """Look at the metric once a minute and resize the group as the mode allows."""
        if now < self._next:
            return
        self._next = now + PERIOD
        policy = self._policy()
        size = self._size(policy, now)
        self._missing = size is None
        if size is not None:
            self._loads.append((now, size))
        # The peak over the stabilization period; while no value is known, the last known one stays.
        begin = now - float(policy.get("stabilizationPeriodSec", 600))
        while len(self._loads) > 1 and self._loads[0][0] < begin:
            self._loads.popleft()
        low, high = int(policy.get("minNumReplicas", 0)), int(policy["maxNumReplicas"])
        peak = max((load for _, load in self._loads), default=self._group.target)
        self._capped = peak > high
        self.recommended = min(max(peak, low), high)
        self._apply(policy.get("mode", "ON"), low)

    def _size(self, policy: Json, now: float) -> int | None:
        """Machines that the newest values require."""
        sizes = []
        for metric in policy["customMetricUtilizations"]:
            value = self._read(metric, now)
            if value is None:
                return None
            sizes.append(math.ceil(value / float(metric["singleInstanceAssignment"])))
        return max(sizes)

    def _apply(self, mode: str, low: int) -> None:
        assert self.recommended is not None
        size = low if self._missing else self.recommended
        if (mode in ADDING and size > self._group.target) or (
            mode == "ON" and not self._missing and size < self._group.target
        ):
            self._group.resize(size)

    def status(self) -> list[Json]:
        """``statusDetails``."""
        mode = self._policy().get("mode", "ON")
        codes = {code for vm in self._group.instances() for code, _ in vm.errors}
        found = {
            "CAPPED_AT_MAX_NUM_REPLICAS": self._capped,
            "MISSING_CUSTOM_METRIC_DATA_POINTS": self._missing,
            "MODE_OFF": mode == "OFF",
            "MODE_ONLY_SCALE_OUT": mode in ("ONLY_SCALE_OUT", "ONLY_UP"),
            "ZONE_RESOURCE_STOCKOUT": STOCKOUT in codes,
            "ALL_INSTANCES_UNHEALTHY": not self.healthy,
            "NOT_ENOUGH_QUOTA_AVAILABLE": QUOTA in codes,
        }
        return [{"type": name, "message": TEXTS[name]} for name, holds in found.items() if holds]
