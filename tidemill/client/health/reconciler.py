"""Reads the report of a GCP pipeline's reconciler: machines by market, stockouts, quotas, and the time of its last
run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import TypeAdapter

from tidemill.fleet import FleetReport, GroupReport, QueueReport
from tidemill.layout import FLEET_REPORT
from tidemill.store import Store

PERIODS = 3
"""Periods without a run after which it counts as down."""
_TEXT = 200


@dataclass(frozen=True)
class Report:
    """The report of the reconciler's last run `at` so many seconds since the epoch."""

    at: float
    period_seconds: float
    queues: Mapping[str, QueueReport]

    def groups(self, queue: str) -> list[tuple[str, GroupReport]]:
        """The groups of a queue by market, Spot first."""
        groups = self.queues.get(queue, QueueReport()).groups
        return sorted(groups.items(), key=lambda one: one[0] != "spot")

    def problems(self, queue: str) -> list[str]:
        """Why machines of a queue do not come: quotas first, then stockouts, then other errors of the cloud."""
        quotas, stockouts, others = [], [], []
        for market, group in self.groups(queue):
            name = f"queue {queue}, {market} machines"
            there = f"{group.running} of {group.target} run"
            if group.stockout:
                stockouts.append(f"{name}: out of stock ({there})")
            for error in group.errors:
                text = " ".join(error.split())[:_TEXT]
                quota = error in group.quotas
                if quota or not group.stockout:
                    (quotas if quota else others).append(f"{name}: {text} ({there})")
        return [*quotas, *stockouts, *others]

    def late(self, now: float) -> list[str]:
        """One line when it has not run for `PERIODS` periods, else nothing."""
        if now - self.at <= PERIODS * self.period_seconds:
            return []
        at = f"{datetime.fromtimestamp(self.at, UTC):%Y-%m-%d %H:%M:%S} UTC" if self.at else "it was set up"
        return [f"the reconciler has not run since {at}: stopped machines are not removed, no further rung opens"]

    def open_rungs(self, queue: str) -> list[str]:
        return [
            f"queue {queue}, {market} machines: open, because Spot has run dry ({group.running} run)"
            for market, group in self.groups(queue)
            if market != "spot" and group.open
        ]


def read_report(store: Store) -> Report | None:
    """The report, or None when the reconciler has never written one that can be read."""
    data = store.find(FLEET_REPORT)
    try:
        report = TypeAdapter(FleetReport).validate_json(data or b"")
        at = datetime.fromisoformat(report.at)
    except ValueError:
        return None
    return Report((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp(), report.period_seconds, report.queues)
