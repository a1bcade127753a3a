"""What the reconciler of a GCP pipeline reports: machines by market, stockouts, quotas, and when it ran last."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tidemill.layout import FLEET_REPORT
from tidemill.store import Store

PERIODS = 3
"""Periods without a run after which it is said to be down."""
_TEXT = 200


@dataclass(frozen=True)
class Report:
    """The report of the reconciler's last run.

    Attributes:
        at: When it ran, seconds since the epoch; 0 when it does not say.
        period_seconds: How often it runs.
        queues: By queue: `groups` by market, each with `target`, `running`, `stockout`, `errors`, `open`.
    """

    at: float
    period_seconds: float
    queues: Mapping[str, Mapping[str, Any]]

    def groups(self, queue: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The groups of a queue by market, Spot first."""
        groups = self.queues.get(queue, {}).get("groups", {})
        yield from sorted(groups.items(), key=lambda one: one[0] != "spot")

    def troubles(self, queue: str) -> list[str]:
        """Why machines of a queue do not come: quotas first, then stockouts, then other errors of the cloud."""
        quotas, stockouts, others = [], [], []
        for market, group in self.groups(queue):
            name = f"queue {queue}, {market} machines"
            there = f"{group.get('running', 0)} of {group.get('target', 0)} run"
            if group.get("stockout"):
                stockouts.append(f"{name}: out of stock ({there})")
            for error in group.get("errors", []):
                text = " ".join(str(error).split())[:_TEXT]
                quota = "quota" in text.lower()
                if quota or not group.get("stockout"):
                    (quotas if quota else others).append(f"{name}: {text} ({there})")
        return [*quotas, *stockouts, *others]

    def remarks(self, queue: str, now: float) -> list[str]:
        """That it does not run any more, and which further rung is open."""
        return [*self.late(now), *self.open_rungs(queue)]

    def late(self, now: float) -> list[str]:
        """One line when it has not run for `PERIODS` periods, else nothing."""
        if now - self.at <= PERIODS * self.period_seconds:
            return []
        at = f"{datetime.fromtimestamp(self.at, UTC):%Y-%m-%d %H:%M:%S} UTC" if self.at else "it was set up"
        return [f"the reconciler has not run since {at}: stopped machines are not removed, no further rung opens"]

    def open_rungs(self, queue: str) -> list[str]:
        """A line for each further rung that is open."""
        return [
            f"queue {queue}, {market} machines: open, because Spot has run dry ({group.get('running', 0)} run)"
            for market, group in self.groups(queue)
            if market != "spot" and group.get("open")
        ]


def read_report(store: Store) -> Report | None:
    """The report, or None when the reconciler has never written one that can be read."""
    data = store.find(FLEET_REPORT)
    try:
        values = json.loads(data or b"")
        at = datetime.fromisoformat(values["at"])
        moment = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
        return Report(moment, float(values["period_seconds"]), dict(values["queues"]))
    except (ValueError, TypeError, KeyError):
        return None
