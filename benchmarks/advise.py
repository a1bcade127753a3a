"""What `tidemill advise` costs and how far its arithmetic can be trusted.

Calls and seconds are those of a question about two regions and forty types, against an AWS on this machine that takes
80 ms per call. Own jobs are read from a store that takes as long. The order is that of the old benchmark of four small
Spot machines against one large one, at the prices and buckets of June 2025. Whether a cloud's scores are right is not
measured.
"""

from __future__ import annotations

import datetime
import json
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.figures import figure
from tests.slow_capacity import SlowAws, SlowGoogle
from tests.unit.advice_fakes import BUCKETS, DAY, ON_DEMAND, SAVING
from tests.unit.report_jobs import made_job
from tidemill import machines
from tidemill.advice.cache import Cache
from tidemill.advice.knowledge import of_bucket
from tidemill.advice.rank import Bucket, DatedFigure, Price, ReclaimMean, ShapeFacts, ShapeScore, Work, rank
from tidemill.advice.reclaim_cost import paid_hours
from tidemill.advice.shapes import MachineShape, Market, Need
from tidemill.client.estimate.advise import AdviceRequest, advise
from tidemill.client.estimate.measured_speed import read_own
from tidemill.clouds.aws.advice import AwsSource
from tidemill.clouds.gcp.advice import GcpSource

DELAY_SECONDS = 0.08
REGIONS = ("us-west-2", "us-east-1")
RUNS = 1000
INPUTS = 10_000
JOBS = 15
MATRIX: Sequence[tuple[int, str, Market]] = (
    (4, "g5.2xlarge", "spot"),
    (4, "g5.4xlarge", "spot"),
    (1, "g5.12xlarge", "spot"),
    (4, "g5.2xlarge", "on_demand"),
    (4, "g5.4xlarge", "on_demand"),
    (1, "g5.12xlarge", "on_demand"),
)


def main() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        google, slowest = ask_google(Path(folder) / "g")
        figure("advise-gcp-requests", google.calls.total(), "requests", 12)
        figure("advise-gcp-seconds", slowest, "s", 3)
        first, seconds = ask(Path(folder) / "a")
        print(f"calls: {dict(first.calls)}")
        figure("advise-requests", first.calls.total(), "requests", 12)
        figure("advise-seconds", seconds, "s", 3)
        again, cached = ask(Path(folder) / "a")
        figure("advise-again-requests", again.calls.total(), "requests", 0)
        print(f"from the cache: {cached:.2f} s")
        # Without the cache, what AWS counts is whether the request for scores is the same.
        later, _ = ask(Path(folder) / "b")
        figure("advise-new-configurations", len(configurations(later) - configurations(first)), "configurations", 0)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        requests, reading = own_jobs(Path(folder))
        figure("advise-own-requests", requests, "requests", 600)
        figure("advise-own-seconds", reading, "s", 3)
    alone, count = tables()
    print(f"shapes of two regions: {count:,}")
    figure("advise-tables-seconds", alone, "s", 0.5)
    figure("advise-matrix-place", matrix_place(), "place", 1)
    figure("advise-cost-error", worst_error(), "%", 3)
    figure("advise-unstable-orders", unstable(), "orders", 0)


def ask(cache: Path) -> tuple[SlowAws, float]:
    """Ask with an AWS of our own, and say how long that took."""
    aws = SlowAws(DELAY_SECONDS)

    def source(cloud: str, region: str, account: str) -> AwsSource:
        return AwsSource(region, account, aws, cache=Cache(cache))  # type: ignore[arg-type]

    need = Need(cpus=400, families=("c6i", "c7i", "m6i", "m7i", "r7i", "c7g"))
    start = time.perf_counter()
    found = advise(AdviceRequest(need, REGIONS, live=True, hours=24), source=source)
    seconds = time.perf_counter() - start
    assert found.shapes
    assert not found.notes, found.notes
    return aws, seconds


def ask_google(cache: Path) -> tuple[SlowGoogle, float]:
    """Ask with a GCP of our own about two of its regions, and say how long that took."""
    google = SlowGoogle(DELAY_SECONDS)
    need = Need(cpus=400, families=("n2", "n2d", "c3", "e2"))
    wanted = AdviceRequest(need, ("us-central1", "us-east1"), live=True)
    os.environ["GOOGLE_CLOUD_PROJECT"] = "project"
    start = time.perf_counter()
    found = advise(wanted, source=lambda cloud, region, account: GcpSource(account, google, cache=Cache(cache)))
    seconds = time.perf_counter() - start
    assert not found.notes, found.notes
    return google, seconds


def configurations(aws: SlowAws) -> set[str]:
    """The requests for scores, as AWS compares them."""
    return {json.dumps(wanted) for name, _, wanted in aws.asked if name == "GetSpotPlacementScores"}


def own_jobs(folder: Path) -> tuple[int, float]:
    """Return the requests to a store that takes as long, and the seconds, for jobs of a name among others."""
    every = [(1200 + 24 * n, name) for n in range(JOBS) for name in ("this", "other")]
    made = [made_job(items, name=name, uri=f"file://{folder}") for items, name in every]
    site, spec = made[0].job._watched.site, made[0].job.spec
    counted: list[str] = []

    def slow(name: str, answer: Callable[..., Any]) -> Callable[..., Any]:
        def asked(*given: Any) -> Any:
            counted.append(name)
            time.sleep(DELAY_SECONDS)
            return answer(*given)

        return asked

    for name in ("get", "get_range", "entries", "list", "folders", "find"):
        setattr(site.store, name, slow(name, getattr(site.store, name)))
    start = time.perf_counter()
    found = read_own(site, spec)
    seconds = time.perf_counter() - start
    assert found.items_per_second
    print(f"requests to the store: {dict(Counter(counted))}")
    return len(counted), seconds


def tables() -> tuple[float, int]:
    """Return how long the tables alone take for two regions of both clouds, and how many shapes they have."""
    wanted = AdviceRequest(Need(cpus=400), ("us-west-2", "us-central1"), live=False, every_size=True)
    start = time.perf_counter()
    found = advise(wanted)
    return time.perf_counter() - start, found.found


def matrix_place() -> int:
    """Return the place of four g5.4xlarge on Spot."""
    ranked = rank([known(*row) for row in MATRIX], Work(units=4, hours=20))
    for row in ranked:
        shape, unit, total = row.facts.shape, row.usd_unit_hour, row.usd_total
        words = f"{shape.count} x {shape.type} {shape.market}"
        print(f"{words:28}", *(f"{each.value:8.3f}" if each else " unknown" for each in (unit, total)))
    return 1 + [(row.facts.shape.type, row.facts.shape.market) for row in ranked].index(("g5.4xlarge", "spot"))


def known(count: int, type: str, market: Market) -> ShapeFacts:  # noqa: A002
    """The facts of June 2025."""
    machine = machines.find("aws", type)
    assert machine
    usd = ON_DEMAND[type] if market == "on_demand" else ON_DEMAND[type] * (1 - SAVING[type]) if type in SAVING else None
    bucket = Bucket(*BUCKETS[type], DAY, "the advisor") if market == "spot" else None
    price = None if usd is None else Price(usd, usd, usd, None, DAY, "a price list")
    shape = MachineShape("aws", "us-west-2", None, machine, count, market)
    return ShapeFacts(shape, price, bucket=bucket, reclaims=of_bucket(bucket) if bucket else None)


def worst_error() -> float:
    """Return by how many percent the formula misses the mean of the runs at worst."""
    chance, worst = random.Random(1), 0.0
    for mean, interval, save, restart in ((2.0, 0.5, 60.0, 180.0), (6.0, 1.5, 30.0, 300.0), (24.0, 4.0, 120.0, 600.0)):
        runs = [paid(chance, 40.0, mean, interval, saving=save / 3600, restarting=restart / 3600) for _ in range(RUNS)]
        simulated = sum(runs) / RUNS
        formula = paid_hours(40.0, mean, interval_seconds=interval * 3600, save_seconds=save, restart_seconds=restart)
        error = 100 * abs(formula / simulated - 1)
        print(f"a reclaim per {mean:g} h, saved each {interval:g} h: {formula:.2f} h, simulated {simulated:.2f} h")
        worst = max(worst, error)
    return worst


def paid(
    chance: random.Random, hours: float, mean: float, interval: float, *, saving: float, restarting: float
) -> float:
    """Run a machine through its work, second by second of its reclaims, and return the hours that are paid for."""
    total = done = 0.0
    until = chance.expovariate(1 / mean)
    need = 0.0
    while done < hours - 1e-9:
        segment = min(interval, hours - done)
        need += segment + saving
        if until >= need:
            until, total, done, need = until - need, total + need, done + segment, 0.0
        else:
            # The work since the last save is lost with the machine; the next one starts and restores first.
            total, until, need = total + until, chance.expovariate(1 / mean), restarting
    return total


def unstable() -> int:
    """Return how many of many random inputs have an order that depends on how they were given, or is no order."""
    chance, wrong = random.Random(2), 0
    types = [machine for machine in machines.table("aws").types if machine.gpus]
    for _ in range(INPUTS):
        rows = [random_facts(chance, types) for _ in range(chance.randrange(12))]
        ranked = rank(rows, Work(units=4))
        shuffled = chance.sample(rows, len(rows))
        groups = [0 if row.usd_million else 1 if row.usd_hour else 2 for row in ranked]
        same = [row.facts for row in rank(shuffled, Work(units=4))] == [row.facts for row in ranked]
        wrong += not (same and groups == sorted(groups) and len(ranked) == len(rows))
    return wrong


def random_facts(chance: random.Random, types: Sequence[machines.MachineType]) -> ShapeFacts:
    """A shape with anything unknown; many costs are equal."""

    def some(low: float, high: float) -> float | None:
        return round(chance.uniform(low, high), 1) if chance.random() < 0.6 else None

    usd, value, mean, speed = some(0.1, 2), some(0, 1), some(1, 90), some(0.1, 3)
    shape = MachineShape(
        "aws",
        chance.choice(REGIONS),
        chance.choice((None, "usw2-az1")),
        chance.choice(types),
        chance.randint(1, 99),
        chance.choice(("spot", "on_demand")),
    )
    return ShapeFacts(
        shape,
        price=None if usd is None else Price(usd, usd, usd, None, DAY, "x"),
        score=None if value is None else ShapeScore(value, DAY, "x", 1),
        reclaims=None if mean is None else ReclaimMean(mean, datetime.date(2026, 1, 1), "x", "own"),
        items_per_second=None if speed is None else DatedFigure(speed, DAY, "x"),
    )


if __name__ == "__main__":
    main()
