"""Prices of a company's own, files that are not whole, and prices for limits. Not proven: what a contract says."""

import json

import pytest
from click.testing import CliRunner

from ops.__main__ import main
from ops.prices import own as set_prices
from ops.prices.region import Answer, read, write
from tidemill import prices
from tidemill.errors import CallerError
from tidemill.prices import own, table


def ops(*arguments: str):
    return CliRunner().invoke(main, ["prices", *arguments])


def priced(cloud: str, region: str, **usd: float) -> None:
    found = read(cloud, region)
    found.take(Answer("on_demand", "the list", {name.replace("_", "."): each for name, each in usd.items()}))
    write(found)


def listed(cloud: str, region: str, kind: str) -> float | None:
    price = prices.on_demand(cloud, region, kind)
    return price and price.usd


def limit(cloud: str, region: str, kind: str) -> float | None:
    price = prices.at_most(cloud, region, kind)
    return price and price.on_demand


P5 = ("--cloud", "aws", "--region", "us-west-2", "--type", "p5.48xlarge")


def test_a_price_of_our_own_counts_in_place_of_the_list(data):
    priced("aws", "us-west-2", p5_48xlarge=55.0)
    told = ops("set", *P5, "--usd-hour", "38.2", "--source", "contract of 2026")
    assert (told.exit_code, told.output.endswith("own.json: 1 price of your own.\n")) == (0, True), told.output
    price = prices.machine("aws", "us-west-2", "p5.48xlarge")
    assert price is not None
    assert (price.on_demand, price.source) == (38.2, "contract of 2026")
    (row,) = json.loads((data / "own.json").read_text())
    assert (row["region"], row["usd_hour"]) == ("us-west-2", 38.2)
    assert ops("set", *P5, "--remove").exit_code == 0
    assert listed("aws", "us-west-2", "p5.48xlarge") == 55.0
    assert (data / "own.json").read_text() == "[]\n"


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        (["--region", "us-west-2a", "--type", "c7i.xlarge", "--usd-hour", "0.1"], "Did you mean 'us-west-2'?"),
        (["--region", "us-central1", "--type", "c7i.xlarge", "--usd-hour", "0.1"], "aws has no such region"),
        (["--region", "us-west-2", "--type", "p5", "--usd-hour", "38"], "It is a family, of p5.4xlarge, p5.48xlarge."),
        (["--region", "us-west-2", "--type", "p5.49xlarge", "--usd-hour", "38"], "Did you mean 'p5.4"),
        (
            ["--region", "us-west-2", "--type", "c7i.xlarge", "--usd-hour", "17.85"],
            "price in us-west-2 is 0.1785.",
        ),
        (
            ["--region", "us-west-2", "--type", "c7i.xlarge", "--usd-hour", "0.001"],
            "price in us-west-2 is 0.1785.",
        ),
        (["--region", "us-west-2", "--type", "p5.48xlarge", "--usd-hour", "27886"], "costs more than 1920."),
        (["--region", "us-west-2", "--type", "p5.48xlarge"], "--usd-hour is missing."),
        (["--region", "us-west-2", "--type", "p5.48xlarge", "--usd-hour", "1", "--remove"], "leave --usd-hour out"),
    ],
)
def test_a_price_that_is_for_something_else_is_refused(data, typed, says):
    """Each would lie in the file unread, or weaken a cap."""
    priced("aws", "us-west-2", c7i_xlarge=0.1785)
    told = ops("set", "--cloud", "aws", "--source", "contract", *typed)
    assert (told.exit_code, says in " ".join(told.output.split())) == (2, True), told.output
    assert not (data / "own.json").exists()


def test_the_answer_names_the_list_price(data):
    priced("aws", "us-west-2", p5_48xlarge=55.0)
    told = ops("set", *P5, "--usd-hour", "38.2", "--source", "contract")
    assert "p5.48xlarge in us-west-2: the list price (55 USD per hour) gives way to 38.2 USD per hour." in told.output
    assert "the list price (55 USD per hour) counts again" in ops("set", *P5, "--remove").output


def test_the_listing_says_which_parts_a_region_lacks(data):
    priced("aws", "us-west-2", p5_48xlarge=55.0)
    told = ops("show", "--cloud", "aws").output
    assert told.startswith("us-west-2: 1 on_demand (")
    assert told.endswith("; no offerings, spot, services, interruption\n")


def test_a_refresh_leaves_it(data):
    assert ops("set", *P5, "--usd-hour", "38.2", "--source", "contract").exit_code == 0
    priced("aws", "us-west-2", p5_48xlarge=60.0)
    assert listed("aws", "us-west-2", "p5.48xlarge") == 38.2
    assert prices.regions("aws") == ["us-west-2"]


def test_it_bounds_what_has_no_list_price(data):
    ops("set", *P5, "--usd-hour", "38.2", "--source", "contract")
    assert limit("aws", "eu-west-1", "p5.48xlarge") == 38.2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--usd-hour", "0", "--source", "x"), "--usd-hour is 0.0; it must be above 0"),
        (("--usd-hour", "nan", "--source", "x"), "--usd-hour is nan"),
        (("--usd-hour", "1"), "--source is missing"),
        (("--remove",), "p5.48xlarge has no price of your own in us-west-2"),
        (("--usd-hour", "1", "--source", "x", "--type", "p9.large"), "--type p9.large: the table of machines has no"),
    ],
)
def test_a_wrong_price_is_refused_and_nothing_is_written(data, arguments, says):
    told = ops("set", *P5, *arguments)
    assert (told.exit_code, says in told.output) == (2, True), told.output
    assert not (data / "own.json").exists()


GOOD = {
    "cloud": "aws", "region": "us-west-2", "type": "c7i.large", "usd_hour": 1, "as_of": "2026-11-01", "source": "us",
}  # fmt: skip


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "cannot be read"),
        ("{}", "it must be a list of prices"),
        (json.dumps([{"cloud": "aws"}]), "row 1 is 'cloud'; it must be an object with as_of, cloud"),
        (json.dumps([GOOD | {"usd_hour": -1}]), "row 1, usd_hour is -1; it must be USD per hour, above 0"),
        (json.dumps([GOOD | {"usd_hour": True}]), "row 1, usd_hour is True"),
        (json.dumps([GOOD | {"as_of": "May"}]), "row 1, as_of is 'May'; it must be a day"),
        (json.dumps([GOOD | {"source": ""}]), "row 1, source is ''; it must be a text"),
        (json.dumps([GOOD, GOOD]), "two prices of one machine type in one region"),
    ],
)
def test_a_wrong_file_is_named_with_its_row(data, content, says):
    (data / "own.json").write_text(content)
    with pytest.raises(CallerError) as error:
        prices.machine("aws", "us-west-2", "c7i.large")
    assert says in str(error.value)
    assert "own.json" in str(error.value)


def test_a_price_file_that_is_half_there_is_named_and_not_read_as_empty(data):
    priced("aws", "us-west-2", c7i_large=0.1)
    path = data / "aws" / "us-west-2.json.gz"
    path.write_bytes(path.read_bytes()[:-12])
    table._region.cache_clear()
    with pytest.raises(CallerError, match=r"us-west-2\.json\.gz is not whole"):
        prices.machine("aws", "us-west-2", "c7i.large")
    told = ops("show", "--cloud", "aws")
    assert (told.exit_code, "Restore it from git" in told.output) == (2, True)


@pytest.mark.parametrize(
    ("known", "usd", "wanted", "at_most"),
    [
        (
            "g5_16xlarge",
            4.0,
            "g5.xlarge",
            4.0,
        ),  # one GPU each
        ("g5_xlarge", 1.0, "g5.48xlarge", 48.0),
        ("c7i_large", 0.1, "c7i.8xlarge", 1.6),
        ("c7i_large", 0.1, "c7i-flex.large", 0.1),
    ],
)
def test_a_type_without_a_price_counts_as_what_holds_all_of_it(data, known, usd, wanted, at_most):
    priced("aws", "us-east-1", **{known: usd})
    assert limit("aws", "eu-west-1", wanted) == pytest.approx(at_most)


def test_memory_counts_too_and_other_gpus_are_another_family(data):
    found = read("gcp", "us-central1")
    found.take(Answer("on_demand", "the list", {"n2-highcpu-8": 0.2, "a2-highgpu-1g": 3.0, "c3-standard-8": 0.4}))
    write(found)
    ratio = 64 / 8
    assert limit("gcp", "us-east1", "n2-highmem-8") == pytest.approx(0.2 * ratio)
    assert limit("gcp", "us-east1", "n2-custom-16-4096") == pytest.approx(0.4)
    assert limit("gcp", "us-east1", "a2-ultragpu-1g") is None
    assert limit("gcp", "us-east1", "c3-standard-8-lssd") == pytest.approx(0.8)


def test_a_file_of_prices_is_written_in_order(data):
    rows = [own._price("a", GOOD | {"type": kind}) for kind in ("c7i.xlarge", "c7i.large")]
    set_prices.write(data / "own.json", rows)
    assert [row["type"] for row in json.loads((data / "own.json").read_text())] == ["c7i.large", "c7i.xlarge"]
