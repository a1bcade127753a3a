"""Rules of a queue on AWS Batch."""

import re
from collections.abc import Sequence

from tidemill.capacity import slots
from tidemill.machines import family
from tidemill.services import batch

from ... import machines
from ...config.checks import common
from ...config.checks.common import Path
from ...config.checks.families import check_families, check_kinds, check_markets
from ...config.checks.images import check_images
from ...config.checks.machines import check_image, check_scratch, left_in
from ...config.errors import ConfigError, key_path, missing, shown
from ...config.models import StackConfig
from ...config.queue_models import Queue
from ...config.types import AMI, AWS_RESERVATION
from ...outbound import NEVER_PROXIED
from .user_data import MOST_SCRIPT, Way, script

_MOUNTS = ("file_system", "host", "efs", "s3")
_SECRET = re.compile(
    r"arn:aws[a-z-]*:(secretsmanager:[a-z0-9-]+:\d{12}:secret:[\w/+=.@-]+(:[^:\s]*){0,3}|ssm:[a-z0-9-]+:\d{12}:parameter/[\w./-]+)"
)
_ON_GCP = "only on GCP"
_NEURON_IMAGE = (
    "An image of ECS with the Neuron driver: `aws ssm get-parameter --query Parameter.Value --name "
    "/aws/service/ecs/optimized-ami/amazon-linux-2023/neuron/recommended/image_id` names the newest"
)


def check_queue(config: StackConfig, path: Path, queue: Queue) -> None:
    common.refuse(path, queue, "options", *common.NO_OPTIONS)
    common.refuse(path, queue, "gcp", _ON_GCP, "Remove it; aws has what only AWS has")
    check_images(config, path, queue)
    smallest = min(machine.cpus for machine in _machines(path, queue) if slots(batch.SERVICE, machine, queue.item))
    common.check_rungs(path, queue, smallest, "lower machines.cpus.min")
    _prices(path, queue)
    common.check_reservations(path, queue, AWS_RESERVATION, "cr-0123456789abcdef0 or the ARN of a resource group")
    common.check_secrets(
        path,
        queue,
        _SECRET,
        "the ARN of a Secrets Manager secret or an SSM parameter",
        "Put the secret into Secrets Manager and its ARN here",
    )
    common.check_mounts(path, queue, config, _MOUNTS)
    common.check_limits(path, queue)
    _per_job(path, queue)
    _user_data(config, path, queue)


def _per_job(path: Path, queue: Queue) -> None:
    """A market of a job needs rungs that jobs are placed on."""
    markets, there = queue.per_job.markets, {rung.market for rung in queue.open_rungs}
    for index, market in enumerate(markets):
        if market not in there:
            allowed = f"a market of the queue's capacity: {', '.join(sorted(there))}"
            hint = "Add a rung, or remove it"
            raise ConfigError(key_path([*path, "per_job", "markets", index]), shown(market), allowed, hint)


def _user_data(config: StackConfig, path: Path, queue: Queue) -> None:
    """A proxy and certificates are in user data, whose size EC2 limits."""
    if config.proxy is None and config.certificates is None:
        return
    past = ",".join([*NEVER_PROXIED, *3 * ["s3.dualstack.ap-southeast-2.amazonaws.com"], *_past(config)])
    way = Way(config.proxy.url if config.proxy else None, past, config.certificates)
    name = f"{config.team}-{config.environment}"
    pointer = f"s3://{name}-store-bucket-1a2b3c4/machines/{path[-1]}/worker" if config.worker_images else None
    size = len(script(queue.mounts, pointer, local=queue.scratch == "local", overcommit=True, way=way))
    if size > MOST_SCRIPT:
        raise ConfigError(
            key_path(["certificates"] if config.certificates else ["proxy", "no_proxy"]),
            f"{len(config.certificates or past)} characters",
            f"what is left of EC2's user data in queue {path[-1]}, {size - MOST_SCRIPT} less",
            "Keep the roots alone, or those with short keys (ECDSA); mounts, scratch: local and no_proxy need room too",
        )


def _past(config: StackConfig) -> list[str]:
    return (config.proxy.no_proxy if config.proxy else None) or []


def _prices(path: Path, queue: Queue) -> None:
    for index, rung in enumerate(queue.capacity):
        if rung.max_price_percent is not None and rung.market != "spot":
            raise ConfigError(
                key_path([*path, "capacity", index, "max_price_percent"]),
                str(rung.max_price_percent),
                "nothing for On-Demand, whose price is fixed",
                "Leave it out",
            )


def _machines(path: Path, queue: Queue) -> list[machines.MachineType]:
    wanted, cpus = queue.machines, queue.machines.cpus
    check_families(path, queue, "aws")
    here = [*path, "machines", "cpus"]
    if cpus.min > cpus.max:
        raise ConfigError(
            key_path([*here, "min"]), str(cpus.min), f"max ({cpus.max}) or less", "Lower min or raise max"
        )
    check_kinds(path, queue, "aws")
    selected = machines.select("aws", wanted.families, cpus.min, cpus.max)
    if not selected:
        families = machines.families("aws")
        sizes = machines.sizes(machine for family in wanted.families for machine in families[family])
        raise ConfigError(
            key_path(here),
            f"{cpus.min} to {cpus.max} vCPUs",
            f"a range that holds one of {sizes}, the sizes of {', '.join(wanted.families)}",
            "Widen the range or add a family",
        )
    check_image(path, queue, AMI, "an id such as ami-0123456789abcdef0")
    selected = left_in(path, queue, selected)
    common.check_fit(path, queue, "aws", selected, "raise machines.cpus.max")
    check_scratch(path, queue, "aws", selected)
    check_blocks(path, queue, selected)
    check_markets(path, queue, selected)
    check_drivers(path, queue)
    check_neurons(path, queue, selected)
    return selected


def check_blocks(path: Path, queue: Queue, selected: Sequence[machines.MachineType]) -> None:
    """A Capacity Block is a reservation by id, of machines of one type in one zone."""
    for index, rung in enumerate(queue.capacity):
        if not rung.block:
            continue
        if rung.reservation is None or not rung.reservation.startswith("cr-"):
            raise ConfigError(
                key_path([*path, "capacity", index, "reservation"]),
                shown(rung.reservation),
                "the id of the Capacity Block, such as cr-0123456789abcdef0, with block: true",
                "Name the block, or leave `block` out",
            )
        if len(selected) > 1:
            raise ConfigError(
                key_path([*path, "machines"]),
                ", ".join(machine.type for machine in selected[:4]),
                "one type with block: true, the Capacity Block's",
                "Name its family and its vCPUs, or leave types out with machines.exclude",
            )
        if len(queue.machines.zones) != 1:
            raise ConfigError(
                key_path([*path, "machines", "zones"]),
                shown(queue.machines.zones),
                "one zone with block: true, the Capacity Block's",
                "Name it",
            )


def check_drivers(path: Path, queue: Queue) -> None:
    """Machines whose driver Batch's images do not have need an image of the team's own."""
    for name in queue.machines.families:
        wanted = family("aws", name).image
        if wanted and queue.machines.image is None:
            raise missing(key_path([*path, "machines", "image"]), wanted)


def check_neurons(path: Path, queue: Queue, selected: Sequence[machines.MachineType]) -> None:
    """Machines with Inferentia or Trainium need an image with the driver, and one container each: Batch has no such
    image, and hands out no Neuron devices.

    Sources: https://docs.aws.amazon.com/batch/latest/APIReference/API_Ec2Configuration.html (imageType) and
    https://docs.aws.amazon.com/batch/latest/APIReference/API_ResourceRequirement.html (type)
    """
    counts = {machine.type: machine.neurons for machine in selected if machine.neurons}
    if not counts:
        return
    if len(set(counts.values())) > 1:
        raise ConfigError(
            key_path([*path, "machines", "cpus"]),
            ", ".join(f"{kind} with {count}" for kind, count in counts.items()),
            "types with the same number of Neuron devices, because a job names the devices of its machine",
            "Narrow machines.cpus, or leave types out with machines.exclude",
        )
    if queue.machines.image is None:
        raise missing(key_path([*path, "machines", "image"]), _NEURON_IMAGE)
    roomy = [machine for machine in selected if slots(batch.SERVICE, machine, queue.item) > 1]
    if roomy:
        raise ConfigError(
            key_path([*path, "item", "cpus"]),
            str(queue.item.cpus),
            f"more than {max(machine.cpus for machine in roomy) // 2} with these machines: an item gets all Neuron "
            f"devices of its machine, and a {roomy[-1].type} has room for more than one",
            "Raise item.cpus, or leave types out with machines.exclude",
        )
