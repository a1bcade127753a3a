"""What a stack costs. The prices are invented: the tests are about the sums, and the text where a price is missing."""

import datetime
import json
from typing import Any

import pytest
from click.testing import CliRunner

from components import money
from components.aws.money import SENDER_GIB
from components.aws.sending.sender import MEMORY_MIB
from components.config import from_file, parse
from components.config.shared_models import SharedConfig
from ops import estimate as command
from tests.components.stacks import ROOT, STACKS
from tidemill import prices

IMAGE = "docker.io/team/preprocess@sha256:" + 64 * "0"
DAY = datetime.date(2026, 1, 2)
SERVICES = {
    "disk_gib_month": 0.073,
    "public_ipv4_hour": 0.01,
    "public_ipv4_spot_hour": 0.005,
    "nat_gateway_hour": 0.1,
    "interface_endpoint_hour": 0.01,
    "kms_key_month": 2.0,
    "scheduler_job_month": 0.5,
    "scheduled_call": 1e-5,
    "function_call": 5e-6,
    "function_gib_hour": 1.0,
    "queue_request": 2e-5,
    "service_cpu_hour": 1.0,
    "service_gib_hour": 0.1,
    "alarm_metric_month": 0.1,
    "dashboard_month": 3.0,
    "filestore_zonal_gib_month": 0.25,
}


@pytest.fixture(autouse=True)
def table(monkeypatch):
    """A vCPU costs 0.1 USD, on Spot 0.02 to 0.05; of c6i nothing is known, of m6i only On-Demand."""

    def machine(cloud: str, region: str, type: str, *, gpus: int = 0) -> prices.MachinePrice | None:  # noqa: A002
        if region != "here" or type.startswith("c6i"):
            return None
        size = type.rpartition(".")[2] if cloud == "aws" else type.rpartition("-")[2]
        cpus = {"xlarge": 4, "2xlarge": 8, "4xlarge": 16}[size] if cloud == "aws" else int(size)
        spot = prices.SpotRange(0.02 * cpus, 0.05 * cpus, DAY, "test")
        return prices.MachinePrice(0.1 * cpus, None if type.startswith("m6i") else spot, DAY, "test")

    def service(cloud: str, region: str, name: str) -> prices.ServicePrice | None:
        return prices.ServicePrice(SERVICES[name], DAY, "test") if region == "here" and name in SERVICES else None

    monkeypatch.setattr(prices, "machine", machine)
    monkeypatch.setattr(prices, "service", service)


def config(cloud: str = "aws", queue: dict[str, Any] | None = None, **keys: Any):
    wanted = (
        {"families": ["c7i"], "cpus": {"min": 4, "max": 16}} if cloud == "aws" else {"families": ["n2"], "cpus": 16}
    )
    settings = {"images": {"default": IMAGE}, "machines": wanted, "scratch_gib": 50, **(queue or {})}
    return parse({"team": "t", "environment": "e", "cloud": cloud, "queues": {"cpu": settings}, **keys})


def lines(found: list[money.Line]) -> dict[str, tuple[float, float | None, float | None]]:
    def two(usd: float | None) -> float | None:
        return None if usd is None else round(usd, 4)

    return {line.what: (line.quantity, two(line.usd_low), two(line.usd_high)) for line in found}


def test_an_idle_stack_on_aws_costs_nothing():
    found = money.estimate(config(), "here")
    assert found.idle_month == []
    assert found.idle == money.Total(0, 0, complete=True)


def test_a_dashboard_and_alarms_are_billed_and_metrics_of_idle_queues_are_not():
    wanted = {"dashboard": True, "notify": ["a@example.com"], "stalled_minutes": 60}
    found = money.estimate(config(monitoring=wanted), "here")
    # Two metrics of the failed items, one of errors, two of growth, one of the wait, two of reclaims, and of a stall
    # the items and the machines of the only rung.
    assert lines(found.idle_month) == {
        "dashboard": (1, 3.0, 3.0),
        "alarms: metrics that they read": (12, 1.2, 1.2),
    }
    assert money.estimate(config(monitoring={"owner": "ml-oncall"}), "here").idle_month == []


def test_what_a_file_system_will_hold_is_unknown_and_not_free():
    found = money.estimate(config(file_systems={"shared": {}}), "here")
    assert lines(found.idle_month) == {"file system shared: EFS": (1, None, None)}
    assert money.usd(found.idle) == "unknown"
    told = money.usd(money.estimate(config(file_systems={"shared": {}}, store={"kms_key": "create"}), "here").idle)
    assert told == "at least 2.00 USD"


SENDING: dict[str, Any] = {
    "worker_image": f"registry://tidemill-worker@sha256:{64 * '0'}",
    "schedules": {"nightly": {"template": "tiles", "cron": "0 2 * * *"}},
}


def arriving(scheme: str) -> dict[str, Any]:
    data = {"read": [f"{scheme}://incoming"]}
    return SENDING | {"data": data, "arrivals": {"new": {"template": "tiles", "prefix": f"{scheme}://incoming/"}}}


def test_a_sender_is_billed_for_its_calls():
    scheduled, arrived = (money.estimate(config(**keys), "here") for keys in (SENDING, arriving("s3")))
    # 365 calls a year of 30 seconds, and one a minute of half a second, each of a GiB.
    assert lines(scheduled.idle_month) == {
        "sender: calls by schedules": (365 / 12, 0.0003, 0.0003),
        "sender: calls of the function": (365 / 12, 0.0002, 0.0002),
        "sender: GiB of the function": (1, round(365 / 12 * 30 / 3600, 4), 0.2535),
    }
    assert lines(arrived.idle_month)["sender: looks into queues of events"] == (43_800, 0.876, 0.876)
    assert arrived.idle.usd_high > 0.5 * 43_800 / 3600
    assert SENDER_GIB * 1024 == MEMORY_MIB


def test_a_sender_on_gcp_has_a_job_for_each_schedule_and_one_for_arrivals():
    scheduled, arrived = (money.estimate(config("gcp", **keys), "here") for keys in (SENDING, arriving("gs")))
    assert lines(scheduled.idle_month)["sender: Cloud Scheduler jobs"] == (1, 0.5, 0.5)
    assert lines(arrived.idle_month)["sender: Cloud Scheduler jobs"] == (2, 1.0, 1.0)
    assert lines(arrived.idle_month)["sender: vCPUs of the service"][1] == round((43_800 / 2 + 30 * 365 / 12) / 3600, 4)


def test_a_file_system_on_gcp_is_billed_for_its_size():
    made = {"a": {"tier": "zonal", "zone": "a"}, "b": {"tier": "regional", "size_gib": 2048}}
    found = money.estimate(config("gcp", file_systems=made), "here")
    assert lines(found.idle_month) == {
        "file system a: 1024 GiB of zonal": (1, 256.0, 256.0),
        "file system b: 2048 GiB of regional": (1, None, None),
        "reconciler: Cloud Scheduler job": (1, 0.5, 0.5),
    }
    assert not found.idle.complete


def test_alert_policies_on_gcp_have_no_known_price():
    found = money.estimate(config("gcp", monitoring={"notify": ["a@example.com"]}), "here")
    assert lines(found.idle_month)["alarms: conditions of alert policies"] == (6, None, None)
    assert not found.idle.complete


@pytest.mark.parametrize("stack", STACKS)
def test_no_committed_stack_pays_for_monitoring(stack):
    """Nothing that costs while idle is on by default."""
    wanted = from_file(ROOT / "stacks" / f"Pulumi.{stack}.yaml")
    named = [line.what for line in money.estimate(wanted, "nowhere").idle_month]
    assert not [what for what in named if "alarm" in what or "dashboard" in what]


def test_at_full_capacity_machines_disks_and_addresses_are_billed():
    found = money.estimate(config(queue={"capacity": [{"market": "spot", "max_cpus": 64}]}), "here")
    # 4 machines of 16 vCPUs to 16 machines of 4; 100 GiB each.
    assert lines(found.burn_hour) == {
        "queue cpu: Spot machines": (16, 1.28, 3.2),
        "queue cpu: disks of 100 GiB": (16, 0.04, 0.16),
        "queue cpu: public addresses": (16, 0.04, 0.16),
    }
    assert found.burn.complete
    assert found.as_of == DAY


@pytest.mark.parametrize(("percent", "high"), [(40, 2.56), (100, 3.2), (10, 0.64)])
def test_a_cap_on_spot_prices_is_the_most_that_a_rung_costs(percent, high):
    capacity = [{"market": "spot", "max_cpus": 64, "max_price_percent": percent}]
    [line, *_] = money.estimate(config(queue={"capacity": capacity}), "here").burn_hour
    assert line.usd_high == pytest.approx(high)
    assert f"at most {percent} % of the On-Demand price" in line.why


def test_each_rung_is_a_line_of_its_own():
    rungs = [{"market": "spot", "max_cpus": 64}, {"market": "on_demand", "max_cpus": 16}]
    found = lines(money.estimate(config(queue={"capacity": rungs}), "here").burn_hour)
    assert found["queue cpu, rung 2: On-Demand machines"] == (4, 1.6, 1.6)


@pytest.mark.parametrize(
    ("network", "what", "usd"),
    [
        ({"create": {"egress": "nat"}}, "network: NAT gateway", 73.0),
        ({"create": {"egress": "nat"}}, "network: address of the NAT gateway", 7.3),
        ({"create": {"egress": "endpoints", "zones": 2}}, "network: interface endpoints in all zones", 12 * 7.3),
    ],
)
def test_egress_that_costs_idle(network, what, usd):
    found = money.estimate(config(network=network), "here")
    assert lines(found.idle_month)[what][1] == usd
    assert "queue cpu: public addresses" not in lines(found.burn_hour)


def test_secrets_need_endpoints_where_there_is_no_internet():
    arn = "arn:aws:secretsmanager:here:123456789012:secret:token-AbCdEf"
    network = {"create": {"egress": "endpoints", "zones": 1}}
    found = money.estimate(config(network=network, queue={"secrets": {"TOKEN": arn}}), "here")
    assert lines(found.idle_month)["network: interface endpoints in all zones"][0] == 7


def test_an_existing_network_is_not_this_stacks_to_pay():
    network = {"existing": {"vpc_id": "vpc-0123456789abcdef0", "subnet_ids": ["subnet-0123456789abcdef0"]}}
    assert money.estimate(config(network=network), "here").idle_month == []


def test_a_shared_network_is_paid_once_and_its_machines_have_no_addresses():
    stack = config(network={"shared": "organization/tidemill-shared/prod"})
    found = money.estimate(stack, "here")
    assert found.idle_month == []
    assert "queue cpu: public addresses" not in lines(found.burn_hour)


@pytest.mark.parametrize(
    ("shared", "told"),
    [
        ({}, "Idle cost: 80.30 USD per month, once for all teams. Prices: the oldest of 2026-01-02, from test."),
        (
            {"network": {"egress": "endpoints", "zones": 1, "extra_endpoints": ["secretsmanager"]}},
            "Idle cost: 51.10 USD per month, once for all teams. Prices: the oldest of 2026-01-02, from test.",
        ),
        (
            {"cloud": "gcp"},
            "Idle cost: 7.30 USD per month, once for all teams. Prices: the oldest of 2026-01-02, from test.",
        ),
        ({"cloud": "gcp", "network": {"egress": "endpoints"}}, "Idle cost: none."),
    ],
)
def test_a_preview_of_a_shared_stack_says_what_it_costs_idle(shared, told):
    assert money.shared_note(SharedConfig.model_validate(shared), "here") == told


def test_a_shared_stack_where_no_price_is_known_says_so():
    told = money.shared_note(SharedConfig(), "elsewhere")
    assert told.startswith("Cost: unknown. The price table has no prices for elsewhere; it has ")


def test_keys_that_the_stack_makes_are_billed_and_others_are_not():
    key = "arn:aws:kms:us-west-2:123456789012:key/0123abcd-0123-0123-0123-0123456789ab"
    found = money.estimate(config(store={"kms_key": "create"}, logs={"kms_key": key}), "here")
    assert lines(found.idle_month) == {"KMS key of the job store, a version": (1, 2.0, 2.0)}


def test_gcp_machines_that_stay_and_the_reconciler():
    queue = {"gcp": {"min_machines": 2, "extra_disk_gib": 10}, "capacity": [{"market": "spot", "max_cpus": 64}]}
    found = money.estimate(config("gcp", queue, network={"create": {"egress": "nat"}}), "here")
    assert lines(found.idle_month) == {
        "network: address of Cloud NAT": (1, 7.3, 7.3),
        "network: Cloud NAT for machines that stay": (2, 4.5625, 4.5625),  # 32 machines pay all of it
        "queue cpu: Spot machines": (2, 2 * 730 * 0.32, 2 * 730 * 0.8),
        "queue cpu: disks of 110 GiB": (2, 16.06, 16.06),
        "reconciler: Cloud Scheduler job": (1, 0.5, 0.5),
    }
    assert lines(found.burn_hour)["network: Cloud NAT gateway"] == (1, 0.1, 0.1)


def test_addresses_of_spot_machines_cost_less_on_gcp():
    rungs = [{"market": "spot", "max_cpus": 16}, {"market": "on_demand", "max_cpus": 16}]
    found = lines(money.estimate(config("gcp", {"capacity": rungs}), "here").burn_hour)
    assert found["queue cpu, rung 1: public addresses"] == (1, 0.005, 0.005)
    assert found["queue cpu, rung 2: public addresses"] == (1, 0.01, 0.01)


def test_some_unknown_machines_make_a_total_that_says_at_least():
    families = {"families": ["c7i", "c6i"], "cpus": {"min": 4, "max": 4}}
    found = money.estimate(config(queue={"machines": families}), "here")
    line = found.burn_hour[0]
    assert (line.usd_low, line.complete) == (64 * 0.08, False)
    assert "no Spot price of c6i.xlarge" in line.why
    assert not found.burn.complete


def test_an_unknown_region_is_unknown_and_never_zero():
    found = money.estimate(config(network={"create": {"egress": "nat"}}), "elsewhere")
    everything = found.idle_month + found.burn_hour
    assert {(line.usd_low, line.usd_high, line.complete) for line in everything} == {(None, None, False)}
    assert found.as_of is None
    assert not found.idle.complete


def test_a_preview_says_it_in_one_line():
    network = {"create": {"egress": "nat"}}
    told = money.note(config(network=network, queue={"capacity": [{"market": "spot", "max_cpus": 64}]}), "here")
    assert told == (
        "Idle cost: 80.30 USD per month. At full capacity: 1.28 to 3.20 USD per hour for machines, 1.32 to 3.36 USD "
        "with disks and network. Prices: the oldest of 2026-01-02, from test. `python -m ops estimate` has the lines."
    )


@pytest.mark.parametrize(
    ("known", "named"), [(["here"], "it has here."), ([], "it has 0 regions."), (["a"] * 9, "9 regions.")]
)
def test_a_preview_in_a_region_without_prices_says_so(monkeypatch, known, named):
    monkeypatch.setattr(prices, "regions", lambda cloud: known)
    told = money.note(config(), "elsewhere")
    assert told.startswith("Cost: unknown. The price table has no prices for elsewhere; ")
    assert named in told
    assert "`python -m ops prices refresh --cloud aws --region elsewhere`" in told
    assert "\n" not in told


# ---- the command -----------------------------------------------------------------------------------------------


def run(*arguments: str):
    return CliRunner().invoke(command.estimate, arguments)


def test_the_command_says_what_is_unknown_and_what_to_do(monkeypatch):
    monkeypatch.setattr(prices, "regions", lambda cloud: ["here"])
    told = run("--stack", "vision-prod")
    assert told.exit_code == 0, told.output
    assert "Idle, per month: unknown\n" in told.output
    assert "The price table has no prices for us-west-2; it has here." in told.output
    assert "python -m ops prices refresh --cloud aws --region us-west-2" in told.output


def test_json_has_null_for_the_unknown():
    told = run("--stack", "vision-prod", "--stack", "vision-dev", "--json")
    first, second = json.loads(told.output)
    assert (first["stack"], second["stack"], first["as_of"]) == ("vision-prod", "vision-dev", None)
    assert first["idle_month"][0]["usd_low"] is None
    assert first["idle_month_total"]["complete"] is False


def test_a_stack_that_is_not_there_is_the_callers_mistake():
    told = run("--stack", "nope")
    assert told.exit_code == 2
    assert "there is no stacks/Pulumi.nope.yaml" in told.output


@pytest.mark.parametrize(("cloud", "region"), [("aws", "us-west-2"), ("gcp", "us-central1")])
def test_schedules_without_files_cost_half_a_dollar_a_month_at_most(cloud, region, monkeypatch):
    """At the shipped list prices, without free tiers."""
    monkeypatch.undo()
    keys: dict[str, Any] = SENDING | {"schedules": dict.fromkeys(("a", "b", "c"), SENDING["schedules"]["nightly"])}
    costs = [money.estimate(config(cloud, **given), region).idle for given in ({}, keys)]
    assert costs[1].complete
    assert 0 < costs[1].usd_high - costs[0].usd_high <= 0.5
