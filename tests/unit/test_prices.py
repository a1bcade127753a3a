"""The price table as it is shipped. What this cannot prove: that the clouds charge these prices today."""

import datetime

import pytest

from tidemill import prices
from tidemill.prices import table

FILES = sorted(table.DATA.glob("*/*.json.gz"))


def test_a_price_says_what_it_is_worth():
    price = prices.machine("aws", "us-east-1", "c7i.2xlarge")
    assert price is not None
    assert price.on_demand == 0.357
    assert price.as_of >= datetime.date(2026, 1, 1)
    assert price.source


@pytest.mark.parametrize(
    ("cloud", "region", "machine"),
    [
        ("aws", "us-east-1", "c99.large"),
        ("aws", "mars-north-1", "c7i.large"),
        ("aws", "../aws/us-east-1", "c7i.large"),
        ("gcp", "us-east-1", "c7i.large"),
        ("local", "local", "localhost"),
    ],
)
def test_what_is_not_in_the_table_is_unknown(cloud, region, machine):
    assert prices.machine(cloud, region, machine) is None
    assert prices.service(cloud, region, "no_such_service") is None


def test_where_a_machine_is_sold_is_known_without_a_price():
    assert "eu-north-1" in prices.covered("aws")
    assert "eu-north-1" not in prices.regions("aws")
    sold, lacking = (prices.offering("aws", "eu-north-1", kind) for kind in ("c7i.large", "g6.xlarge"))
    assert sold is not None
    assert lacking is not None
    assert len(sold.zones) == 3
    assert all(zone.startswith("eun1-az") for zone in sold.zones)
    assert prices.offering("aws", "eu-north-1", "c99.large") is None
    assert prices.offering("gcp", "us-central1", "n2-standard-8") is None
    assert prices.machine("aws", "eu-north-1", "c7i.large") is None
