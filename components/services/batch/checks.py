"""Rules of a queue on AWS Batch."""

import re

from components import machines
from components.config.checks import common
from components.config.checks.common import Path
from components.config.checks.images import check_images
from components.config.checks.machines import check_image, check_scratch, left_in
from components.config.errors import ConfigError, key_path
from components.config.models import StackConfig
from components.config.queue_models import Queue
from components.config.types import AMI, AWS_RESERVATION
from tidemill.capacity import slots
from tidemill.services import batch

_MOUNTS = ("file_system", "host", "efs", "s3")
_SECRET = re.compile(
    r"arn:aws[a-z-]*:(secretsmanager:[a-z0-9-]+:\d{12}:secret:[\w/+=.@-]+(:[^:\s]*){0,3}|ssm:[a-z0-9-]+:\d{12}:parameter/[\w./-]+)"
)
_ON_GCP = "only on GCP"


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
    common.check_families(path, queue, "aws")
    here = [*path, "machines", "cpus"]
    if cpus.min > cpus.max:
        raise ConfigError(
            key_path([*here, "min"]), str(cpus.min), f"max ({cpus.max}) or less", "Lower min or raise max"
        )
    common.check_kinds(path, queue, "aws")
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
    return selected
