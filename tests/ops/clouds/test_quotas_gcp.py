"""A stack's use of a region's quotas on GCP. The region is invented; no quota of a real project was read."""

from typing import Any

import pytest
from click.testing import CliRunner

from components.config import parse
from components.gcp.quotas import needed, shortfalls
from ops.clouds import gcp_quotas, quotas

IMAGE = "docker.io/team/preprocess@sha256:" + 64 * "0"
SPOT = {"market": "spot", "max_cpus": 160}
BOTH = [SPOT, {"market": "on_demand", "max_cpus": 32}]


def asked(network: dict[str, Any] | None = None, **queue: Any) -> dict[str, int]:
    queues = {"cpu": {"images": {"default": IMAGE}, "machines": {"families": ["n2", "e2"], "cpus": 16}, **queue}}
    values = {"team": "vision", "environment": "dev", "cloud": "gcp", "queues": queues}
    return needed(parse(values | ({"network": network} if network else {})))


def region(**limits: int) -> dict[str, Any]:
    return {"quotas": [{"metric": metric, "limit": float(limit), "usage": 3.0} for metric, limit in limits.items()]}


def test_spot_machines_share_one_quota_whatever_their_family():
    assert asked(capacity=[SPOT]) == {
        "PREEMPTIBLE_CPUS": 160,
        "INSTANCES": 10,
        "SSD_TOTAL_GB": 1500,
        "IN_USE_ADDRESSES": 10,
    }


def test_on_demand_machines_use_their_familys_quota_and_each_family_must_suffice():
    found = asked(capacity=BOTH)
    assert {key: found[key] for key in ("PREEMPTIBLE_CPUS", "N2_CPUS", "CPUS", "INSTANCES")} == {
        "PREEMPTIBLE_CPUS": 160, "N2_CPUS": 32, "CPUS": 32, "INSTANCES": 12
    }  # fmt: skip


def test_addresses_only_where_machines_have_some():
    assert "IN_USE_ADDRESSES" not in asked({"create": {"egress": "nat"}}, capacity=[SPOT])


def test_disks_count_with_scratch_and_extra_disk():
    found = asked(capacity=[SPOT], scratch_gib=30, gcp={"extra_disk_gib": 20})
    assert found["SSD_TOTAL_GB"] == 10 * (50 + 30 + 20)


def test_gpus():
    machines = {"families": ["n1-t4"], "cpus": 4}
    found = asked(item={"cpus": 2, "memory_mib": 4096, "gpus": 1}, machines=machines, capacity=BOTH)
    assert (found["PREEMPTIBLE_NVIDIA_T4_GPUS"], found["NVIDIA_T4_GPUS"]) == (40, 8)


def test_what_is_short_is_said_with_numbers():
    short = shortfalls({"PREEMPTIBLE_CPUS": 160, "N2_CPUS": 32}, region(PREEMPTIBLE_CPUS=159, N2_CPUS=32))
    assert [str(each) for each in short] == [
        "PREEMPTIBLE_CPUS: the queues ask for up to 160, the project may have 159, 3 of it in use"
    ]


def test_without_a_quota_for_preemptible_machines_they_use_the_standard_one():
    found = shortfalls({"PREEMPTIBLE_CPUS": 160, "CPUS": 32}, region(PREEMPTIBLE_CPUS=0, CPUS=170))
    assert [(each.metric, each.needed) for each in found] == [("CPUS", 192)]


def test_a_quota_that_is_not_there_limits_nothing():
    assert shortfalls({"PREEMPTIBLE_CPUS": 160}, region(CPUS=1)) == []


class Session:
    answer: tuple[int, Any] = (200, {})
    asked: str = ""

    def __init__(self, credentials: Any) -> None:
        assert credentials == "me"

    def get(self, url: str, timeout: float) -> Any:
        Session.asked = url
        code, document = Session.answer
        return type("Answer", (), {"status_code": code, "text": str(document), "json": lambda _: document})()


@pytest.fixture
def login(monkeypatch: pytest.MonkeyPatch) -> type[Session]:
    monkeypatch.setattr(gcp_quotas.google.auth, "default", lambda scopes: ("me", "p"))
    monkeypatch.setattr(gcp_quotas, "AuthorizedSession", Session)
    monkeypatch.delenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE", raising=False)
    return Session


def test_the_command_reads_the_stacks_region(login):
    login.answer = (200, region(PREEMPTIBLE_CPUS=1, INSTANCES=10**9))
    done = CliRunner().invoke(quotas.quotas, ["--stack", "vision-gcp-prod"])
    assert done.exit_code == 1
    assert done.output.startswith("PREEMPTIBLE_CPUS: the queues ask for up to ")
    assert login.asked.startswith("https://compute.googleapis.com/compute/v1/projects/")
    login.answer = (200, region(PREEMPTIBLE_CPUS=10**9))
    assert CliRunner().invoke(quotas.quotas, ["--stack", "vision-gcp-prod"]).exit_code == 0


def test_the_command_says_why_it_cannot_read(login):
    login.answer = (403, "denied")
    done = CliRunner().invoke(quotas.quotas, ["--stack", "vision-gcp-prod"])
    assert (done.exit_code, done.output) == (1, "Error: the quotas could not be read: 403 denied\n")
