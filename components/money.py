"""What a stack costs: per idle month, line by line, and the most that its machines can cost per hour.

The estimate needs only the config and the dated price table, so it is known before anything is created. A price that
the table lacks is unknown, never zero, and a total with an unknown line is a minimum. docs/money.md lists what is
billed in addition.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from components.config import NewNetwork, Queue, StackConfig
from components.config.checks.file_systems import size_of
from components.config.monitoring_models import CONDITIONS
from components.config.shared_models import SharedConfig
from components.machines import MachineType
from tidemill import prices
from tidemill.capacity import fleet_usd, machine_usd, most_machines

UNKNOWN = "unknown"
"""A sum without a known part."""

_MARKETS = {"spot": "Spot", "on_demand": "On-Demand"}
_MACHINES = " machines"
_NAMED = 8
"""Most regions that a note names."""
_NAT_MACHINES = 32
"""Cloud NAT is billed by machine up to so many, then at its maximum. Source: https://cloud.google.com/nat/pricing"""
_ENDPOINTS = 6
"""Interface endpoints of a network without internet, apart from those for the queues' secrets."""


@dataclass(frozen=True)
class Line:
    """One thing that is billed."""

    what: str
    quantity: float
    usd_low: float | None
    """The least that all of them cost; None if unknown."""
    usd_high: float | None
    why: str
    """Where the numbers come from, or what is unknown."""
    complete: bool = True


@dataclass(frozen=True)
class Total:
    """The sum of the known lines in USD: a minimum if it is not `complete`."""

    usd_low: float
    usd_high: float
    complete: bool


@dataclass(frozen=True)
class StackEstimate:
    """What a stack costs."""

    cloud: str
    region: str
    idle_month: list[Line]
    """What is billed per month without work."""
    burn_hour: list[Line]
    """What is billed per hour with every rung of every queue at its `max_cpus`."""
    origin: prices.PriceOrigin | None
    """Of the prices used; None if no price is known."""

    @property
    def as_of(self) -> datetime.date | None:
        """Date of the oldest price used; None if no price is known."""
        return self.origin and self.origin.as_of

    @property
    def idle(self) -> Total:
        """The total of a month without work."""
        return total(self.idle_month)

    @property
    def burn(self) -> Total:
        """The total of the most expensive hour."""
        return total(self.burn_hour)

    @property
    def machines(self) -> Total:
        """The machines' part of that hour, as a review and the policy pack's cap count it."""
        return total(line for line in self.burn_hour if line.what.endswith(_MACHINES))


def total(lines: Iterable[Line]) -> Total:
    """The sum of some lines."""
    lines = list(lines)
    low = sum(line.usd_low or 0.0 for line in lines)
    high = sum(line.usd_high or 0.0 for line in lines)
    return Total(low, high, all(line.complete for line in lines))


def estimate(config: StackConfig, region: str) -> StackEstimate:
    """What a stack costs in a region; every line is unknown if the price table does not have the region."""
    book = _Book(config.cloud, region)
    network = _network(config.cloud, config.network.create, config.extra_services, book)
    idle, burn = [*network, *_staying_network(config, book), *_keys(config, book)], [*_busy_network(config, book)]
    for name, queue in config.queues.items():
        fleet = _Fleet(config, queue, book)
        if staying := queue.gcp.min_machines:
            market = queue.capacity[0].market
            idle += fleet.lines(f"queue {name}", market, lambda _, staying=staying: staying, hours=prices.HOURS_A_MONTH)
        for number, rung in enumerate(queue.capacity, start=1):
            where = f"queue {name}" if len(queue.capacity) == 1 else f"queue {name}, rung {number}"
            count = partial(most_machines, config.cloud, rung.max_cpus)
            burn += fleet.lines(where, rung.market, count, percent=rung.max_price_percent)
    idle += [*_monitoring(config, book), *_file_systems(config, book)]
    if config.cloud == "gcp":
        idle.append(book.line("reconciler: Cloud Scheduler job", 1, "scheduler_job_month"))
    return StackEstimate(config.cloud, region, idle, burn, book.origin)


def note(config: StackConfig, region: str) -> str:
    """The estimate in one line, for a preview; or that no price of the region is known."""
    found = estimate(config, region)
    if found.origin is None:
        return f"{_no_prices(config.cloud, region)} `tidemill submit --max-usd` needs --usd-per-item-hour there."
    idle = f"{usd(found.idle)} per month" if found.idle_month else "none"
    return (
        f"Idle cost: {idle}. At full capacity: {usd(found.machines)} per hour for machines, {usd(found.burn)} with "
        f"disks and network. Prices: {found.origin}. `python -m ops estimate` has the lines."
    )


def shared_note(config: SharedConfig, region: str) -> str:
    """The idle cost of a shared stack in one line, for its preview; or that no price of the region is known."""
    book = _Book(config.cloud, region)
    idle = list(_network(config.cloud, config.network, config.network.extra_endpoints, book))
    if idle and book.origin is None:
        return _no_prices(config.cloud, region)
    costs = f"{usd(total(idle))} per month, once for all teams" if idle else "none"
    return f"Idle cost: {costs}." + (f" Prices: {book.origin}." if idle else "")


def _no_prices(cloud: str, region: str) -> str:
    regions = prices.regions(cloud)
    known = ", ".join(regions) if 0 < len(regions) <= _NAMED else f"{len(regions)} regions"
    return (
        f"Cost: unknown. The price table has no prices for {region}; it has {known}. "
        f"`python -m ops prices refresh --cloud {cloud} --region {region}` asks the cloud. A cap on money per hour "
        "counts the dearest price known elsewhere."
    )


def usd(summed: Total) -> str:
    """A sum for people: `37.50 USD`, `at least 1.01 to 1.59 USD`; `unknown` if nothing of it is known."""
    if not summed.complete and not summed.usd_high:
        return UNKNOWN
    low, high = f"{summed.usd_low:,.2f}", f"{summed.usd_high:,.2f}"
    span = low if low == high else f"{low} to {high}"
    return f"{span} USD" if summed.complete else f"at least {span} USD"


class _Book:
    """The prices of one region, and which of them were used."""

    def __init__(self, cloud: str, region: str) -> None:
        self._cloud, self._region = cloud, region
        self._used: list[prices.MachinePrice | prices.ServicePrice] = []

    @property
    def origin(self) -> prices.PriceOrigin | None:
        """Of the prices used; None if there are none."""
        return prices.origin(self._used)

    def line(self, what: str, quantity: float, name: str, times: float = 1, least: float | None = None) -> Line:
        """A number of units of a service, each billed for hours or GiB.

        Args:
            times: Hours or GiB of each.
            least: The smallest number, if it depends on the machines.
        """
        price = prices.service(self._cloud, self._region, name)
        if price is None:
            return Line(what, quantity, None, None, f"{self._region}: the price table has no {name}", complete=False)
        self._used.append(price)
        low = quantity if least is None else least
        why = f"{price.usd:g} USD ({name}, {price.as_of})"
        return Line(what, quantity, low * times * price.usd, quantity * times * price.usd, why)

    def machine(self, machine: MachineType, market: str) -> prices.MachinePrice | None:
        """The price of a machine; None if unknown."""
        price = prices.machine(self._cloud, self._region, machine.type, gpus=machine.gpus)
        if price is not None and machine_usd(price, market):
            self._used.append(price)
        return price


@dataclass(frozen=True)
class _Fleet:
    """The machines of a queue: their types, disks and public addresses."""

    config: StackConfig
    queue: Queue
    book: _Book

    def lines(
        self, where: str, market: str, count: Callable[[int], int], *, hours: float = 1, percent: int | None = None
    ) -> Iterator[Line]:
        """Machines, disks and addresses for some hours, all of the cheapest or all of the most expensive type.

        Args:
            count: The number of machines, by the vCPUs of one.
            percent: The most to pay on Spot, in percent of the On-Demand price.
        """
        counts = {machine: count(machine.cpus) for machine in self.queue.types(self.config.cloud)}
        most, least = max(counts.values()), min(counts.values())
        yield self._machines(where, market, counts, hours, percent)
        gib = self.queue.disk_gib + (self.queue.gcp.extra_disk_gib or 0)
        months = hours / prices.HOURS_A_MONTH
        yield self.book.line(f"{where}: disks of {gib} GiB", most, "disk_gib_month", gib * months, least)
        if _public(self.config):
            # GCP bills less for those of Spot machines.
            name = "public_ipv4_spot_hour" if (self.config.cloud, market) == ("gcp", "spot") else "public_ipv4_hour"
            yield self.book.line(f"{where}: public addresses", most, name, hours, least)

    def _machines(
        self, where: str, market: str, counts: Mapping[MachineType, int], hours: float, percent: int | None
    ) -> Line:
        what = f"{where}: {_MARKETS[market]}{_MACHINES}"
        known = {machine.type: self.book.machine(machine, market) for machine in counts}
        usd = fleet_usd({machine.type: n for machine, n in counts.items()}, market, known.get, percent)
        priced = [kind for kind in known if kind not in usd.unknown]
        why = f"{len(priced)} types" if len(priced) > 1 else "".join(priced)
        if unknown := [kind for kind, price in known.items() if getattr(price, market, None) is None]:
            more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
            why = "; ".join(filter(None, [why, f"no {_MARKETS[market]} price of {', '.join(unknown[:3])}{more}"]))
        if percent is not None:
            why = "; ".join(filter(None, [why, f"at most {percent} % of the On-Demand price"]))
        low, high = (each and each * hours for each in (usd.low, usd.high))
        return Line(what, max(counts.values()), low, high, why, complete=not usd.unknown)


def _public(config: StackConfig) -> bool:
    """Whether machines have public addresses; those of an existing or shared network count as having none."""
    network = config.network
    if network.create:
        return network.create.egress == "public"
    return not (network.existing or network.shared)


def _network(cloud: str, new: NewNetwork | None, services: Collection[str], book: _Book) -> Iterator[Line]:
    """Idle cost of a new network; `services` need interface endpoints in addition to Batch's."""
    hours = prices.HOURS_A_MONTH
    if new is None or new.egress == "public":
        return
    if new.egress == "nat" and cloud == "gcp":
        # The gateway itself is billed by the machines that use it.
        yield book.line("network: address of Cloud NAT", 1, "public_ipv4_hour", hours)
    elif new.egress == "nat":
        yield book.line("network: NAT gateway", 1, "nat_gateway_hour", hours)
        yield book.line("network: address of the NAT gateway", 1, "public_ipv4_hour", hours)
    elif cloud == "aws":
        count = (_ENDPOINTS + len(services)) * new.zones
        yield book.line("network: interface endpoints in all zones", count, "interface_endpoint_hour", hours)


def _staying_network(config: StackConfig, book: _Book) -> Iterator[Line]:
    """What the network bills for machines that stay without work."""
    new, staying = config.network.create, sum(queue.gcp.min_machines for queue in config.queues.values())
    if config.cloud == "gcp" and new is not None and new.egress == "nat" and staying:
        count = min(staying, _NAT_MACHINES)
        hours = prices.HOURS_A_MONTH / _NAT_MACHINES
        yield book.line("network: Cloud NAT for machines that stay", count, "nat_gateway_hour", hours)


def _busy_network(config: StackConfig, book: _Book) -> Iterator[Line]:
    """The network's hourly cost in addition to its idle cost."""
    new = config.network.create
    if config.cloud == "gcp" and new is not None and new.egress == "nat":
        yield book.line("network: Cloud NAT gateway", 1, "nat_gateway_hour")


def _monitoring(config: StackConfig, book: _Book) -> Iterator[Line]:
    """The dashboard and alarms; the metrics that they read cost something in hours with work alone."""
    wanted = config.monitoring
    if config.cloud == "gcp":
        if wanted.tells:
            yield book.line("alarms: conditions of alert policies", CONDITIONS, "alert_condition_month")
        return
    if wanted.dashboard:
        yield book.line("dashboard", 1, "dashboard_month")
    rungs = [len(queue.open_rungs) for queue in config.queues.values()]
    if metrics := sum(map(wanted.alarm_metrics, rungs)):
        yield book.line("alarms: metrics that they read", metrics, "alarm_metric_month")


def _file_systems(config: StackConfig, book: _Book) -> Iterator[Line]:
    """File systems: on AWS billed for what they hold, on GCP for their size."""
    for name, made in config.file_systems.items():
        what = f"file system {name}"
        if made.tier is not None:
            gib = size_of(made)
            yield book.line(f"{what}: {gib} GiB of {made.tier}", 1, f"filestore_{made.tier}_gib_month", gib)
        else:
            why = "what it will hold is unknown; docs/data.md has the list price of a GB"
            yield Line(f"{what}: EFS", 1, None, None, why, complete=False)


def _keys(config: StackConfig, book: _Book) -> Iterator[Line]:
    """Keys that the stack creates; a rotation adds a version, which is billed like the first."""
    for what, wanted in (("job store", config.store.kms_key), ("logs", config.logs.kms_key)):
        if wanted == "create":
            yield book.line(f"KMS key of the {what}, a version", 1, "kms_key_month")
