"""A stack's needs compared with a region's quotas."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidemill.capacity import most_machines
from tidemill.machines import family
from tidemill.services import pubsub

from ..config import Queue, Rung, StackConfig

_DISKS = {"pd-balanced": "SSD_TOTAL_GB", "hyperdisk-balanced": "HDB_TOTAL_GB"}
"""The quota of a disk's size. Local disks that come with a type count in none of these.
Source: https://docs.cloud.google.com/compute/resource-usage#disk_quota"""


@dataclass(frozen=True)
class QuotaShortage:
    """A quota that is too small."""

    metric: str
    needed: int
    limit: int
    usage: int

    def __str__(self) -> str:
        free = f", {self.usage} of it in use" if self.usage else ""
        return f"{self.metric}: the queues ask for up to {self.needed}, the project may have {self.limit}{free}"


def needed(config: StackConfig) -> dict[str, int]:
    """The most that a stack needs of each quota of the region, with every rung of every queue at its `max_cpus`.

    If a queue has several families, each family's quota must be enough alone: the others may be sold out.
    """
    amounts: dict[str, int] = {}
    public = config.network.create is None or config.network.create.egress == "public"
    for queue in config.queues.values():
        for rung in queue.capacity:
            for metric, amount in _of_rung(queue, rung, public and config.network.existing is None).items():
                amounts[metric] = amounts.get(metric, 0) + amount
    return amounts


def _of_rung(queue: Queue, rung: Rung, public: bool) -> dict[str, int]:
    count = most_machines(pubsub.SERVICE, rung.max_cpus, queue.machines.size)
    disks = queue.disk_gib + (queue.gcp.extra_disk_gib or 0)
    amounts = {"INSTANCES": count}
    if public:
        amounts["IN_USE_ADDRESSES"] = count
    for machine in queue.types("gcp"):
        spot = rung.market == "spot"
        row = family("gcp", machine.family)
        amounts[_DISKS[row.disk]] = count * disks
        cpus = "PREEMPTIBLE_CPUS" if spot else row.cpu_quota
        amounts[cpus] = max(amounts.get(cpus, 0), count * machine.cpus)
        if machine.gpus:
            gpus = f"PREEMPTIBLE_{row.gpu_quota}" if spot else str(row.gpu_quota)
            amounts[gpus] = max(amounts.get(gpus, 0), count * machine.gpus)
    return amounts


def shortfalls(wanted: Mapping[str, int], region: Mapping[str, Any]) -> list[QuotaShortage]:
    """The quotas of a region that are too small; a quota that the region does not list limits nothing.

    Spot machines use the standard quota if the project has no quota for preemptible ones.
    Source: https://cloud.google.com/compute/docs/instances/spot#quotas

    Args:
        region: A region as Compute Engine shows it: `quotas` is a list of `metric`, `limit` and `usage`.
    """
    quotas = {each["metric"]: each for each in region.get("quotas", [])}
    asked: dict[str, int] = {}
    for metric, amount in wanted.items():
        standard = metric.removeprefix("PREEMPTIBLE_")
        own = quotas.get(metric, {}).get("limit", 0)
        name = metric if own or metric not in quotas else standard
        asked[name] = asked.get(name, 0) + amount
    return [
        QuotaShortage(metric, amount, int(quotas[metric]["limit"]), int(quotas[metric].get("usage", 0)))
        for metric, amount in sorted(asked.items())
        if metric in quotas and amount > quotas[metric]["limit"] >= 0
    ]
