"""`tidemill estimate` and `tidemill advise`, computed anew from the files of the tables. The queues and needs are drawn
at random. What this cannot prove: what a cloud bills, and that a machine holds what its queue says."""

from __future__ import annotations

import datetime
import itertools
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.figures import raw
from tests.unit.client_fakes import FakeBackend, descriptor, queue
from tidemill.advice.rank import DatedFigure, Price, ReclaimMean, ShapeFacts, Work, reckoned
from tidemill.advice.shapes import Market, Need, regions_of, shapes
from tidemill.client import Pipeline
from tidemill.client.estimate.advise import AdviceRequest, advise
from tidemill.descriptor import GcpQueue, Machine, Rung
from tidemill.errors import CallerError
from tidemill.store import Store

LADDERS: list[list[Market]] = [["spot"], ["on_demand"], ["spot", "on_demand"], ["spot", "spot"]]
REGIONS = {"aws": ("us-west-2", "us-east-1", "eu-north-1"), "gcp": ("us-central1", "europe-west4")}
TYPES = {
    # One with a Spot price alone, with both, with an On-Demand price in another region alone, a GPU, and two unknown.
    "aws": ["c6i.2xlarge", "c7i.4xlarge", "g5.2xlarge", "g6.12xlarge", "r7a.large", "i4i.xlarge", "a1.4xlarge"],
    "gcp": ["n2-standard-8", "n2d-highcpu-16", "c3d-highmem-8", "g2-standard-8", "n1-standard-8+1t4", "c4a-standard-8"],
}
SETTINGS = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


@st.composite
def questions(draw: st.DrawFn) -> dict[str, Any]:
    cloud = draw(st.sampled_from(["aws", "gcp"]))
    rungs = [
        Rung(
            market=market,
            max_cpus=draw(st.integers(64, 3000)),
            max_price_percent=draw(st.none() | st.integers(5, 100)) if market == "spot" and cloud == "aws" else None,
        )
        for market in draw(st.sampled_from(LADDERS))
    ]
    return {
        "cloud": cloud,
        "region": draw(st.sampled_from(REGIONS[cloud])),
        "types": draw(st.lists(st.sampled_from(TYPES[cloud]), min_size=1, max_size=4, unique=True)),
        "rungs": rungs,
        "scratch": draw(st.integers(0, 2000)),
        "local": draw(st.booleans()),
        "cpus": draw(st.integers(1, 16)),
        "memory": draw(st.integers(64, 40_000)),
        "gpus": draw(st.sampled_from([0, 0, 0, 1])),
        "slots": draw(st.integers(1, 4)) if cloud == "aws" else 1,
        "items": draw(st.integers(1, 10**6)),
        "seconds": draw(st.floats(0.01, 1e5)),
    }


def holds(asked: dict[str, Any], kind: str) -> int:
    """Items side by side on a machine, by docs/cloud-facts.md: what a machine keeps back, and whole containers."""
    row = raw.machines(asked["cloud"])[kind]
    room = row["memory_mib"] * 95 // 100 - 256 if asked["cloud"] == "aws" else row["memory_mib"] * 98 // 100 - 350
    most = min(row["cpus"] // asked["cpus"], room // asked["memory"])
    if asked["gpus"]:
        most = min(most, row["gpus"] // asked["gpus"])
    return most - most % asked["slots"]


def pipeline_of(asked: dict[str, Any]) -> Pipeline:
    rows = [raw.machines(asked["cloud"])[kind] for kind in asked["types"]]
    made = queue(
        machines=[Machine(**{key: row[key] for key in ("type", "cpus", "memory_mib", "gpus")}) for row in rows],
        capacity=asked["rungs"],
        scratch_gib=asked["scratch"],
        scratch="local" if asked["local"] else "disk",
    )
    if asked["cloud"] == "gcp":
        made = made.model_copy(update={"aws": None, "gcp": GcpQueue(topic="t", subscription="s", dead_letters="d")})
    told = descriptor(queues={"cpu": made}, cloud=asked["cloud"], region=asked["region"])
    return Pipeline(told, Store.open("memory://"), FakeBackend())


@SETTINGS
@given(questions())
def test_an_estimate_is_that_of_the_tables(asked: dict[str, Any]) -> None:
    able = {kind: fits for kind in asked["types"] if (fits := holds(asked, kind)) > 0}
    pipeline = pipeline_of(asked)
    how = {"cpus": asked["cpus"], "memory_mib": asked["memory"], "gpus": asked["gpus"], "slots": asked["slots"]}
    if not able:
        with pytest.raises(CallerError):
            pipeline.estimate(asked["items"], item_seconds=asked["seconds"], **how)
        return
    found = pipeline.estimate(asked["items"], item_seconds=asked["seconds"], **how)
    total = asked["items"] * asked["seconds"] / 3600
    assert found.core_hours == pytest.approx(total * asked["cpus"], abs=0.001)

    # AWS starts machines while it is below maxvCpus, on every rung; GCP stays below it, and the first rung counts.
    cloud, rungs = asked["cloud"], asked["rungs"]
    at_once = []
    for kind, fits in able.items():
        size = raw.machines(cloud)[kind]["cpus"]
        if cloud == "aws":
            at_once.append(fits * sum(math.ceil(rung.max_cpus / size) for rung in rungs))
        else:
            at_once.append(fits * max(1, rungs[0].max_cpus // size))
    assert (found.at_once_low, found.at_once_high) == (min(at_once), max(at_once))
    for hours, side in ((found.hours_low, max(at_once)), (found.hours_high, min(at_once))):
        assert hours == pytest.approx(math.ceil(asked["items"] / side) * asked["seconds"] / 3600, abs=1e-4)

    gib = 0 if asked["local"] else asked["scratch"]
    disk = gib * (raw.service(cloud, asked["region"], "disk_gib_month") or 0.0) / raw.MONTH
    caps = [rung.max_price_percent for rung in rungs if rung.market == "spot"]
    cap = max(caps) if caps and None not in caps else None
    for market, cost in (("spot", found.spot), ("on_demand", found.on_demand)):
        usd = {kind: raw.usd(cloud, asked["region"], kind, market, cap) for kind in able}
        shares = [
            [(each + disk) / able[kind] * total for each in both] for kind, both in usd.items() if both is not None
        ]
        assert (cost.low is None) is (not shares)
        if shares:
            assert cost.low == pytest.approx(min(low for low, _ in shares))
            assert cost.high == pytest.approx(max(high for _, high in shares))
        listed = raw.region(cloud, asked["region"]).get(market, {}).get("usd_hour", {})
        assert cost.unknown == [raw.machines(cloud)[kind]["type"] for kind in able if kind not in listed]


# ---- advise ---------------------------------------------------------------------------------------------------------


def wasted(hours: float, mean: float, interval: float, save: float, restart: float) -> float:
    """Machine-hours for hours of work that is saved at intervals, while machines are taken away at random.

    By the recursion that defines it: a segment takes its length if no reclaim comes, and begins again after one.
    """

    def segment(length: float) -> float:
        # E = P(no reclaim) * length + P(reclaim) * (time until it + restart + E), with a restart that may fail too.
        survive = math.exp(-length / mean)
        until = mean - length * survive / (1 - survive)
        again = (math.exp(restart / mean) - 1) * mean
        return (survive * length + (1 - survive) * (until + again)) / survive

    count, rest = divmod(hours, interval)
    return count * segment(interval + save) + (segment(rest + save) if rest > 1e-9 else 0.0)


@pytest.mark.parametrize("regions", [("us-west-2", "us-east-1"), ("us-central1", "europe-west4")])
@pytest.mark.parametrize(("cpus", "mib"), [(100, 0), (0, 500 * 1024), (7, 90_000)])
def test_shapes_are_ranked_by_the_price_of_what_is_asked_for(regions: tuple[str, str], cpus: int, mib: int) -> None:
    cloud = "aws" if regions[0] in raw.regions("aws") else "gcp"
    found = advise(AdviceRequest(Need(cpus, mib), regions, hours=20, every_size=True, limit=10**6, live=False)).shapes
    assert len(found) >= 200

    expected: dict[tuple[str, str, str], float | None] = {}
    for region in regions:
        zones = raw.region(cloud, region).get("offerings", {}).get("zones")
        for kind, row in raw.machines(cloud).items():
            count = max(math.ceil(cpus / row["cpus"]), math.ceil(mib / row["memory_mib"]))
            if row["gpus"] or count > 1000 or (zones is not None and not zones.get(kind, ["unlisted"])):
                continue
            if kind.split(".")[0] in raw.refused(cloud) or row.get("neurons"):
                continue
            for market in ("spot", "on_demand"):
                if market not in row["markets"]:
                    continue
                listed = raw.region(cloud, region).get(market, {}).get("usd_hour", {}).get(kind)
                usd = listed[1] if isinstance(listed, list) else listed
                expected[region, kind, market] = None if usd is None else count * usd
    told = {(each.region, each.type, each.market): each for each in found}
    assert told.keys() == expected.keys()
    units = cpus or mib / 1024
    for key, usd in expected.items():
        each = told[key]
        assert (each.usd_hour and each.usd_hour.value) == (usd and pytest.approx(usd))
        assert (each.usd_unit_hour and each.usd_unit_hour.value) == (usd and pytest.approx(usd / units))
        # The tables know no interruptions: a Spot total leaves reclaims out, and says so.
        assert (each.usd_total and each.usd_total.value) == (usd and pytest.approx(20 * usd))
        assert each.at_least is (each.market == "spot")
    costs = [each.usd_hour.value if each.usd_hour else math.inf for each in found]
    assert all(one <= other * (1 + 1e-8) for one, other in itertools.pairwise(costs))


@SETTINGS
@given(
    hours=st.floats(0.1, 500),
    mean=st.floats(2, 5000),
    save=st.floats(1, 900),
    item=st.none() | st.floats(1, 7200),
    speed=st.floats(1e-4, 1e4),
)
def test_what_reclaims_cost_is_that_of_a_machine_that_begins_again(
    hours: float, mean: float, save: float, item: float | None, speed: float
) -> None:
    day = datetime.date(2026, 1, 2)
    [shape, *_] = shapes(Need(cpus=16, markets=("spot",)), regions_of(["us-west-2"]))
    facts = ShapeFacts(
        shape,
        price=Price(0.5, 0.4, 0.6, None, day, "s"),
        reclaims=ReclaimMean(mean, day, "own", "own"),
        items_per_second=DatedFigure(speed, day, "own"),
    )
    row = reckoned(facts, Work(units=16, hours=hours, save_seconds=save, restart_seconds=180, item_seconds=item))
    every = math.sqrt(2 * save / 3600 * mean)
    interval, saving = (item / 3600, 0.0) if item else (every, save / 3600)
    assert row.save_every_seconds is not None
    assert row.usd_total is not None
    assert row.usd_million is not None
    assert row.save_every_seconds.value == pytest.approx(3600 * every)
    paid = wasted(hours, mean, interval, saving, 0.05)
    assert row.usd_total.value == pytest.approx(shape.count * 0.5 * paid, rel=1e-6)
    per_hour = wasted(interval, mean, interval, saving, 0.05) / interval
    assert row.usd_million.value == pytest.approx(1e6 / speed / 3600 * 0.5 * per_hour, rel=1e-6)
