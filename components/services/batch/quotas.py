"""A stack's needs compared with the quotas of an account in a region."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tidemill.capacity import most_machines
from tidemill.machines.quotas import QUOTAS, kind_of
from tidemill.services import batch

from ...config import NewNetwork, Queue, StackConfig

_GIB_OF_A_TIB = 1024


@dataclass(frozen=True)
class Quota:
    """A quota of a region.

    Attributes:
        title: What it limits.
        service: Of Service Quotas.
        code: Of Service Quotas; empty where AWS raises it for no account.
        fixed: Its value then.
    """

    title: str
    service: str = ""
    code: str = ""
    fixed: int | None = None

    def __str__(self) -> str:
        return f"{self.title} ({self.code})" if self.code else self.title


JOB_QUEUES = Quota("job queues of Batch", fixed=50)
ENVIRONMENTS = Quota("compute environments of Batch", fixed=50)
"""Source of both: https://docs.aws.amazon.com/batch/latest/userguide/service_limits.html"""
VPCS = Quota("VPCs", "vpc", "L-F678F1CE")
INTERNET_GATEWAYS = Quota("internet gateways", "vpc", "L-A4707A72")
GATEWAY_ENDPOINTS = Quota("gateway endpoints of VPCs", "vpc", "L-1B52E74A")
ADDRESSES = Quota("Elastic IP addresses", "ec2", "L-0263D0A3")
"""A NAT gateway has one. How many gateways a zone may have is another quota, as small and not looked at.
Source: https://docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html"""
DISKS = Quota("TiB of gp3 volumes", "ebs", "L-7A658B76")
"""Source: https://docs.aws.amazon.com/general/latest/gr/ebs-service.html"""


@dataclass(frozen=True)
class AwsQuotaShortage:
    """A quota that is too small.

    Attributes:
        others: What the account has of it already, apart from this stack's; None where the account does not show it.
    """

    quota: Quota
    needed: int
    limit: int
    others: int | None

    def __str__(self) -> str:
        has = f" and has {self.others} without this stack" if self.others else ""
        return f"{self.quota}: the stack asks for up to {self.needed}, the account may have {self.limit}{has}"


def needed(config: StackConfig) -> dict[Quota, int]:
    """The most that a stack needs of each quota, with every rung of every queue at its `max_cpus`.

    If a queue has types of several quotas, each must be enough alone: the others may be sold out. Machines of a
    Capacity Block count in no quota of vCPUs.
    Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-blocks-launch.html
    """
    queues = config.queues.values()
    amounts: dict[Quota, int] = {}
    for queue in queues:
        for quota, amount in _cpus(queue):
            amounts[quota] = amounts.get(quota, 0) + amount
    amounts[DISKS] = math.ceil(sum(_disk_gib(queue) for queue in queues) / _GIB_OF_A_TIB)
    amounts[JOB_QUEUES] = len(queues)
    amounts[ENVIRONMENTS] = sum(len(queue.capacity) for queue in queues)
    return {quota: amount for quota, amount in (*amounts.items(), *_of_network(config)) if amount}


def _cpus(queue: Queue) -> Iterator[tuple[Quota, int]]:
    types = [machine.type for machine in queue.types("aws")]
    for rung in queue.capacity:
        for kind in sorted({kind_of(each, rung.market) for each in types if not rung.block}):
            title = f"vCPUs of {rung.market.replace('_', '-')} machines of class {kind}"
            yield Quota(title, "ec2", QUOTAS[rung.market, kind]), rung.max_cpus


def _disk_gib(queue: Queue) -> int:
    smallest = min(machine.cpus for machine in queue.types("aws"))
    return sum(most_machines(batch.SERVICE, rung.max_cpus, smallest) for rung in queue.capacity) * queue.disk_gib


def _of_network(config: StackConfig) -> Iterator[tuple[Quota, int]]:
    if config.network.shared or config.network.existing:
        return
    egress = (config.network.create or NewNetwork()).egress
    yield VPCS, 1
    yield GATEWAY_ENDPOINTS, 1
    if egress != "endpoints":
        yield INTERNET_GATEWAYS, 1
    if egress == "nat":
        yield ADDRESSES, 1


def shortfalls(
    wanted: Mapping[Quota, int], limits: Mapping[Quota, int], others: Mapping[Quota, int]
) -> list[AwsQuotaShortage]:
    """The quotas that are too small, in the order of what is wanted.

    Args:
        others: What the account has already, apart from this stack's, where it shows that.
    """
    return [
        AwsQuotaShortage(quota, amount, limits[quota], others.get(quota))
        for quota, amount in wanted.items()
        if amount + others.get(quota, 0) > limits[quota]
    ]
