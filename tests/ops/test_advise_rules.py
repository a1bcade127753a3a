"""The rules of `ops advise`, on made-up figures."""

import dataclasses
import datetime
import random
from typing import Any

import pytest

from components import machines
from components.config import Queue
from ops.advise.figures import LOW_SCORE, Book, Family, Span
from ops.advise.rules import OFTEN_RECLAIMED, Standing, advise, scarcity
from ops.clouds import aws
from tidemill.advice.sources import CapacityAdvice, LiveAnswer, PlacementScore

NOW = datetime.datetime(2026, 11, 22, 18, 0, tzinfo=datetime.UTC)
EVERY = {"aws": ["c7i", "c6i", "m7i", "m6i", "c7a", "c6a", "r5", "r7i"], "gcp": ["n2", "n2d", "c3d", "n1", "e2"]}


def family(name, spot=None, on_demand=None, reclaimed=None, *, cloud="aws", count=3, missing=()):
    types = tuple(machines.families(cloud)[name][1 : 1 + count])
    paid, fixed = (None if usd is None else Span(usd, 1.2 * usd) for usd in (spot, on_demand))
    worst = None if reclaimed is None else Span(reclaimed, reclaimed + 5)
    return Family(name, types, paid, fixed, worst, missing)


def standing(present, candidates=(), *, cloud="aws", zones=None, scarce=None, **keys):
    own = {"families": [each.name for each in present], **keys.pop("machines", {})}
    queue = Queue.model_validate({"images": {"default": "registry://a:1"}, "machines": own, **keys})
    return Standing(cloud, queue, tuple(present), tuple(candidates), zones, scarce)


def after(seen, key="machines.families"):
    found: Any = next((change.after for change in advise(seen).changes if change.key == key), None)
    return found


def test_the_cheapest_families_join_until_there_are_types_enough():
    found = standing([family("c7i", 0.02)], [family("r7i", 0.025), family("c6i", 0.018), family("m6i", 0.019)])
    assert after(found) == ["c7i", "c6i", "m6i", "r7i"]
    assert after(standing([family("c7i", 0.02, count=8), family("m7i", count=2)], [family("c6i", 0.01)])) is None


@pytest.mark.parametrize(
    "candidate",
    [
        family("c6i"),
        family("c6i", 0.04),
        family("c6i", 0.02, missing=("c6i.large",)),
        family("c6i", 0.02, reclaimed=OFTEN_RECLAIMED),
    ],
    ids=["no price is known", "dear", "not sold in every size", "often reclaimed"],
)
def test_a_family_that_nothing_speaks_for_does_not_join(candidate):
    assert after(standing([family("c7i", 0.02)], [candidate])) is None


def test_nothing_is_decided_by_what_is_unknown():
    found = advise(standing([family("c7i")], [family("c6i")], zones=3))
    assert found.changes == ()
    assert "No Spot price of the queue's families is known" in found.notes[0]


def test_a_family_goes_only_where_enough_types_stay():
    calm = [family(name, 0.02, reclaimed=5) for name in EVERY["aws"][:4]]
    wild = family("r5", 0.02, reclaimed=OFTEN_RECLAIMED)
    assert after(standing([*calm, wild])) == [each.name for each in calm]
    assert after(standing([*calm[:2], wild])) is None
    assert sorted(after(standing([*calm[:2], wild], calm[2:]))) == sorted(each.name for each in calm)


def test_a_family_that_costs_more_on_spot_than_another_on_demand_goes():
    cheap = [family(name, 0.02, 0.05) for name in EVERY["aws"][:4]]
    assert after(standing([*cheap, family("r5", 0.05)])) == [each.name for each in cheap]
    assert after(standing([*cheap, family("r5", 0.049)])) is None


@pytest.mark.parametrize("missing", [False, True], ids=["no item fits", "not sold"])
def test_a_family_without_any_machine_goes(missing):
    useless = family("r5", 0.01, count=1) if missing else family("r5", count=0)
    useless = dataclasses.replace(useless, missing=tuple(each.type for each in useless.types))
    assert after(standing([family("c7i", 0.02), useless])) == ["c7i"]
    assert after(standing([useless])) is None, "a queue keeps its last family"


def test_types_that_are_left_out_go_with_their_family():
    gone = standing([family("c7i", 0.02), family("r5", count=0)], machines={"exclude": ["r5.xlarge", "c7i.2xlarge"]})
    assert after(gone, "machines.exclude") == ["c7i.2xlarge"]


def test_on_gcp_the_cheapest_family_comes_first_where_it_is_clearly_cheaper():
    prices = {"n2": 0.015, "n2d": 0.008, "c3d": 0.016}
    found = standing([family(name, usd, cloud="gcp", count=1) for name, usd in prices.items()], cloud="gcp")
    assert after(found) == ["n2d", "n2", "c3d"]
    near = standing(
        [family(name, usd, cloud="gcp", count=1) for name, usd in {**prices, "n2": 0.0087}.items()], cloud="gcp"
    )
    assert after(near) is None


@pytest.mark.parametrize(
    ("zones", "keys", "given_up"),
    [
        (4, {}, True),
        (2, {}, False),
        (None, {}, False),
        (4, {"aws": {"placement_group": "cluster"}}, False),
        (4, {"capacity": [{"market": "spot"}, {"market": "on_demand", "reservation": "cr-0123456789abcdef0"}]}, False),
    ],
)
def test_a_queue_gets_every_zone_of_its_network(zones, keys, given_up):
    found = advise(standing([family("c7i", 0.02)], zones=zones, machines={"zones": ["a", "c"]}, **keys))
    assert ("machines.zones" in [change.key for change in found.changes]) is given_up


def test_what_is_tied_to_a_reservation_keeps_its_families():
    capacity = [{"market": "spot"}, {"market": "on_demand", "reservation": "cr-0123456789abcdef0"}]
    assert after(standing([family("c7i", 0.02)], [family("c6i", 0.01)], capacity=capacity)) is None


def test_a_cap_that_leaves_families_out_is_raised_for_them():
    capacity = [{"market": "spot", "max_cpus": 64, "max_price_percent": 40}]
    found = standing([family("c7i", 0.02, 0.10), family("c6i", 0.062, 0.10)], capacity=capacity)
    assert after(found, "capacity") == [{"market": "spot", "max_cpus": 64, "max_price_percent": 65}]
    low = standing([family("c7i", 0.02, 0.10)], capacity=capacity)
    assert after(low, "capacity") is None


def test_on_demand_joins_only_where_spot_is_scarce_and_alone():
    families = [family("c7i", 0.02, count=8)]
    spot = {"market": "spot", "max_cpus": 256}
    assert after(standing(families, capacity=[spot]), "capacity") is None
    assert after(standing(families, capacity=[spot], scarce="because"), "capacity")[1]["market"] == "on_demand"
    dear = dataclasses.replace(families[0], cpu_on_demand=Span(0.05, 0.06))
    (change,) = advise(standing([dear, family("m7i", count=8)], capacity=[spot], scarce="because")).changes
    assert change.after[1] == {"market": "on_demand", "max_cpus": 64}
    assert "Its 64 vCPUs cost 3.20 to 3.84 USD per hour" in change.reasons[1]
    both = [spot, {"market": "on_demand", "max_cpus": 8}]
    assert after(standing(families, capacity=both, scarce="because"), "capacity") is None


def test_scarcity_is_told_with_its_figure_and_date():
    def answer(value):
        score = PlacementScore("us-west-2", None, NOW, "ec2:GetSpotPlacementScores", None, value)
        return Book("aws", "us-west-2", LiveAnswer(scores=(score,)))

    wild = [family("c7i", reclaimed=OFTEN_RECLAIMED)]
    assert scarcity(answer(LOW_SCORE + 1), []) is None
    assert scarcity(answer(LOW_SCORE), []) == (
        "Spot in us-west-2 now: 3 of 10 (2026-11-22 18:00 UTC, ec2:GetSpotPlacementScores)"
    )
    assert "20 %" in (scarcity(Book("aws", "us-west-2"), wild) or "")
    assert scarcity(Book("aws", "us-west-2"), [*wild, family("c6i")]) is None, "of one family nothing is known"
    gcp = CapacityAdvice("us-central1", None, NOW, "advice.capacity", 10, 0.2, None, ())
    assert "obtainability 0.2 (" in (scarcity(Book("gcp", "us-central1", LiveAnswer(capacity=(gcp,))), []) or "")


def _random(draw, cloud):
    """A queue among families of which much is unknown."""

    def one(name):
        usd, fixed, wild = (draw.choice([None, draw.uniform(0.01, 0.1)]) for _ in range(3))
        missing = tuple(each.type for each in machines.families(cloud)[name][1:4] if draw.random() < 0.1)
        made = family(name, usd, fixed, draw.choice([None, 5, 10, 20]) if wild else None,
                      cloud=cloud, count=draw.randint(0, 3), missing=missing)  # fmt: skip
        return made

    known = {name: one(name) for name in EVERY[cloud]}
    names = draw.sample(EVERY[cloud], draw.randint(1, len(known)))
    capacity = [{"market": "spot", "max_cpus": 64}]
    if cloud == "aws" and draw.random() < 0.5:
        capacity[0]["max_price_percent"] = draw.randint(10, 100)
    seen = standing(
        [known[name] for name in names], [each for name, each in known.items() if name not in names and each.types],
        cloud=cloud, zones=draw.choice([None, 3]), machines={"zones": draw.choice([[], ["a"]])}, capacity=capacity,
        scarce=draw.choice([None, "because"]),
    )  # fmt: skip
    return seen, known


def _changed(seen, known):
    queue = seen.queue.model_dump(exclude_unset=True)
    for change in advise(seen).changes:
        outer, _, inner = change.key.partition(".")
        if inner:
            queue[outer][inner] = [] if change.after is None else change.after
        else:
            queue[outer] = change.after
    names = queue["machines"]["families"]
    return dataclasses.replace(
        seen,
        queue=Queue.model_validate(queue),
        families=tuple(known[name] for name in names),
        candidates=tuple(each for name, each in known.items() if name not in names and each.types),
    )


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_advice_that_was_taken_says_nothing_more(cloud):
    """1,200 queues: not even where the advice has made Spot less scarce."""
    draw = random.Random(cloud)
    told = 0
    for _ in range(600):
        seen, known = _random(draw, cloud)
        once = _changed(seen, known)
        told += once.queue != seen.queue
        for scarce in (seen.scarce, None):
            again = dataclasses.replace(once, scarce=scarce)
            assert advise(again).changes == (), advise(seen).changes
        assert once.queue.machines.families
    assert told > 200


def test_no_advice_leaves_fewer_types_than_there_are_and_than_are_wanted():
    draw = random.Random(75)
    for _ in range(600):
        seen, known = _random(draw, "aws")
        before, now = (sum(len(each.types) for each in each_.families) for each_ in (seen, _changed(seen, known)))
        sold = sum(len(each.types) for each in seen.families if not {t.type for t in each.types} <= {*each.missing})
        assert now >= min(before, sold, aws.WANTED_TYPES)
