"""Rules of a queue on Pub/Sub."""

import re

from tidemill.capacity import most_machines
from tidemill.services import pubsub

from ... import machines
from ...config.checks import common
from ...config.checks.common import Path
from ...config.checks.families import check_families, check_kinds, check_markets
from ...config.checks.images import check_images
from ...config.checks.machines import check_image, check_scratch, left_in
from ...config.errors import ConfigError, key_path, shown
from ...config.later import plain
from ...config.models import StackConfig
from ...config.queue_models import Queue
from ...config.types import GCP_IMAGE, GCP_RESERVATION
from ...gcp.checks import check_reachable
from .keys import of_size

MOST_MACHINES = 2000
"""Machines of a regional group.
Source: https://cloud.google.com/compute/docs/instance-groups/regional-migs"""

_MOUNTS = ("file_system", "host", "gcs", "filestore")
"""Source: https://cloud.google.com/container-optimized-os/docs/concepts/disks-and-filesystem"""
_SECRET = re.compile(r"projects/[a-z0-9.:-]+/secrets/[\w-]{1,255}(/versions/(latest|[1-9]\d*))?")
_TAKEN_VARIABLES = ("GOOGLE_", "GCE_", "CLOUDSDK_", "PUBSUB_")
_ON_AWS = "only on AWS"
_NO_CAP = "nothing on GCP, where every type has one Spot price and a machine cannot name the most that it may cost"


def check_queue(config: StackConfig, path: Path, queue: Queue) -> None:
    common.refuse(path, queue, "options", *common.NO_OPTIONS)
    common.refuse(path, queue, "aws", _ON_AWS, "Remove it; gcp has what only GCP has")
    common.refuse(path, queue, "timeout_minutes", _ON_AWS, "Leave it out; a job's items have a time limit of their own")
    common.refuse(path, queue, "stuck_after_minutes", _ON_AWS, "Leave it out; a stockout is shown by `tidemill status`")
    hint = "Leave it out; a queue for each market lets people choose"
    common.refuse(path, queue, "per_job", _ON_AWS, hint)
    _images(config, path, queue)
    _machines(path, queue)
    _processors(config, path, queue)
    for index, rung in enumerate(queue.capacity):
        for key in ("name", "drain"):
            hint = "Leave it out; a group takes changes for the machines that it makes later, and none is ended"
            common.refuse([*path, "capacity", index], rung, key, _ON_AWS, hint)
    _ladder(path, queue)
    _bought(path, queue)
    check_markets(path, queue, queue.types("gcp"))
    common.check_rungs(path, queue, queue.machines.size, "lower machines.cpus")
    _counts(path, queue)
    _secrets(path, queue)
    _mounts(config, path, queue)
    common.check_limits(path, queue)
    if queue.scratch_gib < 10:
        raise ConfigError(
            key_path([*path, "scratch_gib"]),
            str(queue.scratch_gib),
            "10 or more, the smallest balanced disk",
            "Raise scratch_gib",
        )


def _images(config: StackConfig, path: Path, queue: Queue) -> None:
    check_images(config, path, queue)
    if len(queue.images) > 1:
        raise ConfigError(
            key_path([*path, "images"]),
            f"images {', '.join(queue.images)}",
            "only default: on GCP a machine starts its one container before it knows which job it will work for",
            "Make a queue for each image",
        )
    check_reachable(config, [*path, "images", "default"], queue.images["default"])
    check_reachable(config, [*path, "gcp", "fuse_image"], queue.gcp.fuse_image)


def _machines(path: Path, queue: Queue) -> None:
    wanted, cpus = queue.machines, queue.machines.cpus
    check_families(path, queue, "gcp")
    here = [*path, "machines", "cpus"]
    if cpus.min != cpus.max:
        raise ConfigError(
            key_path(here),
            f"{{min: {cpus.min}, max: {cpus.max}}}",
            "one number on GCP, such as 16: the autoscaler gives each machine the same share of the backlog "
            "(singleInstanceAssignment) and limits machines, not vCPUs, so all machines of a queue have one size",
            "Name one size; more families give more Spot capacity",
        )
    check_kinds(path, queue, "gcp")
    _accelerators(path, queue)
    selected = of_size(wanted.families, cpus.max, local=queue.scratch == "local")
    left = left_in(path, queue, selected) if selected else []
    check_scratch(path, queue, "gcp", left)
    if not selected:
        families = machines.families("gcp")
        sizes = "; ".join(f"{family}: {machines.sizes(families[family])}" for family in wanted.families)
        raise ConfigError(key_path(here), str(cpus.max), f"a size of the families ({sizes})", "Take one of the sizes")
    check_image(path, queue, GCP_IMAGE, "projects/<project>/global/images/<image> or .../images/family/<family>")
    common.check_fit(path, queue, "gcp", left, "raise machines.cpus")


def _processors(config: StackConfig, path: Path, queue: Queue) -> None:
    """Of both processors, machines need an image each, and either all bring the worker or none does."""
    if len(queue.architectures(config.cloud)) < 2:
        return
    here = [*path, "machines"]
    if queue.machines.image:
        raise ConfigError(
            key_path([*here, "image"]),
            shown(queue.machines.image),
            f"nothing for families of both processors ({', '.join(queue.machines.families)}): an image is for one",
            "Make a queue for each processor",
        )
    if len(config.worker_images) == 1:
        raise ConfigError(
            key_path([*here, "families"]),
            shown(queue.machines.families),
            "families of one processor, or worker_image and worker_image_arm64 together; only "
            f"{next(iter(config.worker_images))} is set",
            "`make worker` makes the one for x86_64, `make worker ARCH=arm64` that for arm64",
        )


def _accelerators(path: Path, queue: Queue) -> None:
    """A template attaches the same accelerator to every machine."""
    types = machines.families("gcp")
    families = queue.machines.families
    if queue.item.gpus and len(families) > 1 and any(types[family][0].attach for family in families):
        raise ConfigError(
            key_path([*path, "machines", "families"]),
            shown(families),
            "one family where GPUs are attached (n1-t4), the template attaches the same to every machine",
            "Make a queue for each family",
        )


def _ladder(path: Path, queue: Queue) -> None:
    markets = [rung.market for rung in queue.capacity]
    if len(set(markets)) == len(markets) > 1 and markets != ["spot", "on_demand"]:
        raise ConfigError(
            key_path([*path, "capacity"]),
            shown(markets),
            "spot, on_demand, or spot and then on_demand: the second opens when Spot has run dry",
            "Put spot first",
        )


def _bought(path: Path, queue: Queue) -> None:
    """There is no cap. A reservation holds machines of one type, so the queue has one family."""
    for index, rung in enumerate(queue.capacity):
        here = [*path, "capacity", index]
        common.refuse(
            here, rung, "max_price_percent", _NO_CAP, "Leave it out; `tidemill submit --max-usd` limits a job"
        )
        hint = "Leave it out; `reservation` names a reservation of any kind"
        common.refuse(here, rung, "block", _ON_AWS, hint)
    common.check_reservations(path, queue, GCP_RESERVATION, "a name, or projects/<project>/reservations/<name>")
    if any(rung.reservation for rung in queue.capacity) and len(queue.machines.families) > 1:
        raise ConfigError(
            key_path([*path, "machines", "families"]),
            shown(queue.machines.families),
            "one family where a rung has a reservation, which holds machines of one type",
            "Name the reservation's family, or make a queue for the reservation",
        )


def _counts(path: Path, queue: Queue) -> None:
    size = queue.machines.size
    counts = [most_machines(pubsub.SERVICE, rung.max_cpus, size) for rung in queue.capacity]
    for index, rung in enumerate(queue.capacity):
        if counts[index] > MOST_MACHINES:
            raise ConfigError(
                key_path([*path, "capacity", index, "max_cpus"]),
                str(rung.max_cpus),
                f"{MOST_MACHINES * size} or less, {MOST_MACHINES} machines of {size} vCPUs are the most of a group",
                "Lower max_cpus, raise machines.cpus, or make a second queue",
            )
    if queue.gcp.min_machines > counts[0]:
        raise ConfigError(
            key_path([*path, "gcp", "min_machines"]),
            str(queue.gcp.min_machines),
            f"{counts[0]} or less, as machines of {size} vCPUs fit into the first rung's {queue.capacity[0].max_cpus}",
            "Lower min_machines or raise max_cpus",
        )


def _secrets(path: Path, queue: Queue) -> None:
    for name in queue.secrets:
        if name.startswith(_TAKEN_VARIABLES):
            raise ConfigError(
                key_path([*path, "secrets", name]),
                shown(name),
                f"a name that does not start with {', '.join(_TAKEN_VARIABLES)}",
                "Rename it; the worker's own login reads such variables",
            )
        common.check_known([*path, "secrets", name], queue.secrets[name], "its grant is a resource with its name")
    common.check_secrets(
        path,
        queue,
        _SECRET,
        "projects/<project>/secrets/<name>, with or without /versions/<number>",
        "Put the secret into Secret Manager and its name here",
    )


def _mounts(config: StackConfig, path: Path, queue: Queue) -> None:
    common.check_mounts(path, queue, config, _MOUNTS)
    written = plain(config.data.write)
    for name, mount in queue.mounts.items():
        here = [*path, "mounts", name]
        if mount.gcs and not mount.read_only and not any(common.within(mount.gcs, uri) for uri in written):
            raise ConfigError(
                key_path([*here, "gcs"]),
                shown(mount.gcs),
                "what tidemill:data's write lists, or read_only: true",
                f"Set read_only: true, or add {mount.gcs} to tidemill:data.write",
            )
        if mount.gcs and queue.gcp.fuse_image is None:
            raise ConfigError(
                key_path([*here, "gcs"]),
                shown(mount.gcs),
                "a bucket only where gcp.fuse_image is set: Container-Optimized OS has no gcsfuse",
                "Push an image that has gcsfuse and set gcp.fuse_image to it, by digest",
            )
        if mount.host and mount.host.startswith("/mnt/disks/extra") and queue.gcp.extra_disk_gib is None:
            raise ConfigError(
                key_path([*here, "host"]),
                shown(mount.host),
                "a folder other than /mnt/disks/extra, which is the extra disk's, while gcp.extra_disk_gib is not set",
                "Set gcp.extra_disk_gib",
            )
