"""The time and cost of a job. The prices are invented; this cannot prove what the clouds bill."""

import datetime
import json

import pytest

from tests.unit.client_fakes import gpu_machine, outcome, queue, uris
from tidemill import prices
from tidemill.cli import main
from tidemill.client import Pipeline
from tidemill.descriptor import Machine, Resources, Rung
from tidemill.ledger import Ledger
from tidemill.money import job_cost

DAY = datetime.date(2026, 1, 2)
OLDER = datetime.date(2025, 12, 31)
C7I = Machine(type="c7i.2xlarge", cpus=8, memory_mib=16384)
"""Seven items of the queue fit, as the system reserves memory."""
M7I = Machine(type="m7i.2xlarge", cpus=8, memory_mib=32768)
LADDER = [Rung(market="spot", max_cpus=64), Rung(market="on_demand", max_cpus=32)]


def table(monkeypatch, *, disk=None, spot=("c7i.2xlarge", "m7i.2xlarge")):
    """On-Demand at 0.70 and 0.80 per hour, Spot at 0.14 to 0.28 and 0.16 to 0.32; a GiB of disk is `disk` per month."""
    hourly = {"c7i.2xlarge": 0.7, "m7i.2xlarge": 0.8}

    def machine(cloud, region, type, *, gpus=0):  # noqa: A002
        if type not in hourly:
            return None
        ranged = prices.SpotRange(0.2 * hourly[type], 0.4 * hourly[type], OLDER, "seen") if type in spot else None
        return prices.MachinePrice(hourly[type], ranged, OLDER if ranged else DAY, "listed")

    monkeypatch.setattr(prices, "machine", machine)
    monkeypatch.setattr(prices, "service", lambda *at: disk and prices.ServicePrice(disk, DAY, "listed"))


# ---- job_cost ----------------------------------------------------------------------------------------------------


def test_a_cost_is_the_share_of_a_machine_from_the_cheapest_to_the_dearest(monkeypatch):
    table(monkeypatch)
    cost = job_cost(queue(machines=[C7I, M7I]), "aws", "here", 3600 * 56)
    # 56 hours of items: 8 hours of a c7i, which holds 7, or 7 hours of an m7i, which holds 8.
    assert (cost.on_demand.low, cost.on_demand.high) == pytest.approx((5.6, 5.6))
    assert (cost.spot.low, cost.spot.high) == pytest.approx((1.12, 2.24))
    assert (cost.as_of, cost.sources) == (OLDER, ["listed"])


def test_an_item_that_fills_a_machine_pays_for_all_of_it(monkeypatch):
    table(monkeypatch)
    large = Resources(cpus=5, memory_mib=2048)
    cost = job_cost(queue(machines=[C7I]), "aws", "here", 3600, item=large)
    assert cost.on_demand.low == pytest.approx(0.7)


def test_containers_of_several_slots_leave_a_rest_unused(monkeypatch):
    table(monkeypatch)
    cost = job_cost(queue(machines=[M7I]), "aws", "here", 3600 * 6, container=3)
    assert cost.on_demand.low == pytest.approx(0.8)


def test_the_scratch_is_billed_with_the_machine(monkeypatch):
    table(monkeypatch, disk=0.073)
    cost = job_cost(queue(machines=[M7I], scratch_gib=100), "aws", "here", 3600 * 8)
    assert cost.on_demand.low == pytest.approx(0.81)


def test_machines_that_cannot_hold_the_item_do_not_count(monkeypatch):
    table(monkeypatch)
    cost = job_cost(queue(machines=[C7I, M7I]), "aws", "here", 3600, item=Resources(cpus=1, memory_mib=20_000))
    assert (cost.on_demand.low, cost.on_demand.high) == pytest.approx((0.8, 0.8))


def test_a_type_without_a_price_is_named_and_left_out(monkeypatch):
    table(monkeypatch, spot=["m7i.2xlarge"])
    cost = job_cost(queue(machines=[C7I, M7I, gpu_machine()]), "aws", "here", 3600 * 8)
    assert cost.spot.unknown == ["c7i.2xlarge", "g5.2xlarge"]
    assert cost.spot.low == pytest.approx(0.16)
    assert cost.on_demand.unknown == ["g5.2xlarge"]


@pytest.mark.parametrize(
    ("caps", "low", "high"),
    [
        ([30], 0.14, 0.21),  # seen at 20 to 40 % of the On-Demand price
        ([50], 0.14, 0.28),
        ([10], 0.07, 0.07),  # no machine starts at the prices that were seen; one that starts costs this at most
        ([30, 35], 0.14, 0.245),
        ([30, None], 0.14, 0.28),
    ],
)
def test_a_queues_cap_on_spot_prices_is_the_most_that_a_job_pays(monkeypatch, caps, low, high):
    table(monkeypatch)
    ladder = [Rung(market="spot", max_cpus=8, max_price_percent=cap) for cap in caps]
    capped = queue(machines=[C7I], capacity=[*ladder, Rung(market="on_demand", max_cpus=8)])
    cost = job_cost(capped, "aws", "here", 3600 * 7)
    assert (cost.spot.low, cost.spot.high) == pytest.approx((low, high))
    assert (cost.on_demand.low, cost.on_demand.high) == pytest.approx((0.7, 0.7))


def test_the_cap_holds_where_no_spot_price_is_known(monkeypatch):
    table(monkeypatch, spot=[])
    ladder = [Rung(market="spot", max_cpus=8, max_price_percent=60)]
    cost = job_cost(queue(machines=[C7I], capacity=ladder), "aws", "here", 3600 * 7)
    assert (cost.spot.low, cost.spot.high) == pytest.approx((0.42, 0.42))


def test_without_any_price_the_cost_is_unknown_and_not_zero(monkeypatch):
    table(monkeypatch, disk=0.073)
    cost = job_cost(queue(machines=[gpu_machine()]), "aws", "here", 3600)
    assert (cost.spot.low, cost.spot.high, cost.on_demand.low, cost.as_of) == (None, None, None, None)


# ---- tidemill estimate -------------------------------------------------------------------------------------------


@pytest.fixture
def stack(tmp_path, monkeypatch, installed):
    table(monkeypatch)
    queues = {"cpu": queue(machines=[C7I, M7I], capacity=LADDER), "gpu": queue(machines=[gpu_machine()])}
    found, _ = installed(queues)
    monkeypatch.chdir(tmp_path)
    return Pipeline.load(found.uri)


def asked(capsys, *arguments):
    assert main(["estimate", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_sizes_of_a_quarter_of_a_million_images(stack, capsys):
    found = asked(capsys, "--queue", "cpu", "--count", "250000", "--item-time", "7.2m")
    assert (found["items"], found["item_seconds"], found["core_hours"]) == (250_000, 432, 30_000)
    # 96 vCPUs are 12 machines of 7 or 8 slots; a later rung on AWS is overflow.
    assert (found["at_once_low"], found["at_once_high"]) == (84, 96)
    assert found["hours_low"] == pytest.approx(2605 * 0.12)
    assert found["hours_high"] == pytest.approx(2977 * 0.12)
    assert found["spot"] == {"low": pytest.approx(600), "high": pytest.approx(1200), "unknown": []}
    assert found["on_demand"]["low"] == pytest.approx(3000)
    assert (found["markets"], found["as_of"], found["learnt_from"]) == (["spot", "on_demand"], "2025-12-31", None)


@pytest.mark.parametrize(("typed", "seconds"), [("90", 90), ("250ms", 0.25), ("1.5h", 5400), ("2min", 120), ("3 s", 3)])
def test_times_as_people_write_them(stack, capsys, typed, seconds):
    assert asked(capsys, "--queue", "cpu", "--count", "1", "--item-time", typed)["item_seconds"] == seconds


def test_items_are_counted_from_a_list_as_submit_takes_it(stack, capsys, tmp_path):
    (tmp_path / "items.csv").write_text("id,uri\n1,s3://raw/1.jpg\n2,s3://raw/2.jpg\n\n3,s3://raw/3.jpg\n")
    assert asked(capsys, "--queue", "cpu", "--item-time", "1s", "--items", "items.csv")["items"] == 3
    assert asked(capsys, "--queue", "cpu", "--item-time", "1s", "s3://raw/1.jpg", "s3://raw/2.jpg")["items"] == 2


def test_learnt_from_an_earlier_job(stack, capsys):
    job = stack.submit(["x"], uris(4), queue="cpu", name="tiles", cpus=2, chunk_size=4)
    outcomes = [outcome(n, f"s3://raw/{n}.jpg", failed=False) for n in range(4)]
    for n, each in enumerate(outcomes):
        each.wall_seconds = 10.0 * (n + 1)
    Ledger(stack.store, job.id).chunk(0, 0).commit("a", outcomes)
    found = asked(capsys, "--like", "tiles")
    assert (found["learnt_from"], found["items"], found["queue"], found["cpus"]) == (job.id, 4, "cpu", 2)
    assert found["item_seconds"] == 25
    more = asked(capsys, "--like", "tiles", "--count", "100", "--cpus", "1")
    assert (more["items"], more["cpus"]) == (100, 1)


def test_a_table_for_people(stack, capsys):
    assert main(["estimate", "--queue", "cpu", "--count", "250000", "--item-time", "7.2m"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["items", "250,000", "of", "7.2", "min,", "1", "CPU", "each"]
    assert lines[1].split() == ["core", "hours", "30,000"]
    assert lines[5].split() == ["spot", "yes", "600.00", "1200.00", "none"]
    assert lines[-2].startswith("Prices as of 2025-12-31")
    assert lines[-1] == "Source: listed."


def test_unknown_prices_are_said(stack, capsys):
    assert main(["estimate", "--queue", "gpu", "--count", "10", "--item-time", "1h"]) == 0
    told = capsys.readouterr().out
    assert told.splitlines()[5].split() == ["spot", "yes", "unknown", "unknown", "g5.2xlarge"]
    assert "The cost is unknown: the price table has none" in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--count", "3"], "--item-time is not given"),
        (["--item-time", "3s"], "no items are given; give --count, --items, URIs, or a job with --like"),
        (["--count", "3", "--items", "x", "--item-time", "3s"], "--count and --items are given; give one of them"),
        (["--count", "0", "--item-time", "3s"], "0 is not in the range x>=1"),
        (["--count", "3", "--item-time", "soon"], "'soon' is not a duration. Use seconds, or 250ms"),
        (["--count", "3", "--item-time", "0"], "'0' is too short"),
        (["--count", "3", "--item-time", "3s", "--queue", "cpus"], "Did you mean 'cpu'?"),
        (["--count", "3", "--item-time", "3s", "--queue", "cpu", "--cpus", "999"], "no machine of queue 'cpu'"),
        (["--like", "tiles"], "There is no job"),
    ],
)
def test_mistakes(stack, capsys, arguments, message):
    assert main(["estimate", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_job_that_has_not_run_teaches_nothing(stack, capsys):
    job = stack.submit(["x"], uris(4), queue="cpu", name="tiles")
    assert main(["estimate", "--like", job.id]) == 2
    assert "and no item of it has run yet" in capsys.readouterr().err


def test_this_machine_takes_time_and_its_cost_is_unknown(tmp_path, capsys, monkeypatch):
    from tidemill.services.local.backend import describe_machine, publish  # noqa: PLC0415

    here = describe_machine(f"file://{tmp_path}/store", cpus=4, memory_mib=16384, gpus=0, workers=4)
    publish(here)
    uri = here.uri
    found = asked(capsys, "--pipeline", uri, "--count", "9", "--item-time", "1h")
    assert (found["at_once_low"], found["hours_low"], found["spot"]["low"], found["as_of"]) == (4, 3, None, None)
    assert main(["estimate", "--pipeline", uri, "--count", "9", "--item-time", "1h"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "The queue is this machine, which has no price."


def test_a_later_rung_on_gcp_opens_when_the_first_is_dry():
    from tidemill.client.estimate.estimate import at_once  # noqa: PLC0415
    from tidemill.client.plan.place import Placement  # noqa: PLC0415

    place = Placement("cpu", queue(machines=[M7I], capacity=LADDER), "default", Resources(), 1)
    assert at_once("gcp", place) == (64, 64)
    assert at_once("aws", place) == (96, 96)
