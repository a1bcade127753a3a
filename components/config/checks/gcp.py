"""Rules of a stack on GCP."""

from __future__ import annotations

import re
from collections.abc import Sequence

from components import machines
from components.config.checks import common
from components.config.checks.bought import check_bought_on_gcp
from components.config.checks.common import Path
from components.config.checks.file_systems import check_on_gcp
from components.config.checks.images import check_images, repository_of, shared_repository_of
from components.config.checks.imports import check_gcp_imports
from components.config.checks.narrowed import check_image, left_in
from components.config.checks.processors import check_both
from components.config.checks.scratch import check_scratch
from components.config.errors import ConfigError, key_path, shown
from components.config.models import Budget, Logs, StackConfig, Store
from components.config.monitoring_models import Monitoring
from components.config.queue_models import Queue
from components.config.types import GCP_IMAGE, GCP_KEY, GCP_PRINCIPAL, GCP_RESERVATION, TOPIC
from tidemill.capacity import most_machines

LONGEST_QUEUE = 40
"""Team, environment and queue with their hyphens: what is left of Compute Engine's 63 for a suffix and auto-naming.
Source: https://cloud.google.com/compute/docs/naming-resources"""

LONGEST_PIPELINE = 26
"""Team, hyphen and environment: what is left of a Cloud Run service's 49 for `-reconciler-run` and auto-naming.
Source: https://cloud.google.com/run/docs/reference/rest/v2/projects.locations.services/create"""

MOST_MACHINES = 2000
"""Machines of a regional group.
Source: https://cloud.google.com/compute/docs/instance-groups/regional-migs"""

MOST_RETENTION_DAYS = 3650
"""Source: https://cloud.google.com/logging/quotas"""

MOST_CHANNELS = 5
"""Notification channels of a budget.
Source: https://cloud.google.com/billing/docs/reference/budget/rest/v1/billingAccounts.budgets"""

_KEY = "projects/p/locations/l/keyRings/r/cryptoKeys/k"
_MOUNTS = ("file_system", "host", "gcs", "filestore")
"""Source: https://cloud.google.com/container-optimized-os/docs/concepts/disks-and-filesystem"""

_SECRET = re.compile(r"projects/[a-z0-9.:-]+/secrets/[\w-]{1,255}(/versions/(latest|[1-9]\d*))?")
_TAKEN_VARIABLES = ("GOOGLE_", "GCE_", "CLOUDSDK_", "PUBSUB_")
_GOOGLE_IMAGES = re.compile(r"[a-z0-9-]+-docker\.pkg\.dev/|([a-z]+\.)?gcr\.io/")
_ON_AWS = "only on AWS"


def check_stack(config: StackConfig) -> None:
    """Rules of a stack on GCP, except those of its queues."""
    _names(config)
    _other_clouds(config)
    _network(config)
    check_logs(config.logs)
    check_budget(config.budget)
    check_monitoring(config.monitoring)
    check_gcp_imports(config)
    for key, image in config.worker_images.items():
        _reachable(config, [key], image)


def check_queue(config: StackConfig, path: Path, queue: Queue) -> None:
    """Rules of a queue on GCP."""
    common.refuse(path, queue, "aws", _ON_AWS, "Remove it; gcp has what only GCP has")
    common.refuse(path, queue, "timeout_minutes", _ON_AWS, "Leave it out; a job's items have a time limit of their own")
    common.refuse(path, queue, "stuck_after_minutes", _ON_AWS, "Leave it out; a stockout is shown by `tidemill status`")
    _images(config, path, queue)
    _machines(path, queue)
    check_both(config, path, queue)
    for index, rung in enumerate(queue.capacity):
        for key in ("name", "drain"):
            hint = "Leave it out; a group takes changes for the machines that it makes later, and none is ended"
            common.refuse([*path, "capacity", index], rung, key, _ON_AWS, hint)
    _ladder(path, queue)
    check_bought_on_gcp(path, queue, GCP_RESERVATION)
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


def _names(config: StackConfig) -> None:
    full = f"{config.team}-{config.environment}"
    if len(full) > LONGEST_PIPELINE:
        raise ConfigError(
            key_path(["team"]),
            shown(config.team),
            f"team and environment with at most {LONGEST_PIPELINE - 1} characters together; these have {len(full) - 1}",
            "Shorten one of them; Cloud Run limits the name of the reconciler's service that is made from them",
        )
    for queue in config.queues:
        name = f"{full}-{queue}"
        if len(name) > LONGEST_QUEUE:
            raise ConfigError(
                key_path(["queues", queue]),
                shown(queue),
                f"team, environment and queue with at most {LONGEST_QUEUE - 2} characters together; these have "
                f"{len(name) - 2}",
                "Shorten one of them; Compute Engine limits the names that are made from them",
            )
    if full.startswith("goog") or "google" in full:
        raise ConfigError(
            key_path(["team"]),
            shown(config.team),
            "names that do not start with goog and do not contain google",
            "Rename the team; Cloud Storage reserves these bucket names",
        )


def _other_clouds(config: StackConfig) -> None:
    described = "gs://bucket or gs://bucket/prefix/, without wildcards"
    for key, words in (("read", "What jobs may read"), ("write", "What jobs may read and write")):
        uris = getattr(config.data, key)
        common.check_values(["data", key], uris, lambda uri: uri.startswith("gs://"), described, words)
    hint = "Leave it out; Cloud Storage uses a bucket's key by itself"
    common.refuse(["data"], config.data, "kms_keys", _ON_AWS, hint)
    hint = "Leave it out; push images of any name to the stack's one repository"
    common.refuse(["registry"], config.registry, "repositories", _ON_AWS, hint)
    hint = "Leave it out; an organization policy or a deny policy bounds service accounts"
    common.refuse([], config, "permission_boundary", _ON_AWS, hint)
    check_on_gcp(config)
    check_store(config.store)
    common.check_values(
        ["access", "submitters"],
        config.access.submitters,
        GCP_PRINCIPAL.fullmatch,
        "user:, group: or serviceAccount: and an address, such as group:vision@example.com",
        "Name a principal of GCP",
    )


def _network(config: StackConfig) -> None:
    common.check_one_network(config.network)
    new, existing = config.network.create, config.network.existing
    if new is not None:
        common.refuse(
            ["network", "create"], new, "zones", _ON_AWS, "Leave it out; a subnetwork spans its region's zones"
        )
    if existing is None:
        return
    here = ["network", "existing"]
    for key in ("vpc_id", "subnet_ids"):
        common.refuse(here, existing, key, _ON_AWS, "Name network and subnetwork")
    common.check_all_set(here, existing, ("network", "subnetwork"))


def check_logs(logs: Logs) -> None:
    """Retention and key must be possible with Cloud Logging."""
    if logs.retention_days > MOST_RETENTION_DAYS:
        raise ConfigError(
            key_path(["logs", "retention_days"]),
            str(logs.retention_days),
            f"1 to {MOST_RETENTION_DAYS}",
            "Lower it, or set logs.archive",
        )
    common.check_key(["logs"], logs, GCP_KEY, _KEY)


def check_budget(budget: Budget | None) -> None:
    """A budget needs a billing account and at most as many addresses as Google allows."""
    if budget is None:
        return
    common.check_all_set(["budget"], budget, ("billing_account",))
    if len(budget.notify) > MOST_CHANNELS:
        raise ConfigError(
            key_path(["budget", "notify"]),
            f"{len(budget.notify)} addresses",
            f"at most {MOST_CHANNELS} on GCP",
            "Name a mailing list",
        )


def check_monitoring(monitoring: Monitoring) -> None:
    """The keys are Cloud Monitoring's."""
    here = ["monitoring"]
    common.refuse(here, monitoring, "topic", _ON_AWS, "Name notification channels in `channels`")
    common.refuse(here, monitoring, "stalled_minutes", _ON_AWS, "Leave it out; the reconciler watches the workers")
    common.check_topics(monitoring.job_channels, TOPIC, "a topic such as projects/my-project/topics/ml-oncall")


def check_store(store: Store) -> None:
    """The store's key is Cloud KMS's."""
    common.check_key(["store"], store, GCP_KEY, _KEY)


def _images(config: StackConfig, path: Path, queue: Queue) -> None:
    check_images(config, path, queue)
    if len(queue.images) > 1:
        raise ConfigError(
            key_path([*path, "images"]),
            f"images {', '.join(queue.images)}",
            "only default: on GCP a machine starts its one container before it knows which job it will work for",
            "Make a queue for each image",
        )
    _reachable(config, [*path, "images", "default"], queue.images["default"])
    _reachable(config, [*path, "gcp", "fuse_image"], queue.gcp.fuse_image)


def _reachable(config: StackConfig, path: Sequence[str], image: str | None) -> None:
    """Machines without internet reach only Google's own registries."""
    new = config.network.create
    if image is None or new is None or new.egress != "endpoints":
        return
    stacks = repository_of(image) or shared_repository_of(image)
    if stacks is None and not _GOOGLE_IMAGES.match(image):
        raise ConfigError(
            key_path(path),
            shown(image),
            "registry://..., *-docker.pkg.dev/... or gcr.io/...: with network.create.egress endpoints machines reach "
            "only Google's registries",
            "Push the image to the stack's registry, or take egress nat",
        )


def _machines(path: Path, queue: Queue) -> None:
    wanted, cpus = queue.machines, queue.machines.cpus
    common.check_families(path, queue, "gcp")
    here = [*path, "machines", "cpus"]
    if cpus.min != cpus.max:
        raise ConfigError(
            key_path(here),
            f"{{min: {cpus.min}, max: {cpus.max}}}",
            "one number on GCP, such as 16: the autoscaler gives each machine the same share of the backlog "
            "(singleInstanceAssignment) and limits machines, not vCPUs, so all machines of a queue have one size",
            "Name one size; more families give more Spot capacity",
        )
    common.check_kinds(path, queue, "gcp")
    _accelerators(path, queue)
    selected = machines.select(wanted.families, cpus.max, cpus.max, "gcp", local=queue.scratch == "local")
    check_scratch(path, queue, "gcp", selected)
    if not selected:
        known = machines.families("gcp")
        sizes = "; ".join(f"{family}: {machines.sizes(known[family])}" for family in wanted.families)
        raise ConfigError(key_path(here), str(cpus.max), f"a size of the families ({sizes})", "Take one of the sizes")
    check_image(path, queue, GCP_IMAGE, "projects/<project>/global/images/<image> or .../images/family/<family>")
    common.check_fit(path, queue, "gcp", left_in(path, queue, selected), "raise machines.cpus")


def _accelerators(path: Path, queue: Queue) -> None:
    """A template attaches the same accelerator to every machine."""
    known = machines.families("gcp")
    families = queue.machines.families
    if queue.item.gpus and len(families) > 1 and any(known[family][0].attach for family in families):
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


def _counts(path: Path, queue: Queue) -> None:
    size = queue.machines.size
    counts = [most_machines("gcp", rung.max_cpus, size) for rung in queue.capacity]
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
    common.check_secrets(
        path,
        queue,
        _SECRET,
        "projects/<project>/secrets/<name>, with or without /versions/<number>",
        "Put the secret into Secret Manager and its name here",
    )


def _mounts(config: StackConfig, path: Path, queue: Queue) -> None:
    common.check_mounts(path, queue, config, _MOUNTS)
    for name, mount in queue.mounts.items():
        here = [*path, "mounts", name]
        if mount.gcs and not mount.read_only and not any(common.within(mount.gcs, uri) for uri in config.data.write):
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
