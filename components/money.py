"""Estimates a stack's cost: per idle month, line by line, and the most that its machines can cost per hour.

The estimate needs only the config and the dated price table, so it is known before anything is created. A price that
the table lacks is unknown, never zero, and a total with an unknown line is a minimum. docs/money.md lists what is
billed in addition.
"""

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from tidemill import prices, services
from tidemill.capacity import fleet_usd, machine_usd, most_machines

from .config import Queue, StackConfig
from .config.bootstrap_models import BootstrapConfig
from .config.checks.file_systems import size_of
from .config.shared_models import SharedConfig
from .machines import MachineType
from .rooms import cloud_room, queue_room, service_room

UNKNOWN = "unknown"
"""A sum without a known part."""

_MARKETS = {"spot": "Spot", "on_demand": "On-Demand"}
_MACHINES = " machines"
_NAMED = 8
"""Most regions that a note names."""


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
    market: str | None = None
    """Of machines: `spot` or `on_demand`."""
    families: tuple[str, ...] = ()
    """Of machines: those that the line may start."""


@dataclass(frozen=True)
class Total:
    """The sum of the known lines in USD: a minimum if it is not `complete`."""

    usd_low: float
    usd_high: float
    complete: bool


@dataclass(frozen=True)
class StackEstimate:
    """A stack's estimated cost."""

    cloud: str
    region: str
    idle_month: list[Line]
    """Cost per month without work."""
    burn_hour: list[Line]
    """Cost per hour with every rung of every queue at its `max_cpus`."""
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
    lines = list(lines)
    low = sum(line.usd_low or 0.0 for line in lines)
    high = sum(line.usd_high or 0.0 for line in lines)
    return Total(low, high, all(line.complete for line in lines))


def estimate(config: StackConfig, region: str) -> StackEstimate:
    """Estimate a stack's cost in a region. Every line is unknown if the price table lacks the region."""
    book = Book(config.cloud, region)
    cloud = cloud_room(config.cloud, "money")
    staying = {name: queue_room(config.cloud, queue, "money").staying(queue) for name, queue in config.queues.items()}
    idle: list[Line] = []
    burn: list[Line] = []
    if new := config.network.create:
        idle += cloud.network(new, config.extra_services, sum(staying.values()), book)
        burn += cloud.busy_network(new, book)
    idle += _keys(config, book)
    for name, queue in config.queues.items():
        fleet = _Fleet(config, queue, book)
        if count := staying[name]:
            market = queue.capacity[0].market
            idle += fleet.lines(f"queue {name}", market, lambda _, count=count: count, hours=prices.HOURS_A_MONTH)
        for number, rung in enumerate(queue.capacity, start=1):
            where = f"queue {name}" if len(queue.capacity) == 1 else f"queue {name}, rung {number}"
            most = partial(most_machines, services.of_queue(config.cloud, queue), rung.max_cpus)
            burn += fleet.lines(where, rung.market, most, percent=rung.max_price_percent)
    idle += [*cloud.monitoring(config, book), *cloud.sender_triggers(config, book), *cloud.sender(config, book)]
    idle += _file_systems(config, book)
    for service, queues in services.by_service(config.cloud, config.queues).items():
        idle += service_room(service, "money").idle(book, queues)
    return StackEstimate(config.cloud, region, idle, burn, book.origin)


def account_estimate(config: BootstrapConfig, region: str) -> StackEstimate:
    """Estimate what a bootstrap stack costs while idle: the state's key, and that of its replica in its own region."""
    book = Book(config.cloud, region)
    idle = [book.line("KMS key of the state, a version", 1, "kms_key_month")]
    if config.replica:
        there = Book(config.cloud, config.replica)
        idle.append(there.line(f"KMS key of the replica in {config.replica}, a version", 1, "kms_key_month"))
    return StackEstimate(config.cloud, region, idle, [], book.origin)


def shared_estimate(config: SharedConfig, region: str) -> StackEstimate:
    """Estimate what a shared stack costs while idle, once for all teams."""
    book = Book(config.cloud, region)
    idle = list(cloud_room(config.cloud, "money").network(config.network, config.network.extra_endpoints, 0, book))
    return StackEstimate(config.cloud, region, idle, [], book.origin)


def note(config: StackConfig, region: str) -> str:
    """The estimate in one line, for a preview; or that no price of the region is known."""
    costs = estimate(config, region)
    if costs.origin is None:
        return f"{_no_prices(config.cloud, region)} `tidemill submit --max-usd` needs --usd-per-item-hour there."
    idle = f"{usd(costs.idle)} per month" if costs.idle_month else "none"
    return (
        f"Idle cost: {idle}. At full capacity: {usd(costs.machines)} per hour for machines, {usd(costs.burn)} with "
        f"disks and network. Prices: {costs.origin}. `python -m ops estimate` has the lines."
    )


def shared_note(config: SharedConfig, region: str) -> str:
    """The idle cost of a shared stack in one line, for its preview; or that no price of the region is known."""
    costs = shared_estimate(config, region)
    if not costs.idle_month:
        return "Idle cost: none."
    if costs.origin is None:
        return _no_prices(config.cloud, region)
    return f"Idle cost: {usd(costs.idle)} per month, once for all teams. Prices: {costs.origin}."


def _no_prices(cloud: str, region: str) -> str:
    regions = prices.regions(cloud)
    names = ", ".join(regions) if 0 < len(regions) <= _NAMED else f"{len(regions)} regions"
    return (
        f"Cost: unknown. The price table has no prices for {region}; it has {names}. "
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


class ServicePrices(Protocol):
    """A source of prices of services: `tidemill.prices`, or another."""

    def service(self, cloud: str, region: str, name: str) -> Any:
        """The price of a unit of a service; None if unknown."""


class Book:
    """The prices of one region, and which of them were used."""

    def __init__(self, cloud: str, region: str, known: ServicePrices = prices) -> None:
        self._cloud, self._region, self._known = cloud, region, known
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
        price = self._known.service(self._cloud, self._region, name)
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
    book: Book

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
        gib = queue_room(self.config.cloud, self.queue, "money").disk_gib(self.queue)
        months = hours / prices.HOURS_A_MONTH
        yield self.book.line(f"{where}: disks of {gib} GiB", most, "disk_gib_month", gib * months, least)
        if _public(self.config):
            name = cloud_room(self.config.cloud, "money").address(market)
            yield self.book.line(f"{where}: public addresses", most, name, hours, least)

    def _machines(
        self, where: str, market: str, counts: Mapping[MachineType, int], hours: float, percent: int | None
    ) -> Line:
        what = f"{where}: {_MARKETS[market]}{_MACHINES}"
        by_type = {machine.type: self.book.machine(machine, market) for machine in counts}
        usd = fleet_usd({machine.type: n for machine, n in counts.items()}, market, by_type.get, percent)
        priced = [kind for kind in by_type if kind not in usd.unknown]
        why = f"{len(priced)} types" if len(priced) > 1 else "".join(priced)
        if unknown := [kind for kind, price in by_type.items() if getattr(price, market, None) is None]:
            more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
            why = "; ".join(filter(None, [why, f"no {_MARKETS[market]} price of {', '.join(unknown[:3])}{more}"]))
        if percent is not None:
            why = "; ".join(filter(None, [why, f"at most {percent} % of the On-Demand price"]))
        low, high = (each and each * hours for each in (usd.low, usd.high))
        families = tuple(dict.fromkeys(machine.family for machine in counts))
        return Line(what, max(counts.values()), low, high, why, not usd.unknown, market, families)


def _public(config: StackConfig) -> bool:
    """True if machines have public addresses; those of an existing or shared network count as having none."""
    network = config.network
    if network.create:
        return network.create.egress == "public"
    return not (network.existing or network.shared)


def _file_systems(config: StackConfig, book: Book) -> Iterator[Line]:
    """File systems: on AWS billed for what they hold, on GCP for their size."""
    for name, made in config.file_systems.items():
        what = f"file system {name}"
        if made.tier is not None:
            gib = size_of(made)
            yield book.line(f"{what}: {gib} GiB of {made.tier}", 1, f"filestore_{made.tier}_gib_month", gib)
        else:
            why = "what it will hold is unknown; docs/data.md has the list price of a GB"
            yield Line(f"{what}: EFS", 1, None, None, why, complete=False)


def _keys(config: StackConfig, book: Book) -> Iterator[Line]:
    """Keys that the stack creates; a rotation adds a version, which is billed like the first."""
    wanted = {"job store": config.store.kms_key, "logs": config.logs.kms_key, "registry": config.registry.kms_key}
    wanted |= {"disks": config.disks.kms_key, "topics": config.topics.kms_key}
    wanted |= {f"file system {name}": made.kms_key for name, made in config.file_systems.items()}
    for what, key in wanted.items():
        if key == "create":
            yield book.line(f"KMS key of the {what}, a version", 1, "kms_key_month")
