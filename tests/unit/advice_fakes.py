"""What clouds and tables say, for tests of advice: invented answers, and a source that counts questions."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field

import pytest

from tidemill import prices
from tidemill.advice.sources import LiveAnswer, PlacementScore, Question, Range, SpotPrice
from tidemill.client.estimate import advise

DAY = datetime.date(2025, 6, 1)
NOW = datetime.datetime(2026, 11, 22, 9, 0, tzinfo=datetime.UTC)
ON_DEMAND = {"g5.xlarge": 1.006, "g5.2xlarge": 1.212, "g5.4xlarge": 1.624, "g5.12xlarge": 5.672, "c7i.2xlarge": 0.357}
"""USD per hour in us-west-2 on the day of the buckets."""
SAVING = {"g5.2xlarge": 0.59, "g5.4xlarge": 0.70}
BUCKETS = {"g5.2xlarge": (20, 100), "g5.4xlarge": (15, 20), "g5.12xlarge": (20, 100)}
"""AWS's Spot Instance Advisor of June 2025: savings against On-Demand, and interruptions."""


def tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables that have these figures in us-west-2, and no others."""

    def machine(cloud: str, region: str, type: str, *, gpus: int = 0) -> prices.MachinePrice | None:  # noqa: A002
        fixed = ON_DEMAND.get(type) if region == "us-west-2" else None
        if fixed is None:
            return None
        part = SAVING.get(type)
        usd = fixed * (1 - part) if part else None
        seen = prices.SpotRange(usd, usd, DAY, "the advisor") if usd else None
        return prices.MachinePrice(fixed, seen, DAY, "a price list")

    def on_demand(cloud: str, region: str, type: str, *, gpus: int = 0) -> prices.ServicePrice | None:  # noqa: A002
        found = machine(cloud, region, type)
        return prices.ServicePrice(found.on_demand, DAY, "a price list") if found and found.on_demand else None

    def interruption(cloud: str, region: str, type: str) -> prices.Interruption | None:  # noqa: A002
        found = BUCKETS.get(type) if region == "us-west-2" else None
        return prices.Interruption(*found, DAY, "the advisor") if found else None

    monkeypatch.setattr(prices, "machine", machine)
    monkeypatch.setattr(prices, "on_demand", on_demand)
    monkeypatch.setattr(prices, "interruption", interruption)


@dataclass
class FakeSource:
    """A cloud that always says the same."""

    answer: LiveAnswer
    questions: list[Question] = field(default_factory=list)

    def ask(self, question: Question) -> LiveAnswer:
        self.questions.append(question)
        return self.answer


def answered(monkeypatch: pytest.MonkeyPatch, answer: LiveAnswer) -> FakeSource:
    """Let every cloud say this."""
    source = FakeSource(answer)
    monkeypatch.setattr(advise, "_open_source", lambda cloud, region, account: source)
    return source


def spot_price(type: str, zone: str, now: float, **changes: Range | None) -> SpotPrice:  # noqa: A002
    """A price in a zone of us-west-2, with the range of 7 and of 90 days."""
    ranges: dict[str, Range | None] = {"week": Range(now, 1.1 * now, 7), "quarter": Range(0.5 * now, 2 * now, 90)}
    where = {"a": "usw2-az2", "b": "usw2-az1", "c": "usw2-az3"}
    return SpotPrice(
        "us-west-2", f"us-west-2{zone}", NOW, "ec2:Prices", type, now, **(ranges | changes), zone_id=where[zone]
    )


def score(value: int, zone: str | None = None) -> PlacementScore:
    """A score of us-west-2, or of a zone of it by its id."""
    return PlacementScore("us-west-2", None, NOW, "ec2:Scores", zone, value)
