"""Bills of AWS for the parts of a stack, apart from its queues."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from tidemill.prices import HOURS_A_MONTH

from ..sending import calls

if TYPE_CHECKING:
    from ..config import NewNetwork, StackConfig
    from ..money import Book, Line
    from ..sending import Triggers

SENDER_GIB = 1
"""Memory of the function that sends templates, which `sending/sender.py` sets."""
_ENDPOINTS = 6
"""Interface endpoints of a network without internet, apart from those for the queues' secrets."""


def network(new: NewNetwork, services: Collection[str], staying: int, book: Book) -> Iterator[Line]:
    """Idle cost of a new network; `services` need interface endpoints in addition to Batch's."""
    zones = len(new.zone_names or range(new.zones))
    if new.egress == "nat":
        gateways = zones if new.nat_per_zone else 1
        yield book.line("network: NAT gateway", gateways, "nat_gateway_hour", HOURS_A_MONTH)
        yield book.line("network: address of the NAT gateway", gateways, "public_ipv4_hour", HOURS_A_MONTH)
    elif new.egress == "endpoints":
        count = (_ENDPOINTS + len(services)) * zones
        yield book.line("network: interface endpoints in all zones", count, "interface_endpoint_hour", HOURS_A_MONTH)


def busy_network(new: NewNetwork, book: Book) -> Iterator[Line]:
    """A network's hourly cost in addition to its idle cost: none."""
    yield from ()


def address(market: str) -> str:
    """The price of a machine's public address."""
    return "public_ipv4_hour"


def monitoring(config: StackConfig, book: Book) -> Iterator[Line]:
    """The dashboard and alarms; the metrics that they read cost something in hours with work alone."""
    wanted = config.monitoring
    if wanted.dashboard:
        yield book.line("dashboard", 1, "dashboard_month")
    sizes = [(len(queue.open_rungs), 1 + len(queue.per_job.markets)) for queue in config.queues.values()]
    if metrics := sum(wanted.alarm_metrics(*each) for each in sizes):
        yield book.line("alarms: metrics that they read", metrics, "alarm_metric_month")


def sender_triggers(config: StackConfig, book: Book) -> Iterator[Line]:
    """Schedules of EventBridge, which cost nothing but their calls."""
    yield from ()


def sender(config: StackConfig | Triggers, book: Book) -> Iterator[Line]:
    """The calls that send templates, and the looks at queues of events; free tiers would cover most of it."""
    if not (wanted := calls(config)).count:
        return
    yield book.line("sender: calls by schedules", wanted.count, "scheduled_call")
    yield book.line("sender: calls of the function", wanted.count, "function_call")
    yield book.line("sender: GiB of the function", SENDER_GIB, "function_gib_hour", wanted.hours)
    if looks := wanted.ticks * len(config.arrivals):
        yield book.line("sender: looks into queues of events", looks, "queue_request")
