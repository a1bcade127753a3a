"""Rules of how a rung's machines are bought: a price cap, a reservation."""

from __future__ import annotations

import re

from components.config.checks.common import Path, refuse
from components.config.errors import ConfigError, key_path, shown
from components.config.queue_models import Queue

_NO_CAP = "nothing on GCP, where every type has one Spot price and a machine cannot name the most that it may cost"


def check_bought_on_aws(path: Path, queue: Queue, pattern: re.Pattern[str]) -> None:
    """A cap is Spot's, and a reservation On-Demand's."""
    for index, rung in enumerate(queue.capacity):
        if rung.max_price_percent is not None and rung.market != "spot":
            raise ConfigError(
                key_path([*path, "capacity", index, "max_price_percent"]),
                str(rung.max_price_percent),
                "nothing for On-Demand, whose price is fixed",
                "Leave it out",
            )
    _check_reservations(path, queue, pattern, "cr-0123456789abcdef0 or the ARN of a resource group")


def check_bought_on_gcp(path: Path, queue: Queue, pattern: re.Pattern[str]) -> None:
    """There is no cap. A reservation holds machines of one type, so the queue has one family."""
    for index, rung in enumerate(queue.capacity):
        here = [*path, "capacity", index]
        refuse(here, rung, "max_price_percent", _NO_CAP, "Leave it out; `tidemill submit --max-usd` limits a job")
    _check_reservations(path, queue, pattern, "a name, or projects/<project>/reservations/<name>")
    if any(rung.reservation for rung in queue.capacity) and len(queue.machines.families) > 1:
        raise ConfigError(
            key_path([*path, "machines", "families"]),
            shown(queue.machines.families),
            "one family where a rung has a reservation, which holds machines of one type",
            "Name the reservation's family, or make a queue for the reservation",
        )


def _check_reservations(path: Path, queue: Queue, pattern: re.Pattern[str], allowed: str) -> None:
    for index, rung in enumerate(queue.capacity):
        here = key_path([*path, "capacity", index, "reservation"])
        if rung.reservation is None:
            continue
        if rung.market == "spot":
            raise ConfigError(
                here, shown(rung.reservation), "nothing for Spot, which no reservation holds", "Set market: on_demand"
            )
        if not pattern.fullmatch(rung.reservation):
            raise ConfigError(here, shown(rung.reservation), allowed, "Name a reservation of the stack's cloud")
