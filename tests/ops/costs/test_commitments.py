"""What commitments cover of an estimate. Not proven: in which order a cloud applies those of one kind."""

import json

import pytest
from click.testing import CliRunner

from components.money import Line
from ops.costs.commitments import Commitment, Cover, Pool
from ops.estimate import estimate


def line(low: float | None, high: float | None, *families: str, market: str = "on_demand") -> Line:
    return Line("machines", 1, low, high, "", True, market, families or ("c7i",))


def plan(usd_hour: float = 3.6, percent: float = 28, **more) -> Commitment:
    return Commitment(name="plan", cloud="aws", usd_hour=usd_hour, discount_percent=percent, **more)


def test_a_commitment_covers_its_worth_before_the_discount_and_only_once():
    pool = Pool([plan()])
    assert pool.cover("aws", "us-west-2", [line(2.0, 4.0), line(1.0, 4.0)]) == [Cover(2.0, 4.0), Cover(1.0, 1.0)]
    assert pool.cover("aws", "us-west-2", [line(9.0, 9.0)]) == [Cover(2.0, 0.0)], "the next stack gets the rest"
    assert pool.usd_hour("aws") == 3.6


@pytest.mark.parametrize(
    "other",
    [line(5.0, 5.0, market="spot"), Line("disks", 1, 5.0, 5.0, ""), line(None, None)],
    ids=["spot", "disks", "unknown"],
)
def test_spot_disks_and_unknown_prices_are_never_covered(other):
    pool = Pool([plan()])
    assert pool.cover("aws", "us-west-2", [other]) == [Cover(0.0, 0.0)]
    assert pool.cover("aws", "us-west-2", [line(9.0, 9.0)]) == [Cover(5.0, 5.0)]


def test_families_regions_and_clouds_must_fit_and_the_narrow_one_goes_first():
    narrow = plan(1.0, 0, families=("c7i",), regions=("us-west-2",))
    pool = Pool([plan(10.0, 0), narrow])
    assert pool.cover("gcp", "us-west-2", [line(1.0, 1.0)]) == [Cover(0.0, 0.0)]
    assert pool.cover("aws", "us-west-2", [line(1.0, 1.0)]) == [Cover(1.0, 1.0)]
    assert pool._left["low"] == [10.0, 0.0]
    alone = Pool([narrow])
    assert alone.cover("aws", "eu-west-1", [line(1.0, 1.0)]) == [Cover(0.0, 0.0)]
    assert alone.cover("aws", "us-west-2", [line(1.0, 1.0, "c7i", "m7i")]) == [Cover(0.0, 0.0)]


def run(tmp_path, text: str, *options: str):
    path = tmp_path / "paid.yaml"
    path.write_text(text)
    return CliRunner().invoke(estimate, ["--stack", "vision-prod", "--commitments", str(path), *options])


def test_the_estimate_has_columns_for_it(tmp_path):
    told = run(tmp_path, "- {name: plan, cloud: aws, usd_hour: 3.6, discount_percent: 28}\n")
    assert told.exit_code == 0, told.output
    (row,) = [each for each in told.output.splitlines() if "On-Demand machines" in each]
    usd, covered, further = row.split("On-Demand machines")[1].split()[1:4]
    assert (float(covered), round(float(usd) - 5.0, 2)) == (5.0, float(further))
    assert "Commitments cover 5.00 USD of the hour at On-Demand prices" in told.output
    assert "paid in any case: 3.60 USD per hour on aws" in told.output
    found = json.loads(run(tmp_path, "- {name: p, cloud: aws, usd_hour: 3.6, discount_percent: 28}", "--json").output)
    assert sum(each["high"] for each in found[0]["burn_hour_covered"]) == pytest.approx(5.0)


def test_without_commitments_nothing_changes():
    told = CliRunner().invoke(estimate, ["--stack", "vision-prod"])
    assert "covered" not in told.output
    (found,) = json.loads(CliRunner().invoke(estimate, ["--stack", "vision-prod", "--json"]).output)
    assert "burn_hour_covered" not in found


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "cannot be read"),
        ("name: plan", "Input should be a valid list"),
        (
            "- {name: a, cloud: aws, usd_hour: 0, discount_percent: 1}",
            "entry 1, usd_hour: Input should be greater than 0",
        ),
        ("- {name: a, cloud: aws, usd_hour: .inf, discount_percent: 1}", "entry 1, usd_hour"),
        ("- {name: a, cloud: aws, usd_hour: 1, discount_percent: 100}", "entry 1, discount_percent"),
        ("- {name: a, cloud: moon, usd_hour: 1, discount_percent: 1}", "is 'moon'; it must be one of aws, gcp"),
        ("- {name: a, cloud: aws, usd_hour: 1, discount_percent: 1, family: x}", "entry 1, family: Extra inputs"),
        ("- {name: a, cloud: aws, usd_hour: 1, discount_percent: 1, families: [c99]}", "a: aws has no family c99"),
    ],
)
def test_a_wrong_file_is_named_with_its_entry(tmp_path, text, says):
    told = run(tmp_path, text)
    assert (told.exit_code, says in told.output) == (2, True), told.output
