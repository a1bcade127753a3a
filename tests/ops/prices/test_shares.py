"""The share of known prices, and what caps do with the rest: every region and type of the shipped tables."""

import re

import pytest
from click.testing import CliRunner

from ops.__main__ import main
from ops.prices import shares
from policy.rules.common import caps
from tests.ops.prices.test_own import limit, listed, priced
from tidemill import prices
from tidemill.planned_fleet import Market, PlannedFleet

MARKETS: tuple[Market, ...] = ("on_demand", "spot")


@pytest.mark.parametrize("market", MARKETS)
@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_a_cap_counts_or_refuses_every_type_in_every_region(cloud: str, market: Market, monkeypatch):
    """30 regions of AWS and 5 of GCP: a cap of almost nothing lets nothing through, whatever its price is."""
    monkeypatch.setattr(caps, "_config", lambda: "a file")
    passed, seen = [], 0
    for region, machine in shares._sold(cloud, market):
        seen += 1
        gpus, machines = (machine.gpus if machine.attach else 0, 1 if cloud == "gcp" else None)
        fleet = PlannedFleet("urn", market, machine.cpus, (machine.type,), gpus, machines)
        if not list(caps.over_usd(cloud, region, [fleet], 1e-6, 0)):
            passed.append((region, machine.type))
    assert passed == []
    assert seen > 2_000


@pytest.mark.parametrize("market", MARKETS)
@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_what_is_counted_and_refused_is_all_of_the_table(cloud, market):
    counted = shares.count(cloud, market)
    rest = counted.sold - counted.known - counted.bounded
    assert counted.known > 0
    assert counted.bounded > 0
    assert (rest > 0) == bool(counted.refused)


def test_a_counted_price_is_never_below_a_known_one():
    for region in prices.regions("aws"):
        for _, machine in filter(lambda each: each[0] == region, shares._sold("aws", "on_demand")):
            if known := listed("aws", region, machine.type):
                assert limit("aws", region, machine.type) == known
                assert (limit("aws", "eu-west-1", machine.type) or 0) >= known


def test_the_command_compares_with_a_revision(data):
    priced("aws", "us-east-1", c7i_large=0.1)
    told_now = CliRunner().invoke(main, ["prices", "coverage"])
    first = re.search(r"aws: 1 regions, [\d,]+ machine types.*\n  On-Demand: known 0\.1 % now", told_now.output)
    assert first, told_now.output
    told = CliRunner().invoke(main, ["prices", "coverage", "--base", "no-such-revision"])
    assert (told.exit_code, "no-such-revision" in told.output) == (2, True)


def test_the_shares_of_a_revision_are_read_from_git():
    told = CliRunner().invoke(main, ["prices", "coverage", "--base", "HEAD"])
    assert told.exit_code == 0, told.output
    assert len(re.findall(r"known [\d.]+ % at HEAD, [\d.]+ % now", told.output)) == 4
