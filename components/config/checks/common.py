"""Rules for every cloud, and building blocks of the clouds' own rules."""

import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence

import pulumi
from pydantic import BaseModel

from tidemill import capacity, services

from ... import machines
from ..errors import ConfigError, key_path, missing, refuse, shown, unknown
from ..later import is_plain, plain
from ..models import Data, StackConfig
from ..monitoring_models import ALARM_KEYS
from ..mount_models import Mount
from ..network_models import Network, NewNetwork
from ..queue_models import Queue
from .file_systems import check_mounted
from .hosts import check_host, check_nested
from .images import check_worker

Path = tuple[str, ...]

_MOUNTS = [key for key in Mount.model_fields if key not in ("path", "read_only")]
"""Kinds of mounts."""

NO_OPTIONS = ("only for a service that a package adds", "Remove it")
"""What is allowed as a queue's `options`, and what to do, where its service has none."""

_ULIMITS = (
    "core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice", "nofile", "nproc", "rss", "rtprio",
    "rttime", "sigpending", "stack",
)  # fmt: skip
"""Source: https://docs.aws.amazon.com/batch/latest/APIReference/API_Ulimit.html"""

_TAKEN_PATHS = (
    "/scratch", "/cache", "/tidemill", "/proc", "/sys", "/dev", "/etc", "/bin", "/lib", "/lib64", "/usr", "/var",
    "/tmp",
)  # fmt: skip


def check_stack(config: StackConfig) -> None:
    """Rules of a stack, except those of its queues."""
    if config.network.create:
        check_range(config.network.create, ["network", "create"])
    check_worker(config)
    if not config.monitoring.tells:
        for key in ALARM_KEYS:
            refuse(
                ["monitoring"],
                config.monitoring,
                key,
                "only with somebody to tell: nobody is, so there is no alarm",
                "Add notify: [ml-oncall@example.com] (on AWS or a topic, on GCP or channels), or remove it",
            )


def check_one_network(network: Network) -> None:
    """There is one network: its parts are checked only then, so that the first message is about the choice."""
    given = [key for key in ("create", "existing", "shared") if getattr(network, key) is not None]
    if len(given) > 1:
        raise ConfigError(
            key_path(["network"]), f"{' and '.join(given)} together", "one of them", "Keep one, remove the rest"
        )


def check_range(new: NewNetwork, path: Sequence[str]) -> None:
    """A new network has one source of its range and one of its zones, and its range is private."""
    if new.cidr is not None:
        check_private(new.cidr, [*path, "cidr"])
    if new.ipam_pool is None:
        refuse(path, new, "netmask", "only with ipam_pool", "Write the prefix length behind the range in cidr")
    elif new.cidr is not None:
        refuse(path, new, "cidr", "nothing together with ipam_pool, which gives the range", "Keep one of them")
    if new.nat_per_zone and new.egress != "nat":
        refuse(path, new, "nat_per_zone", "only with egress nat", "Set egress: nat, or leave it out")
    if new.zone_names is not None:
        refuse(path, new, "zones", "nothing together with zone_names", "Keep one of them")


def check_private(cidr: str, path: Sequence[str]) -> None:
    """An address range must be private, and its host bits zero."""
    try:
        private = ipaddress.IPv4Network(cidr).is_private
    except ValueError:
        private = False
    if not private:
        raise ConfigError(
            key_path(path),
            shown(cidr),
            "a private IPv4 range whose host bits are zero, such as 10.4.0.0/16",
            "Take a range of 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16 that nothing you peer with uses",
        )


def check_topics(channels: Mapping[str, pulumi.Input[str]], topic: re.Pattern[str], allowed: str) -> None:
    """Refuse a channel of jobs whose topic is another cloud's."""
    for name, value in channels.items():
        if is_plain(value) and not topic.fullmatch(value):
            path = ["monitoring", "job_channels", name]
            raise ConfigError(key_path(path), shown(value), allowed, "Name a topic of this stack's cloud")


def check_all_set(path: Sequence[str], model: BaseModel, keys: Sequence[str]) -> None:
    """Refuse a config without a key that only this cloud needs."""
    for key in keys:
        if getattr(model, key) is None:
            hint = re.sub(r"^(AWS|GCP): ", "", type(model).model_fields[key].description or "").rstrip(".")
            raise missing(key_path([*path, key]), hint)


def check_values(
    path: Sequence[str | int],
    values: Sequence[pulumi.Input[str]],
    right: Callable[[str], object],
    allowed: str,
    hint: str,
) -> None:
    """Refuse the first value of a list that belongs to another cloud."""
    for index, value in enumerate(values):
        if is_plain(value) and not right(value):
            raise ConfigError(key_path([*path, index]), shown(value), allowed, hint)


def check_data(data: Data, scheme: str) -> None:
    """Refuse data that is in another cloud's buckets."""
    allowed = f"{scheme}://bucket or {scheme}://bucket/prefix/, without wildcards"
    for key in ("read", "write"):
        hint = Data.model_fields[key].description or ""
        check_values(["data", key], getattr(data, key), lambda uri: uri.startswith(f"{scheme}://"), allowed, hint)


def check_known(path: Sequence[str | int], value: object, why: str) -> None:
    """Refuse an output where a name must be known before anything is made."""
    if not is_plain(value):
        raise ConfigError(key_path(path), shown(value), "a plain value", f"Write it down: {why}")


def check_key(path: Sequence[str], model: BaseModel, pattern: re.Pattern[str], allowed: str) -> None:
    """Refuse another cloud's `kms_key`."""
    value = getattr(model, "kms_key")  # noqa: B009  two models have it
    if is_plain(value) and value != "create" and not pattern.fullmatch(value):
        raise ConfigError(
            key_path([*path, "kms_key"]), shown(value), f"{allowed}, or create", "Name a key of the stack's cloud"
        )


def check_fit(path: Path, queue: Queue, cloud: str, selected: Sequence[machines.MachineType], remedy: str) -> None:
    """An item must fit a machine of the queue."""
    item, service = queue.item, services.of_queue(cloud, queue)
    if any(capacity.slots(service, machine, item) for machine in selected):
        return
    memory = max(capacity.usable_memory_mib(service, machine) for machine in selected)
    most = (max(m.cpus for m in selected), memory, max(m.gpus for m in selected))
    raise ConfigError(
        key_path([*path, "item"]),
        f"an item of {item.cpus} vCPUs, {item.memory_mib} MiB and {item.gpus} GPUs",
        f"what fits one machine of the queue: at most {most[0]} vCPUs, {most[1]} MiB and {most[2]} GPUs",
        f"Make the item smaller, {remedy} or take families with more memory for each vCPU",
    )


def check_rungs(path: Path, queue: Queue, smallest: int, remedy: str) -> None:
    """Every rung must have room for a machine, markets and names must be unique, and one rung must take jobs."""
    kinds = [(rung.market, rung.name) for rung in queue.capacity]
    if not queue.open_rungs:
        raise ConfigError(
            key_path([*path, "capacity"]),
            f"{len(queue.capacity)} with drain",
            "at least one rung without drain",
            "Put the rung that follows first, or wait for an empty queue and take the queue out of the file",
        )
    for index, rung in enumerate(queue.capacity):
        here = [*path, "capacity", index]
        if rung.max_cpus < queue.item.cpus:
            raise ConfigError(
                key_path([*here, "max_cpus"]),
                str(rung.max_cpus),
                f"{smallest} or more, one item alone needs {queue.item.cpus}",
                "Raise max_cpus or make the item smaller",
            )
        if rung.max_cpus < smallest:
            raise ConfigError(
                key_path([*here, "max_cpus"]),
                str(rung.max_cpus),
                f"{smallest} or more, the vCPUs of the smallest machine that an item fits",
                f"Raise max_cpus or {remedy}",
            )
        if kinds[index] in kinds[:index]:
            raise ConfigError(
                key_path([*here, "market"]),
                shown(rung.market),
                "each market once, or with names that differ",
                "Join the rungs of one market: raise the max_cpus of the first; name the one that replaces another",
            )


def check_reservations(path: Path, queue: Queue, pattern: re.Pattern[str], allowed: str) -> None:
    """A reservation is for On-Demand, and of the stack's cloud."""
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


def check_secrets(path: Path, queue: Queue, pattern: re.Pattern[str], allowed: str, hint: str) -> None:
    """Secrets must be references; any other value is never shown."""
    for name, value in queue.secrets.items():
        if is_plain(value) and not pattern.fullmatch(value):
            raise ConfigError(
                key_path([*path, "secrets", name]),
                f"a text of {len(value)} characters (not shown)",
                allowed,
                f"{hint}; if this was the secret itself, replace it: do not put it in a stack file",
            )


def check_mounts(path: Path, queue: Queue, config: StackConfig, kinds: Sequence[str]) -> None:
    """Every mount must have one kind that the cloud has and a path of its own, and its bucket must be declared data."""
    seen: set[str] = set()
    check_nested([*path, "mounts"], queue.mounts)
    for name, mount in queue.mounts.items():
        here = [*path, "mounts", name]
        given = [kind for kind in _MOUNTS if getattr(mount, kind) is not None]
        for kind in given:
            if kind not in kinds:
                refuse(here, mount, kind, f"one of {', '.join(kinds)}", "Mount what the stack's cloud has")
        if len(given) != 1:
            raise ConfigError(
                key_path(here), shown(given), f"exactly one of {', '.join(kinds)}", "Make a mount for each of them"
            )
        check_mounted(here, mount.file_system, config)
        check_host(here, name, mount, config.cloud)
        if mount.path in seen or any(
            mount.path == taken or mount.path.startswith(f"{taken}/") for taken in _TAKEN_PATHS
        ):
            raise ConfigError(
                key_path([*here, "path"]),
                shown(mount.path),
                f"a path of its own outside {', '.join(_TAKEN_PATHS)}",
                f"Take a path such as /mnt/{name}",
            )
        data = plain([*config.data.read, *config.data.write])
        if mount.bucket and not any(within(mount.bucket, granted) for granted in data):
            raise ConfigError(
                key_path([*here, given[0]]),
                shown(mount.bucket),
                "what tidemill:data's read or write lists",
                f"Add {mount.bucket} to tidemill:data.read",
            )
        seen.add(mount.path)


def within(uri: str, granted: str) -> bool:
    """True if a grant of a bucket or prefix covers a URI; ``s3://raw`` does not cover ``s3://raw-images``."""
    return f"{uri}/".startswith(granted if granted.count("/") > 2 else f"{granted}/")


def check_limits(path: Path, queue: Queue) -> None:
    """Limits of a container must be known and possible."""
    for name, value in queue.ulimits.items():
        here = key_path([*path, "ulimits", name])
        if name not in _ULIMITS:
            raise unknown(here, name, _ULIMITS)
        if value < 1:
            raise ConfigError(here, str(value), "1 or more", "Leave the limit out for the machine's own")
    if queue.shared_memory_mib and queue.shared_memory_mib > queue.item.memory_mib:
        raise ConfigError(
            key_path([*path, "shared_memory_mib"]),
            str(queue.shared_memory_mib),
            f"item.memory_mib ({queue.item.memory_mib}) or less, what lies in /dev/shm counts as memory",
            "Raise item.memory_mib or lower shared_memory_mib",
        )
