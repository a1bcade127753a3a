"""Every figure in USD that is printed says when and from where its prices are. The figures of a job's report are in
test_report.py."""

import datetime
import re
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from components import money
from components.config import from_file
from ops import estimate
from ops.prices import region
from policy.rules.common import caps
from tests.components.stacks import ROOT
from tests.ops.make_previews import names, review_of
from tidemill import prices
from tidemill.planned_fleet import PlannedFleet

STACKS = sorted(path.stem.removeprefix("Pulumi.") for path in (ROOT / "stacks").glob("Pulumi.*.yaml"))
USD = re.compile(r"\d USD|\$\d|USD per (hour|month).*\d")
FROM = re.compile(r"\d{4}-\d\d-\d\d, from \S|(?s:from \d{4}-\d\d-\d\d\..*^Source: \S)", re.MULTILINE)


def previews() -> Iterator[tuple[str, str]]:
    for stack in STACKS:
        config = from_file(ROOT / "stacks" / f"Pulumi.{stack}.yaml")
        for place in prices.regions(config.cloud):
            yield f"{stack} in {place}", money.note(config, place)


def test_previews_and_estimates_of_every_stack_say_when_and_from_where():
    told = dict(previews())
    told |= {stack: CliRunner().invoke(estimate.estimate, ["--stack", stack]).output for stack in STACKS}
    figures = {name: text for name, text in told.items() if USD.search(text)}
    assert len(figures) >= len(told) - len(STACKS), "the shipped table has prices for some region of each cloud"
    assert [text for text in figures.values() if not FROM.search(text)] == []


@pytest.mark.parametrize("name", names())
def test_reviews_say_when_and_from_where(name):
    text = review_of(name)[0]
    assert not USD.search(text) or FROM.search(text)


def test_a_refused_cap_says_when_and_from_where():
    fleet = PlannedFleet("urn", "on_demand", 100_000, ("c7i.2xlarge",))
    ((message, _),) = caps.over_usd("aws", "us-west-2", [fleet], 1, unknown=0)
    assert USD.search(message)
    assert FROM.search(message)


def test_an_origin_is_the_oldest_date_and_every_source_once():
    old, new = datetime.date(2026, 1, 2), datetime.date(2026, 2, 3)
    listed = prices.ServicePrice(1, new, "A list (of zones), as somebody carries it")
    both = prices.MachinePrice(1, None, old, "A list (of zones), as somebody carries it; https://b/, c")
    found = prices.origin([listed, None, both])
    assert found == prices.PriceOrigin(old, ("A list (of zones), as somebody carries it", "https://b/, c"))
    assert str(found) == "the oldest of 2026-01-02, from A list, https://b/"
    assert prices.origin([None]) is None


def test_no_shipped_source_is_torn_apart():
    """Several sources are joined with a semicolon, so none of them has one."""
    for cloud in ("aws", "gcp"):
        for name in prices.covered(cloud):
            found = region.read(cloud, name)
            for part in (*found.parts.values(), *found.services.values()):
                assert ";" not in part["source"], (name, part["source"])
