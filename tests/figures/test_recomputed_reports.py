"""The report of hand-made records, computed anew from what the records say: machines, retries, reclaims, rounds,
unfinished chunks. What this cannot prove: that workers measure the truth, and what a cloud bills."""

from __future__ import annotations

import json
import math
import random
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.figures import raw
from tests.unit.client_fakes import pipeline, queue, uris
from tests.unit.report_jobs import made_job
from tidemill import layout
from tidemill.client import Pipeline
from tidemill.client.estimate import measured_speed
from tidemill.client.report.model import JobReport
from tidemill.descriptor import Machine, Rung
from tidemill.layout import ChunkKey
from tidemill.ledger import Outcome
from tidemill.ledger.digest import RanOn, RunFacts, digest_of, interrupted
from tidemill.ledger.records import Header, Record

SIZES = {"c7i.2xlarge": (8, 16), "c7i.4xlarge": (16, 32), "c6i.4xlarge": (16, 32), "m7i.4xlarge": (16, 64)}
"""vCPUs and GiB, as AWS prints them."""
CAP = 30
SCRATCH = 100


@dataclass
class Attempt:
    """An attempt on a chunk: where, for how long, and which items it ended; all others are what it found."""

    chunk: int
    round: int
    machine: RanOn
    start: datetime
    held: float
    ended: list[int]
    drained: bool = False


@dataclass
class Told:
    """What is true of a job, written down while its objects are made."""

    attempts: list[Attempt] = field(default_factory=list)
    outcomes: dict[tuple[int, int], Outcome] = field(default_factory=dict)
    """By round and item."""

    @property
    def committed(self) -> list[Attempt]:
        return [each for each in self.attempts if not each.drained]


def price(kind: str, market: str) -> tuple[float, float] | None:
    return raw.usd("aws", "us-west-2", kind, market, CAP)


def slots(kind: str, cpus: int, memory_mib: int) -> int:
    """ECS gets 95 % of the memory, less 256 MiB."""
    vcpus, gib = SIZES[kind]
    return min(vcpus // cpus, math.floor((gib * 1024 * 95 // 100 - 256) / memory_mib))


def make(seed: int) -> tuple[Told, Any, JobReport]:
    rng = random.Random(seed)
    target, backend = pipeline(
        queues={
            "cpu": queue(
                machines=[Machine(type=k, cpus=c, memory_mib=g * 1024) for k, (c, g) in SIZES.items()],
                capacity=[
                    Rung(market="spot", max_cpus=64, max_price_percent=CAP),
                    Rung(market="on_demand", max_cpus=64),
                ],
                scratch_gib=SCRATCH,
            )
        }
    )
    sent = target.submit(["true"], uris(60), queue="cpu", name="tiles", chunk_size=6, cpus=2, memory_mib=3000)
    job, told, store = target.job(sent.id), Told(), target.store
    began = datetime.now(UTC) - timedelta(hours=5)
    store.put(layout.spec(sent.id), sent.spec.model_copy(update={"created_at": began}).model_dump_json().encode())
    job = target.job(sent.id)
    done = [chunk for chunk in range(10) if chunk != 9 or seed % 2]

    def work(chunk: int, number: int, items: list[int], at: datetime) -> None:
        todo, found = list(items), list[int]()
        for attempt in range(rng.choice([0, 0, 1, 3])):
            got = [todo.pop(0) for _ in range(rng.randint(0, max(0, len(todo) - 1)))]
            at = run(chunk, number, got, at, name=f"d{attempt}", drained=True)
            found += got
        run(chunk, number, todo, at, name="z", found=found)

    def run(
        chunk: int,
        number: int,
        items: list[int],
        at: datetime,
        *,
        name: str,
        drained: bool = False,
        found: list[int] | None = None,
    ) -> datetime:
        market = "spot" if drained else rng.choice(["spot", "spot", "on_demand"])
        kind = rng.choice([k for k in SIZES if market == "spot" or k.startswith("c7i")])
        machine = RanOn(f"i-{rng.randint(0, 5)}-{kind}-{market}", kind, "us-west-2a", market)
        for item in items:
            bad = rng.random() < (0.3 if number == 0 else 0.1)
            told.outcomes[number, item] = Outcome(
                index=item, uri="u", status="failed" if bad else "succeeded", reason="exit" if bad else None,
                attempts=3 if bad else rng.randint(1, 2), wall_seconds=round(rng.lognormvariate(5, 1), 3),
                cpu_seconds=50.0, peak_memory_mib=900.0 + item, error="no" if bad else None,
            )  # fmt: skip
        mine = [told.outcomes[number, item] for item in items]
        worked = sum(each.wall_seconds for each in mine)
        held = worked * 1.1 + rng.uniform(10, 900)
        good = sum(each.status == "succeeded" for each in mine)
        facts = RunFacts(at.isoformat(timespec="seconds"), machine, 2, held, 0.02 * held, 0.01 * held, worked, good)
        key, end = ChunkKey(job.id, number, chunk), at + timedelta(seconds=held / 2)
        told.attempts.append(Attempt(chunk, number, machine, at, held, items, drained))
        if drained:
            store.put(layout.drained(key, name), json.dumps(interrupted(facts)).encode())
            return end
        ran = [told.outcomes[number, item] for item in sorted({*(found or ()), *items})]
        failed = sum(each.status == "failed" for each in ran)
        header = Header(chunk, name, number, "w", len(ran), failed, end.isoformat(), {}, digest_of(ran, facts))
        if failed:
            store.put(layout.failed(*key, failed), b"")
        store.put(layout.done(*key), Record(header, ran).encode())
        return end

    for chunk in done:
        work(chunk, 0, list(range(6 * chunk, 6 * chunk + 6)), began + timedelta(seconds=60 * chunk))
    if len(done) == 10:
        failed = [item for (_, item), each in told.outcomes.items() if each.status == "failed"]
        job.retry(failed)
        for chunk in sorted({item // 6 for item in failed}):
            work(chunk, 1, [i for i in failed if i // 6 == chunk], began + timedelta(hours=2, seconds=60 * chunk))
    for fake in backend.arrays:
        fake.children = ["succeeded"] * len(fake.children)
    return told, target, job.report()


@pytest.fixture(scope="module", params=range(6))
def made(request: pytest.FixtureRequest) -> tuple[Told, Any, JobReport]:
    return make(request.param)


def test_counts_are_those_of_the_records(made: tuple[Told, Any, JobReport]) -> None:
    told, _, report = made
    last = {item: each for (_, item), each in sorted(told.outcomes.items())}
    done = {each.chunk for each in told.committed}
    ran = list(told.outcomes.values())
    assert (report.items, report.chunks, report.chunks_done) == (60, 10, len(done))
    assert report.succeeded == sum(each.status == "succeeded" for each in last.values())
    assert report.failed == sum(each.status == "failed" for each in last.values())
    assert report.remaining == 60 - len(last)
    assert report.executions == len(ran)
    assert report.reclaims == sum(each.drained for each in told.attempts)
    assert report.rounds == 1 + max(each.round for each in told.attempts)
    assert report.tries == [sum(min(each.attempts, 3) == n for each in ran) for n in (1, 2, 3)]
    assert sum(report.reasons.values()) == sum(each.reason is not None for each in ran)
    assert sum(group.count for group in report.failing.groups) == report.failed


def test_times_are_those_of_the_records(made: tuple[Told, Any, JobReport]) -> None:
    told, _, report = made
    walls = sorted(each.wall_seconds for each in told.outcomes.values())
    assert report.wall is not None
    assert report.chunk_seconds is not None
    assert report.timeline is not None
    assert report.wall.mean == pytest.approx(sum(walls) / len(walls), abs=0.001)
    assert report.wall.max == walls[-1]
    for part, found in (
        (0.5, report.wall.p50),
        (0.9, report.wall.p90),
        (0.95, report.wall.p95),
        (0.99, report.wall.p99),
    ):
        assert found == pytest.approx(walls[math.ceil(part * len(walls)) - 1], rel=0.02)
    took = [each.held / 2 for each in told.committed]
    assert report.chunk_seconds.max == pytest.approx(max(took), abs=1.1)  # starts are told in whole seconds
    ends = [each.start + timedelta(seconds=each.held / 2) for each in told.committed]
    if report.ended_at:
        # The store says when; these records were all written just now.
        assert datetime.fromisoformat(report.ended_at) >= max(ends) - timedelta(hours=5)
    # At most so many machines at once, by the times of their first lease and last record.
    assert report.timeline.machines is not None
    spans: dict[str, list[datetime]] = defaultdict(list)
    for each, end in zip(told.committed, ends, strict=True):
        spans[str(each.machine.id)] += [each.start, end]
    moments = [at for span in spans.values() for at in span]
    peak = max(sum(min(span) <= at <= max(span) for span in spans.values()) for at in moments)
    # The timeline counts whole steps, so that neighbours may meet in one.
    assert peak <= max(report.timeline.machines) <= len(spans)


def test_hours_are_those_of_the_attempts(made: tuple[Told, Any, JobReport]) -> None:
    told, _, report = made
    held, taken = defaultdict[Any, float](float), defaultdict[Any, list[float]](lambda: [0, 0.0, 0.0])
    for each in told.attempts:
        at = (each.machine.type, each.machine.market)
        if each.drained:
            worked = sum(told.outcomes[each.round, item].wall_seconds for item in each.ended)
            taken[at] = [taken[at][0] + 1, taken[at][1] + each.held, taken[at][2] + each.held - worked]
        else:
            held[at] += each.held
    found = defaultdict[Any, float](float)
    for place in report.places:
        found[place.type, place.market] += place.slot_hours
    assert found == pytest.approx({at: seconds / 3600 for at, seconds in held.items()}, abs=0.001)
    reclaimed = {
        (each.type, each.market): [each.reclaims, each.held_hours, each.lost_hours] for each in report.reclaimed
    }
    assert reclaimed.keys() == taken.keys()
    for at, (count, some, lost) in taken.items():
        assert reclaimed[at] == pytest.approx([count, some / 3600, lost / 3600], abs=0.001)


def test_slots_did_what_their_own_items_took(made: tuple[Told, Any, JobReport]) -> None:
    """Items that an attempt has found done took slots of another one."""
    told, _, report = made
    use = report.slot_use
    assert use is not None
    work = sum(told.outcomes[each.round, item].wall_seconds for each in told.committed for item in each.ended)
    assert use.held == pytest.approx(sum(each.held for each in told.committed) / 3600, abs=1e-4)
    assert use.work == pytest.approx(work / 3600, abs=1e-4)
    assert use.work + use.fetch + use.upload + use.other == pytest.approx(use.held, abs=1e-3)


def test_the_cost_is_that_of_the_hours(made: tuple[Told, Any, JobReport]) -> None:
    told, _, report = made
    disk = SCRATCH * (raw.service("aws", "us-west-2", "disk_gib_month") or 0.0) / raw.MONTH
    low = high = full = 0.0
    known = True
    for each in told.attempts:
        share = each.held / 3600 / slots(str(each.machine.type), 2, 3000)
        usd = price(str(each.machine.type), str(each.machine.market))
        assert usd is not None
        low, high = low + share * (usd[0] + disk), high + share * (usd[1] + disk)
        worked = sum(told.outcomes[each.round, item].wall_seconds for item in each.ended)
        needed = worked / each.held if each.drained else 1.0
        fixed = price(str(each.machine.type), "on_demand")
        known = known and fixed is not None
        full += share * needed * (fixed[0] + disk if fixed else 0.0)
    cost = report.cost
    assert cost is not None
    assert (cost.low, cost.high) == pytest.approx((low, high), abs=0.001)
    assert cost.on_demand == (pytest.approx(full, abs=0.001) if known else None)
    assert cost.unpriced_hours == 0


def test_the_speed_of_machines_is_that_of_the_items_that_they_ended(
    made: tuple[Told, Any, JobReport], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `advise --like` ranks by, from all records in place of a sample."""
    monkeypatch.setattr(measured_speed, "RECORDS", 100)
    told, target, report = made
    items, hours = defaultdict[Any, int](int), defaultdict[Any, float](float)
    for each in told.committed:
        kind = str(each.machine.type)
        items[kind] += sum(told.outcomes[each.round, item].status == "succeeded" for item in each.ended)
        hours[kind] += each.held / 3600 / slots(kind, 2, 3000)
    shown = measured_speed.read_own(target.site, target.job(report.job).spec)
    found = {kind: figure.value for kind, figure in shown.items_per_second.items()}
    assert found == pytest.approx({kind: n / hours[kind] / 3600 for kind, n in items.items() if n}, rel=1e-3)


def test_an_estimate_learns_from_records_of_all_of_a_job() -> None:
    """Sorted by their length, as with --longest-first: a sample of the first records would be twice too long."""

    def shorter(index: int, _: random.Random) -> Outcome:
        return Outcome(
            index=index, uri="u", status="succeeded", attempts=1, wall_seconds=400.0 - index, peak_memory_mib=9.0,
            cpu_seconds=1.0,
        )  # fmt: skip

    for chunks in (3, 8, 9, 15, 16, 23, 31):
        items = 10 * chunks
        made = made_job(items, 10, outcome=shorter)
        mean = 400.0 - (items - 1) / 2
        site = made.job._watched.site
        learnt = Pipeline(site.descriptor, site.store, made.backend).estimate(like=made.job.id).item_seconds
        assert learnt == pytest.approx(mean, rel=0.05), chunks
