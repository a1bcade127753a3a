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
    ((used, cover),) = pool.used()
    assert (used.usd_hour, cover) == (3.6, Cover(5.0, 5.0))


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
    assert told.output.splitlines()[-2].split() == ["plan", "3.60", "5.00", "5.00", "0.00"]
    found = json.loads(run(tmp_path, "- {name: p, cloud: aws, usd_hour: 3.6, discount_percent: 28}", "--json").output)
    assert sum(each["high"] for each in found[0]["burn_hour_covered"]) == pytest.approx(5.0)


def test_what_is_paid_for_nothing_is_told_by_commitment(tmp_path):
    """By hand: 12.50 / 0.72 = 17.36; 256 vCPUs of c7i at 0.044625 are 11.42. A plan for c7i covers no rung
    that may start other families."""
    plans = (
        "- {name: all of compute, cloud: aws, usd_hour: 12.5, discount_percent: 28}\n"
        "- {name: c7i, cloud: aws, usd_hour: 4.3, discount_percent: 40, families: [c7i], regions: [us-west-2]}\n"
    )
    told = run(tmp_path, plans)
    assert told.exit_code == 0, told.output
    rows = [line.split() for line in told.output.splitlines()[-3:-1]]
    assert rows[0][-4:] == ["12.50", "17.36", "11.42", "5.94"]
    assert rows[1] == ["c7i", "4.30", "7.17", "0.00", "7.17"]


def test_without_commitments_nothing_changes():
    told = CliRunner().invoke(estimate, ["--stack", "vision-prod"])
    assert "covered" not in told.output
    (found,) = json.loads(CliRunner().invoke(estimate, ["--stack", "vision-prod", "--json"]).output)
    assert "burn_hour_covered" not in found


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "cannot be read"),
        ("name: plan", "has no list of commitments"),
        (
            "- {name: a, cloud: aws, usd_hour: 0, discount_percent: 1}",
            "entry 1: usd_hour: 0 is not allowed. Allowed: more than 0.0",
        ),
        ("- {name: a, cloud: aws, usd_hour: .inf, discount_percent: 1}", "entry 1: usd_hour"),
        (
            "- {name: a, cloud: aws, usd_hour: 1, discount_percent: 100}",
            "entry 1: discount_percent: 100 is not allowed.",
        ),
        ("- {name: a, cloud: aws, usd_hour: 1, discount_percent: 0.28}", "discount_percent: 0.28 is not allowed."),
        ("- {name: a, cloud: aws, usd_hour: 1, discount: 28}", "discount is not a known key. Did you mean 'discount_p"),
        ("- {name: a, cloud: aws, usd_hour: 1, discount_percent: 1, families: c7i}", "Allowed: a list."),
        (
            "- {name: a, cloud: aws, usd_hour: 1, discount_percent: 1, regions: [us-central1]}",
            "entry 1: regions: us-central1: aws has no such region.",
        ),
        ("- {name: a, cloud: moon, usd_hour: 1, discount_percent: 1}", '"moon" is not allowed. Allowed: aws or gcp.'),
        (
            "- {name: a, cloud: aws, usd_hour: 1, discount_percent: 1, family: x}",
            "family is not a known key. Did you mean 'families'?",
        ),
        (
            "- {name: a, cloud: aws, usd_hour: 1, discount_percent: 1, families: [c99]}",
            "entry 1: families[0]: aws has no family c99.",
        ),
    ],
)
def test_a_wrong_file_is_named_with_its_entry(tmp_path, text, says):
    told = run(tmp_path, text)
    assert (told.exit_code, says in told.output) == (2, True), told.output
