"""Bills of Google Cloud for the parts of a stack, apart from its queues."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from tidemill.prices import HOURS_A_MONTH

from ..sending import calls

if TYPE_CHECKING:
    from ..config import NewNetwork, StackConfig
    from ..money import Book, Line
    from ..sending import Triggers

_NAT_MACHINES = 32
"""Cloud NAT is billed by machine up to so many, then at its maximum. Source: https://cloud.google.com/nat/pricing"""


def network(new: NewNetwork, services: Collection[str], staying: int, book: Book) -> Iterator[Line]:
    """Idle cost of a new network. The gateway itself is billed by the machines that use it."""
    if new.egress != "nat":
        return
    yield book.line("network: address of Cloud NAT", 1, "public_ipv4_hour", HOURS_A_MONTH)
    if staying:
        count, hours = min(staying, _NAT_MACHINES), HOURS_A_MONTH / _NAT_MACHINES
        yield book.line("network: Cloud NAT for machines that stay", count, "nat_gateway_hour", hours)


def busy_network(new: NewNetwork, book: Book) -> Iterator[Line]:
    """A network's hourly cost in addition to its idle cost."""
    if new.egress == "nat":
        yield book.line("network: Cloud NAT gateway", 1, "nat_gateway_hour")


def address(market: str) -> str:
    """The price of a machine's public address: less for those of Spot machines."""
    return "public_ipv4_spot_hour" if market == "spot" else "public_ipv4_hour"


def monitoring(config: StackConfig, book: Book) -> Iterator[Line]:
    """The alarms."""
    if conditions := config.monitoring.conditions:
        yield book.line("alarms: conditions of alert policies", conditions, "alert_condition_month")


def sender_triggers(config: StackConfig, book: Book) -> Iterator[Line]:
    """The jobs of Cloud Scheduler that call the sender."""
    if jobs := len(config.schedules) + bool(config.arrivals):
        yield book.line("sender: Cloud Scheduler jobs", jobs, "scheduler_job_month")


def sender(config: StackConfig | Triggers, book: Book) -> Iterator[Line]:
    """The sender's service while it answers; free tiers would cover it."""
    if not (wanted := calls(config)).count:
        return
    yield book.line("sender: vCPUs of the service", 1, "service_cpu_hour", wanted.hours)
    yield book.line("sender: GiB of the service", 1, "service_gib_hour", wanted.hours)
