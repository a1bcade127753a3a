"""What `ops estimate` says of a stack, computed anew from the resources that its program makes: each that is billed,
times its price in the table's file. What this cannot prove: what a cloud bills."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

from components import money
from components.config import parse
from tests.components.recording import Recorder
from tests.components.stacks import STACKS, run_stack, settings
from tests.figures import raw

Both = tuple[float, float]
IDENTICAL = {"aws": "us-west-2", "gcp": "us-central1"}
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((stack, {}) for stack in STACKS),
    ("vision-dev", {"monitoring": {"dashboard": True, "notify": ["a@example.com"], "stalled_minutes": 60}}),
    ("vision-dev", {"network": {"create": {"egress": "nat", "zones": 2}}, "logs": {"kms_key": "create"}}),
    ("vision-dev", {"network": {"create": {"egress": "endpoints", "zones": 2}}}),
]
QUEUES: list[tuple[str, dict[str, Any]]] = [
    (
        "vision-dev",
        {
            "machines": {"families": ["c7i"], "cpus": {"min": 4, "max": 16}},
            "capacity": [
                {"market": "spot", "max_cpus": 50, "max_price_percent": 40},
                {"market": "on_demand", "max_cpus": 30},
            ],
        },
    ),
    ("vision-dev", {"machines": {"families": ["c6id", "m6id"], "cpus": {"min": 8, "max": 16}}, "scratch": "local"}),
    ("vision-gcp-dev", {"gcp": {"min_machines": 2, "extra_disk_gib": 30}}),
    (
        "vision-gcp-prod",
        {
            "gcp": {"min_machines": 3},
            "capacity": [{"market": "spot", "max_cpus": 100}, {"market": "on_demand", "max_cpus": 33}],
        },
    ),
]
for stack, changes in QUEUES:
    made = settings(stack)["tidemill:queues"]["cpu"]
    plain = {key: value for key, value in made.items() if key not in ("mounts",)}
    VARIANTS.append((stack, {"queues": {"cpu": plain | changes}}))


def added(parts: Iterator[Both]) -> Both:
    found = list(parts)
    return sum(low for low, _ in found), sum(high for _, high in found)


def same(usd: float) -> Both:
    return usd, usd


class Bill:
    """A stack's resources with their prices."""

    def __init__(self, made: Recorder, cloud: str) -> None:
        self.made, self.cloud, self.region = made, cloud, IDENTICAL[cloud]
        self.unknown = False

    def price(self, what: str) -> float:
        found = raw.service(self.cloud, self.region, what)
        self.unknown |= found is None
        return found or 0.0

    def machines(self, counts: dict[str, int], market: str, percent: int | None = None) -> Both:
        known = {kind: raw.usd(self.cloud, self.region, kind, market, percent) for kind in counts}
        self.unknown |= None in known.values()
        usd = [(counts[kind] * each[0], counts[kind] * each[1]) for kind, each in known.items() if each]
        return (min(low for low, _ in usd), max(high for _, high in usd)) if usd else (0.0, 0.0)

    def per_machine(self, counts: dict[str, int], usd: float) -> Both:
        return min(counts.values()) * usd, max(counts.values()) * usd

    # ---- AWS --------------------------------------------------------------------------------------------------------

    def aws_idle(self) -> Iterator[Both]:
        of, hours = self.made.of, raw.MONTH
        endpoints = [each for each in of("ec2.VpcEndpoint") if each.inputs["vpcEndpointType"] == "Interface"]
        alarms = [query for each in of("cloudwatch.MetricAlarm") for query in each.inputs["metricQueries"]]
        for count, what in (
            (hours * len(of("ec2.NatGateway")), "nat_gateway_hour"),
            (hours * len(of("ec2.Eip")), "public_ipv4_hour"),
            (hours * sum(len(each.inputs["subnetIds"]) for each in endpoints), "interface_endpoint_hour"),
            (len(of("kms.Key")), "kms_key_month"),
            (len(of("cloudwatch.Dashboard")), "dashboard_month"),
            (sum("metric" in query for query in alarms), "alarm_metric_month"),
        ):
            if count:
                yield same(count * self.price(what))

    def aws_burn(self) -> Iterator[Both]:
        public = any(
            each.inputs.get("mapPublicIpOnLaunch") for each in self.made.of("ec2.Subnet") if "public-" not in each.name
        )
        templates = {f"{each.name}-id": each for each in self.made.of("ec2.LaunchTemplate")}
        for each in self.made.of("batch.ComputeEnvironment"):
            wanted = each.inputs["computeResources"]
            counts = {
                kind: math.ceil(wanted["maxVcpus"] / raw.machines("aws")[kind]["cpus"])
                for kind in wanted["instanceTypes"]
            }
            market = "spot" if wanted["type"] == "SPOT" else "on_demand"
            yield self.machines(counts, market, wanted.get("bidPercentage"))
            volumes = templates[wanted["launchTemplate"]["launchTemplateId"]].inputs["blockDeviceMappings"]
            gib = sum(volume["ebs"]["volumeSize"] for volume in volumes)
            yield self.per_machine(counts, gib * self.price("disk_gib_month") / raw.MONTH)
            if public:
                yield self.per_machine(counts, self.price("public_ipv4_hour"))

    # ---- GCP --------------------------------------------------------------------------------------------------------

    def gcp_idle(self) -> Iterator[Both]:
        of, hours = self.made.of, raw.MONTH
        for count, what in (
            (hours * len(of("compute.RouterNat")), "public_ipv4_hour"),
            (len(of("kms.CryptoKey")), "kms_key_month"),
            (len(of("cloudscheduler.Job")), "scheduler_job_month"),
        ):
            if count:
                yield same(count * self.price(what))
        for service in of("cloudrunv2.Service"):
            # Half a minute a night for each schedule, half a second a minute for a look at what has arrived.
            seconds = sum(
                30 * 365 / 12 if job.inputs["schedule"] == "30 1 * * *" else 0.5 * 60 * hours
                for job in of("cloudscheduler.Job")
                if service.name.removesuffix("-run") in job.name
            )
            [container] = service.inputs["template"]["containers"]
            assert container["resources"]["limits"] == {"cpu": "1", "memory": "1Gi"}
            yield same(seconds / 3600 * (self.price("service_cpu_hour") + self.price("service_gib_hour")))
        staying = 0
        for scaler in of("compute.RegionAutoscaler"):
            least = int(scaler.inputs["autoscalingPolicy"]["minReplicas"])
            staying += least
            if least:
                low, high = added(self.group(scaler, least))
                yield hours * low, hours * high
        if staying and of("compute.RouterNat"):
            yield same(hours * min(staying, 32) / 32 * self.price("nat_gateway_hour"))

    def gcp_burn(self) -> Iterator[Both]:
        if self.made.of("compute.RouterNat"):
            yield same(self.price("nat_gateway_hour"))
        for scaler in self.made.of("compute.RegionAutoscaler"):
            yield from self.group(scaler, int(scaler.inputs["autoscalingPolicy"]["maxReplicas"]))

    def group(self, scaler: Any, count: int) -> Iterator[Both]:
        [manager] = [
            m for m in self.made.of("compute.RegionInstanceGroupManager") if f"{m.name}-id" == scaler.inputs["target"]
        ]
        name = manager.inputs["versions"][0]["instanceTemplate"]
        [template] = [t for t in self.made.of("compute.RegionInstanceTemplate") if f"{t.name}-id" == name]
        chosen = manager.inputs.get("instanceFlexibilityPolicy", {}).get("instanceSelections", [])
        kinds = [kind for each in chosen for kind in each["machineTypes"]] or [template.inputs["machineType"]]
        gpus = sum(int(each["count"]) for each in template.inputs.get("guestAccelerators", []))
        market = "spot" if template.inputs["scheduling"]["provisioningModel"] == "SPOT" else "on_demand"
        yield self.machines({f"{kind}+{gpus}t4" if gpus else kind: count for kind in kinds}, market)
        gib = sum(disk["diskSizeGb"] for disk in template.inputs["disks"])
        yield same(count * gib * self.price("disk_gib_month") / raw.MONTH)
        if any(face.get("accessConfigs") for face in template.inputs["networkInterfaces"]):
            what = "public_ipv4_spot_hour" if market == "spot" else "public_ipv4_hour"
            yield same(count * self.price(what))


@pytest.mark.parametrize(("stack", "changes"), VARIANTS, ids=[f"{n}-{stack}" for n, (stack, _) in enumerate(VARIANTS)])
def test_an_estimate_is_the_price_of_what_is_made(stack: str, changes: dict[str, Any]) -> None:
    config = {key.removeprefix("tidemill:"): value for key, value in settings(stack).items() if "tidemill:" in key}
    found = money.estimate(parse(config | changes), IDENTICAL["gcp" if "gcp" in stack else "aws"])
    bill = Bill(run_stack(stack, **changes), found.cloud)
    for told, parts in (
        (found.idle, bill.aws_idle() if found.cloud == "aws" else bill.gcp_idle()),
        (found.burn, bill.aws_burn() if found.cloud == "aws" else bill.gcp_burn()),
    ):
        bill.unknown = False
        assert (told.usd_low, told.usd_high) == pytest.approx(added(parts))
        assert told.complete is not bill.unknown
