"""The digest of a chunk: sketches against exact quantiles, its size, and that older readers and records still work."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pytest

from tidemill.layout import ChunkKey
from tidemill.ledger import Outcome
from tidemill.ledger.chunk import ChunkLedger
from tidemill.ledger.digest import MOST_BYTES, RanOn, RunFacts, digest_of
from tidemill.ledger.records import Header, Record
from tidemill.sketch import LARGEST, SMALLEST, WIDTH, Sketch
from tidemill.store import Store

RANDOM = random.Random(7)
DISTRIBUTIONS = {
    "even": lambda: RANDOM.uniform(1, 100),
    "long tail": lambda: RANDOM.paretovariate(1.1),
    "normal": lambda: max(SMALLEST, RANDOM.gauss(300, 20)),
    "two peaks": lambda: RANDOM.choice([RANDOM.gauss(2, 0.1), RANDOM.gauss(4000, 100)]),
}
WHERE = RanOn("i-0abc", "c7i.4xlarge", "eu-central-1b", "spot")
RUN = RunFacts("2026-11-22T09:00:00+00:00", WHERE, 16, 241.2, 3.1, 1.2, 230.5, 24)


def outcome(index: int, **values: Any) -> Outcome:
    given = {"status": "succeeded", "attempts": 1, "wall_seconds": 10.0, "cpu_seconds": 9.0, "peak_memory_mib": 400.0}
    return Outcome(index=index, uri=f"s3://raw/{index}.jpg", **given | values)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_quantiles_are_within_two_percent(name):
    values = [DISTRIBUTIONS[name]() for _ in range(20_000)]
    whole = Sketch()
    for start in range(0, len(values), 24):
        whole.add(json.loads(json.dumps(Sketch(values[start : start + 24]).packed())))
    ranked = sorted(values)
    for part in (0.01, 0.5, 0.9, 0.95, 0.99, 0.999):
        exact = ranked[math.ceil(part * len(ranked)) - 1]
        assert abs(whole.quantile(part) - exact) <= 0.02 * exact, part
    assert whole.total == len(values)


@pytest.mark.parametrize("step", [2, 4, 8, 16])
def test_buckets_that_are_put_together_are_no_smaller_on_average(step: int):
    values = [DISTRIBUTIONS["long tail"]() for _ in range(20_000)]
    coarse, ranked = Sketch(), sorted(values)
    coarse.add(Sketch(values).packed(step))
    for part in (0.5, 0.9, 0.99):
        exact = ranked[math.ceil(part * len(ranked)) - 1]
        # Half of the buckets that are put together, and half of one.
        assert abs(math.log(coarse.quantile(part) / exact)) <= (step / 2 + 0.51) * math.log(WIDTH), part


def test_a_sketch_of_nothing_and_of_almost_nothing():
    assert math.isnan(Sketch().quantile(0.5))
    assert Sketch([0.0, -1.0, 1e-9]).quantile(1) == pytest.approx(SMALLEST, rel=0.04)
    assert Sketch([math.nan, math.inf]).quantile(0) == pytest.approx(LARGEST, rel=0.04)


def test_a_digest_has_what_a_report_needs():
    made = [outcome(n, wall_seconds=float(n + 1)) for n in range(4)]
    made.append(outcome(4, status="failed", reason="exit", attempts=3, reclaims=2, wall_seconds=0.5))
    made.append(outcome(5, status="failed", reason="input", wall_seconds=0.0, cpu_seconds=0.0, peak_memory_mib=0.0))
    found = digest_of(made, RUN)
    assert found["machine"] == {
        "id": "i-0abc",
        "type": "c7i.4xlarge",
        "zone": "eu-central-1b",
        "market": "spot",
        "slots": 16,
    }
    assert (found["held"], found["fetch"], found["upload"]) == (241.2, 3.1, 1.2)
    assert (found["tries"], found["reclaims"], found["reasons"]) == ([5, 0, 1], 2, {"exit": 1, "input": 1})
    assert found["slow"] == [[3, 4.0, 1], [2, 3.0, 1], [1, 2.0, 1]]
    # What never ran has no time and no memory.
    assert sum(found["wall"]["h"][1::2]) == 5
    assert (found["wall"]["sum"], found["wall"]["max"]) == (10.5, 4.0)
    assert "gpu" not in found


def test_a_digest_stays_small():
    usual = [outcome(n, wall_seconds=RANDOM.gauss(10, 1), peak_memory_mib=RANDOM.gauss(400, 30)) for n in range(24)]
    assert len(json.dumps(digest_of(usual, RUN), separators=(",", ":"))) <= 900
    wild = [
        outcome(
            n,
            wall_seconds=10 ** RANDOM.uniform(-2, 5),
            cpu_seconds=10 ** RANDOM.uniform(-2, 5),
            peak_memory_mib=10 ** RANDOM.uniform(0, 6),
            peak_gpu_memory_mib=10 ** RANDOM.uniform(0, 6),
            gpu_percent=RANDOM.uniform(0, 100),
        )
        for n in range(20_000)
    ]
    found = digest_of(wild, RUN)
    assert len(json.dumps(found, separators=(",", ":"))) <= MOST_BYTES
    assert sum(found["wall"]["h"][1::2]) == len(wild)


def test_a_record_has_its_digest_in_the_first_line_and_old_records_have_none():
    store = Store.open("memory://")
    chunk = ChunkLedger(store, ChunkKey("tiles-00000000", 0, 3), list)
    commit = chunk.commit("a", [outcome(72)], run=RUN)
    stored = chunk.committed()
    assert stored is not None
    assert stored == commit.record
    digest = stored.header.digest
    assert digest is not None
    assert digest["machine"]["type"] == "c7i.4xlarge"
    old = Record(Header(3, "a", 0, "w", 1, 0, "2026-01-01T00:00:00+00:00", {}), [outcome(72)]).encode()
    assert b"digest" not in old
    assert Record.decode(old).header.digest is None
