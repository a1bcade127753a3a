"""Shapes and their order. The prices are invented; this cannot prove what a cloud charges or takes away."""

import datetime
import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill import machines
from tidemill.advice.rank import DatedFigure, Price, ReclaimMean, ShapeFacts, ShapeScore, Work, rank
from tidemill.advice.reclaim_cost import paid_hours, young
from tidemill.advice.shapes import MachineShape, Market, Need, Region, regions_of, shapes
from tidemill.errors import CallerError

DAY = datetime.date(2026, 1, 2)
US_WEST = [Region("aws", "us-west-2")]


def machine(type):  # noqa: A002
    found = machines.find("aws", type)
    assert found
    return found


def facts(
    type: str = "g5.xlarge",  # noqa: A002
    *,
    usd: float | None = None,
    speed: float | None = None,
    mean: float | None = None,
    score: float | None = None,
    market: Market = "spot",
    count: int = 1,
) -> ShapeFacts:
    return ShapeFacts(
        MachineShape("aws", "us-west-2", None, machine(type), count, market),
        price=None if usd is None else Price(usd, usd, usd, None, DAY, "list"),
        score=None if score is None else ShapeScore(score, DAY, "x", 1),
        reclaims=None if mean is None else ReclaimMean(mean, DAY, "x", "own"),
        items_per_second=None if speed is None else DatedFigure(speed, DAY, "x"),
    )


def names(ranked):
    return [row.facts.shape.type for row in ranked]


# ---- shapes ------------------------------------------------------------------------------------------------------


def test_machines_together_have_exactly_the_gpus_and_at_least_the_rest():
    found = shapes(Need(gpus=4, gpu_memory_gb=24, families=("g5", "g4dn")), US_WEST)
    counts = {(shape.count, shape.type) for shape in found}
    assert (4, "g5.4xlarge") in counts
    assert (1, "g5.12xlarge") in counts
    # 16 GB, and 8 GPUs.
    assert not {name for _, name in counts} & {"g4dn.xlarge", "g5.48xlarge"}
    assert {shape.gpus for shape in found} == {4}
    assert {shape.market for shape in found} == {"spot", "on_demand"}


def test_cpus_and_memory_are_of_all_machines_together():
    found = {shape.type: shape for shape in shapes(Need(cpus=100, memory_mib=512 * 1024, families=("c7i",)), US_WEST)}
    assert found["c7i.8xlarge"].count == 8
    assert all(shape.cpus >= 100 and shape.count * shape.machine.memory_mib >= 512 * 1024 for shape in found.values())
    assert not any(shape.machine.gpus for shape in shapes(Need(cpus=100), US_WEST))


def test_in_one_zone_each_zone_is_a_shape_where_zones_are_known():
    need = Need(gpus=1, families=("g5",), markets=("spot",))
    zones = {shape.zone for shape in shapes(need, US_WEST, one_zone=True)}
    assert zones == {"usw2-az1", "usw2-az2", "usw2-az3"}
    unknown = shapes(Need(cpus=8, families=("n2",)), regions_of(["us-central1"]), one_zone=True)
    assert {shape.zone for shape in unknown} == {None}


def test_a_region_that_the_tables_do_not_have_can_be_asked_for_where_the_cloud_will_be():
    assert regions_of(["asia-east1", "mx-central-1", "us-gov-west-1"], unlisted=True) == [
        Region("gcp", "asia-east1"),
        Region("aws", "mx-central-1"),
        Region("aws", "us-gov-west-1"),
    ]
    for name in ("asia-east1", "mx-central-1"):
        with pytest.raises(CallerError, match="no region"):
            regions_of([name])
    with pytest.raises(CallerError, match="not of zones"):
        regions_of(["us-west-2a"], unlisted=True)


# ---- order -------------------------------------------------------------------------------------------------------


def test_measured_work_is_ranked_by_its_cost_and_not_by_the_hour():
    cheap = facts("g5.2xlarge", usd=0.5, speed=1.0)
    fast = facts("g5.4xlarge", usd=0.6, speed=1.5)
    assert names(rank([cheap, fast], Work(units=1))) == ["g5.4xlarge", "g5.2xlarge"]


def test_what_is_unknown_comes_after_what_is_known():
    rows = [facts("g5.xlarge"), facts("g5.2xlarge", usd=9), facts("g5.4xlarge", usd=99, speed=0.001)]
    ranked = rank(rows, Work(units=1))
    assert names(ranked) == ["g5.4xlarge", "g5.2xlarge", "g5.xlarge"]
    assert (ranked[2].usd_hour, ranked[2].usd_total, ranked[1].usd_million) == (None, None, None)


def test_a_total_without_known_reclaims_says_that_it_is_a_lower_bound():
    silent, told, never = rank(
        [facts("g5.xlarge", usd=1), facts("g5.2xlarge", usd=2, mean=5), facts("g5.4xlarge", usd=3, market="on_demand")],
        Work(units=1, hours=10),
    )
    assert (silent.at_least, silent.usd_total and silent.usd_total.value) == (True, 10)
    assert (told.at_least, told.usd_total and told.usd_total.value > 20) == (False, True)
    assert (never.at_least, never.usd_total and never.usd_total.value, never.save_every_seconds) == (False, 30, None)


amount = st.none() | st.floats(0.001, 1000)
known = st.builds(
    lambda kind, usd, speed, mean, score, market, count: facts(
        kind, usd=usd, speed=speed, mean=mean, score=score, market=market, count=count
    ),
    st.sampled_from(["g5.xlarge", "g5.2xlarge", "g5.4xlarge", "g6.xlarge"]),
    amount,
    amount,
    amount,
    st.none() | st.floats(0, 1),
    st.sampled_from(["spot", "on_demand"]),
    st.integers(1, 9),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(known, max_size=20, unique_by=lambda each: each.shape.key), st.randoms(use_true_random=False))
def test_an_order_is_total_and_does_not_depend_on_the_input(rows, chance):
    work = Work(units=1)
    ranked = rank(rows, work)
    mixed = list(rows)
    chance.shuffle(mixed)
    assert rank(mixed, work) == ranked
    groups = [0 if row.usd_million else 1 if row.usd_hour else 2 for row in ranked]
    assert groups == sorted(groups)
    assert [row.facts.price is None for row in ranked] == sorted(row.facts.price is None for row in ranked)
    for group, cost in ((0, "usd_million"), (1, "usd_unit_hour")):
        costs = [getattr(row, cost).value for row, own in zip(ranked, groups, strict=True) if own == group]
        assert all(one <= other * (1 + 1e-8) for one, other in pairwise(costs))


# ---- reclaims ----------------------------------------------------------------------------------------------------


def simulated(chance, hours, mean, interval, *, save, restart):
    """Hours of a machine that are paid for until the work is done; times in hours."""
    paid = done = 0.0
    while done < hours - 1e-9:
        segment = min(interval, hours - done)
        left, need = chance.expovariate(1 / mean), segment + save
        while left < need:
            # The work since the last save is lost, and a new machine starts.
            paid += left
            left, need = chance.expovariate(1 / mean), restart + segment + save
        paid += need
        done += segment
    return paid


@pytest.mark.parametrize(("mean", "interval"), [(5.0, 0.5), (24.0, 1.3), (2.0, 2.0)])
def test_the_formula_agrees_with_a_simulation(mean, interval):
    chance = random.Random(7)
    runs = [simulated(chance, 20, mean, interval, save=1 / 60, restart=0.05) for _ in range(1000)]
    formula = paid_hours(20, mean, interval_seconds=interval * 3600, save_seconds=60, restart_seconds=180)
    assert formula == pytest.approx(sum(runs) / len(runs), rel=0.03)


def test_youngs_interval_is_close_to_the_cheapest():
    def cost(interval):
        return paid_hours(100, 10, interval_seconds=interval, save_seconds=30, restart_seconds=180)

    best = young(30, 10)
    assert best == pytest.approx(1469.7, abs=0.1)
    assert cost(best) <= 1.001 * min(cost(best * part / 10) for part in range(2, 40))


def test_a_segment_that_practically_never_ends_costs_infinitely_much():
    assert paid_hours(5000, 1, interval_seconds=5000 * 3600) == float("inf")
