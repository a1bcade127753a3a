"""Capacity and money: what fleets may start, its hourly cost, and what is billed while idle."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Protocol

from ops.review.compute import AUTOSCALERS, ENVIRONMENT, GROUPS, OF_MARKET, QUEUE, TEMPLATES
from ops.review.diffs import at
from ops.review.document import State, Step
from ops.review.models import Finding, Fleet, IdleCost, Money, Severity
from ops.review.values import is_unknown, number, objects, texts
from tidemill.planned_fleet import PlannedFleet, hourly, of_environment, of_group, whole
from tidemill.prices import HOURS_A_MONTH, PriceOrigin, origin

_MUCH_GIB = 1000
_FEW = 4
"""Machines or vCPUs that may stay without work before somebody must look."""


class Prices(Protocol):
    """A source of prices: `tidemill.prices`, or a test's table."""

    def machine(self, cloud: str, region: str, type: str, *, gpus: int = 0) -> Any:  # noqa: A002
        """The hourly price of a machine; None if unknown."""

    def service(self, cloud: str, region: str, name: str) -> Any:
        """The price of a unit of a service; None if unknown."""

    def interruption(self, cloud: str, region: str, type: str) -> Any:  # noqa: A002
        """How often machines of a type are reclaimed; None if unknown."""


class PriceRecorder:
    """Prices of machines and services, and the origin of those that were asked for and are known."""

    def __init__(self, prices: Prices) -> None:
        self._prices = prices
        self._known: list[Any] = []

    @property
    def origin(self) -> PriceOrigin | None:
        """Of the known ones; None if there are none."""
        return origin(self._known)

    def machine(self, cloud: str, region: str, type: str, *, gpus: int = 0) -> Any:  # noqa: A002
        self._known.append(self._prices.machine(cloud, region, type, gpus=gpus))
        return self._known[-1]

    def service(self, cloud: str, region: str, name: str) -> Any:
        self._known.append(self._prices.service(cloud, region, name))
        return self._known[-1]


Priced = Prices | PriceRecorder

# Resources billed by the hour or month: type to (description, name of its price, units per resource).
_STANDING: dict[str, tuple[str, str]] = {
    "aws:ec2/natGateway:NatGateway": ("NAT gateway", "nat_gateway_hour"),
    "aws:ec2/vpcEndpoint:VpcEndpoint": ("interface endpoint in a zone", "interface_endpoint_hour"),
    "aws:ec2/eip:Eip": ("public IPv4 address", "public_ipv4_hour"),
    "aws:efs/fileSystem:FileSystem": ("file system, for what it holds", ""),  # unknown, and so is its price
    "aws:kms/key:Key": ("KMS key", "kms_key_month"),
    "aws:cloudwatch/dashboard:Dashboard": ("dashboard", "dashboard_month"),
    "aws:cloudwatch/metricAlarm:MetricAlarm": ("metric of an alarm", "alarm_metric_month"),
    "gcp:filestore/instance:Instance": ("GiB of Filestore {}", "filestore_{}_gib_month"),
    "gcp:compute/routerNat:RouterNat": ("address of Cloud NAT", "public_ipv4_hour"),
    "gcp:kms/cryptoKey:CryptoKey": ("KMS key version", "kms_key_month"),
    "gcp:monitoring/alertPolicy:AlertPolicy": ("condition of an alert policy", "alert_condition_month"),
    "gcp:cloudscheduler/job:Job": ("Cloud Scheduler job", "scheduler_job_month"),
}


def fleets(steps: list[Step], cloud: str, region: str | None, prices: Priced) -> tuple[Fleet, ...]:
    """Every compute environment or machine group, before and after, by name."""
    sides = [Side(steps, before) for before in (True, False)]
    rows = []
    for step in steps:
        if step.type != ENVIRONMENT and step.type not in GROUPS:
            continue
        before, after = (side.fleet(step) for side in sides)
        if present := after or before:
            usd = [_usd(each, cloud, region, prices) if each else None for each in (before, after)]
            cpus = [each.cpus if each else None for each in (before, after)]
            rows.append(Fleet(step.name, present.market, cpus[0], cpus[1], usd[0], usd[1]))
    return tuple(sorted(rows, key=lambda fleet: fleet.name))


def findings(rows: Iterable[Fleet], steps: list[Step]) -> Iterator[Finding]:
    """Findings of the kind `capacity`: fleets that may start more or less than before; none for a new stack."""
    if not any(step.before for step in steps):
        return
    urns = {step.name: step.urn for step in steps if step.type == ENVIRONMENT or step.type in GROUPS}
    first = {side: _first(steps, before=side) for side in (True, False)}
    for fleet in rows:
        if fleet.market == "on_demand" and urns[fleet.name] in first[False] - first[True]:
            title = "jobs start on On-Demand machines first"
            yield Finding("high", "capacity", fleet.name, urns[fleet.name], title, _dollars(fleet))
        before, after = fleet.cpus_before, fleet.cpus_after
        if before == after or fleet.cpus_after is None:
            continue
        more = after is not None and after > (before or 0)
        title = f"may start {after} vCPUs, was {before}" if before is not None else f"new: up to {after} vCPUs"
        unknown = fleet.market == "on_demand" and fleet.usd_hour_after and fleet.usd_hour_after.unknown
        severity: Severity = "low" if not more else "high" if unknown else "medium"
        yield Finding(severity, "capacity", fleet.name, urns[fleet.name], title, _dollars(fleet))
    for step in steps:
        yield from _kept(step)
        yield from _grown(step)


def _grown(step: Step) -> Iterator[Finding]:
    """A file system that is billed by the size that it has, and disks of each machine."""
    for what, sizes in (
        ("GiB of a file system", [whole(at(side, ("fileShares", "capacityGb"))) for side in (step.old, step.new)]),
        ("GiB of disk on each machine", [_disks(side) for side in (step.old, step.new)]),
    ):
        old, new = sizes
        if old and new and new > old:
            title = f"{new:,} {what}, was {old:,}: billed in full, and in no figure of this review"
            yield Finding("high" if new - old >= _MUCH_GIB else "medium", "capacity", step.name, step.urn, title)


def _disks(inputs: dict[str, Any]) -> int | None:
    """The size of a template's disks."""
    mapped = [at(each, ("ebs", "volumeSize")) for each in objects(inputs.get("blockDeviceMappings"))]
    disks = [each.get("diskSizeGb") for each in objects(inputs.get("disks"))]
    return sum(whole(size) or 0 for size in (*mapped, *disks)) or None


def _kept(step: Step) -> Iterator[Finding]:
    """Machines that stay without work: vCPUs of a compute environment on AWS, machines of a group on GCP."""
    for key, least, what in (
        ("computeResources", "minVcpus", "vCPUs"),
        ("autoscalingPolicy", "minReplicas", "machines"),
    ):
        old, new = (whole(at(side, (key, least))) or 0 for side in (step.old, step.new))
        if new > old:
            severity: Severity = "high" if new - old > _FEW else "medium"
            yield Finding(severity, "capacity", step.name, step.urn, f"{new} {what} stay without work, was {old}")


def _dollars(fleet: Fleet) -> tuple[str, ...]:
    """The most that a fleet costs per hour, in words; empty where it does not exist."""
    usd = fleet.usd_hour_after
    if usd is None:
        return ()
    if not usd.unknown:
        return (f"At most ${usd.high:,.2f} per hour with all its machines.",) if usd.high is not None else ()
    priced = () if usd.high is None else (f"${usd.high:,.2f} per hour with all its machines of a known price.",)
    return (*priced, f"No price is known here for {', '.join(usd.unknown)}.")


def _first(steps: list[Step], *, before: bool) -> set[str]:
    """The fleets that get a queue's jobs first: of the lowest order on AWS, with an autoscaler that is on on GCP. A job
    queue of jobs that ask for a market decides nothing for the others."""
    states = {step.urn: state for step in steps if (state := step.before if before else step.after)}
    urns: set[str] = set()
    for urn, state in states.items():
        if _kind(urn) == QUEUE and not OF_MARKET.search(urn):
            urns |= _first_of(state, states)
        elif _kind(urn) in AUTOSCALERS and at(state.inputs, ("autoscalingPolicy", "mode")) != "OFF":
            urns |= {each for each in state.property_dependencies.get("target") or [] if _kind(each) in GROUPS}
    return urns


def _first_of(queue: State, states: dict[str, State]) -> set[str]:
    """The first environment of a queue by its ARN; while that is unknown, all that it may be."""
    entries = objects(queue.inputs.get("computeEnvironmentOrders"))
    orders = sorted(entries, key=lambda each: number(each.get("order")) or 0)
    arns = [str(each.get("computeEnvironment")) for each in orders]
    urns = queue.property_dependencies.get("computeEnvironmentOrders") or []
    names = {urn: f"/{states[urn].inputs.get('name')}" for urn in urns if urn in states and _kind(urn) == ENVIRONMENT}
    named = {urn: arn for urn, name in names.items() for arn in arns if arn.endswith(name)}
    if arns and not is_unknown(arns[0]):
        return {urn for urn, arn in named.items() if arn == arns[0]}
    left = [urn for urn in names if urn not in named]
    markets = {at(states[urn].inputs, ("computeResources", "type")) for urn in left}
    return set() if markets & {"SPOT", "FARGATE_SPOT"} else {*left}


def _kind(urn: str) -> str:
    return urn.split("::", 3)[2].rpartition("$")[2]


def idle(steps: list[Step], cloud: str, region: str | None, prices: Priced) -> tuple[IdleCost, ...]:
    """Resources before and after, of each kind that is billed without any job."""
    counts: tuple[Counter[tuple[str, str]], Counter[tuple[str, str]]] = (Counter(), Counter())
    for step in steps:
        for side, state in zip(counts, (step.before, step.after), strict=True):
            if step.type in _STANDING and state:
                what, name = _STANDING[step.type]
                tier = str(state.inputs.get("tier", "")).lower()
                side[what.format(tier), name.format(tier)] += _size(step.type, state.inputs)
    rows = []
    for what, name in sorted({**counts[0], **counts[1]}):
        price = prices.service(cloud, region, name) if region and name else None
        each = price.usd * (HOURS_A_MONTH if name.endswith("_hour") else 1) if price else None
        before, after = (side[(what, name)] for side in counts)
        if before or after:
            rows.append(IdleCost(what, before, after, each))
    return (*rows, *_staying(steps, cloud, region, prices))


def _staying(steps: list[Step], cloud: str, region: str | None, prices: Priced) -> Iterator[IdleCost]:
    """Machines that a group keeps without work, at the price of its most expensive type, without disks."""
    sides = [Side(steps, before) for before in (True, False)]
    for step in sorted((step for step in steps if step.type in GROUPS), key=lambda step: step.name):
        before, after = (side.fleet(step) for side in sides)
        if not (present := after or before) or not any(each and each.staying for each in (before, after)):
            continue
        cost = _usd(replace(present, machines=1), cloud, region, prices)
        each = cost.high * HOURS_A_MONTH if cost and cost.high is not None and not cost.unknown else None
        old, new = (side.staying if side else 0 for side in (before, after))
        yield IdleCost(f"machine that stays in {step.name}", old, new, each)


def _size(kind: str, inputs: dict[str, Any]) -> int:
    if kind == "aws:ec2/vpcEndpoint:VpcEndpoint":
        return len(texts(inputs.get("subnetIds"))) if inputs.get("vpcEndpointType") == "Interface" else 0
    if kind == "aws:cloudwatch/metricAlarm:MetricAlarm":
        queries = inputs.get("metricQueries") or []
        return sum("metric" in query for query in queries if isinstance(query, dict)) or 1
    if kind == "gcp:filestore/instance:Instance":
        return whole(at(inputs, ("fileShares", "capacityGb"))) or 0
    if kind == "gcp:monitoring/alertPolicy:AlertPolicy":
        return len(inputs.get("conditions") or [])
    return 1


class Side:
    """The resources before, or after."""

    def __init__(self, steps: list[Step], before: bool) -> None:
        self._before = before
        self._states: dict[str, State] = {}
        self._scaled: dict[str, dict[str, Any]] = {}
        for step in steps:
            if state := step.before if before else step.after:
                self._states[step.urn] = state
                if step.type in AUTOSCALERS:
                    self._scaled |= dict.fromkeys(self._needs(state, "target"), state.inputs)

    def fleet(self, step: Step) -> PlannedFleet | None:
        """The fleet of a compute environment or a group; None if it does not exist."""
        state = self._states.get(step.urn)
        if not state:
            return None
        if step.type == ENVIRONMENT:
            planned = of_environment(step.urn, state.inputs)
        else:
            template = next((self._states[n].inputs for n in self._needs(state, "versions") if n in self._states), None)
            planned = of_group(step.urn, state.inputs, template, self._scaled.get(step.urn, {}))
        return replace(planned, types=tuple(texts([*planned.types])))

    @staticmethod
    def _needs(state: State, key: str) -> list[str]:
        urns = state.property_dependencies.get(key) or []
        wanted = TEMPLATES if key == "versions" else GROUPS
        return [urn for urn in urns if _kind(urn) in wanted]


def _usd(fleet: PlannedFleet, cloud: str, region: str | None, prices: Priced) -> Money | None:
    if fleet.cpus is None:
        return None
    usd = hourly(cloud, fleet, lambda kind: prices.machine(cloud, region, kind, gpus=fleet.gpus) if region else None)
    return Money(usd.low, usd.high, usd.unknown)
