"""Rules of a stack's config that need more than one key. Each raises the one error to show."""

from __future__ import annotations

import ipaddress
import re

from components import machines
from components.config.errors import ConfigError, key_path, nearest, shown
from components.config.models import Queue, StackConfig

LONGEST_NAME = 36
"""Team, hyphen and environment: what is left of IAM's 64 for a role's suffix and auto-naming.
Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html"""

MOST_QUEUES_AND_IMAGES = 24
"""ARNs of up to 165 characters that fit a managed policy of 6,144 beside its fixed statements. Source: as above."""

_RESERVED_PREFIXES = ("sthree-", "amzn-s3-demo-")
"""Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html"""

_DIGEST = r"@sha256:[0-9a-f]{64}"
_NAME = r"[a-z0-9]+([._-][a-z0-9]+)*"
_DIGEST_END = re.compile(rf"{_DIGEST}$")
_OWN_IMAGE = re.compile(rf"registry://(?P<name>[a-z](-?[a-z0-9])*)(:[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}}|{_DIGEST})")
_OTHER_IMAGE = re.compile(rf"[a-z0-9.-]+(:\d+)?/({_NAME}/)*{_NAME}(:[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?{_DIGEST}")
_SECRET = re.compile(
    r"arn:aws[a-z-]*:(secretsmanager:[a-z0-9-]+:\d{12}:secret:[\w/+=.@-]+(:[^:\s]*){0,3}|ssm:[a-z0-9-]+:\d{12}:parameter/[\w./-]+)"
)
_ULIMITS = (
    "core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice", "nofile", "nproc", "rss", "rtprio",
    "rttime", "sigpending", "stack",
)  # fmt: skip
"""Source: https://docs.aws.amazon.com/batch/latest/APIReference/API_Ulimit.html"""

_TAKEN_PATHS = (
    "/scratch", "/cache", "/tidemill", "/proc", "/sys", "/dev", "/etc", "/bin", "/lib", "/lib64", "/usr", "/var",
    "/tmp",
)  # fmt: skip


def check(config: StackConfig) -> None:
    """Raise a `ConfigError` for the first rule that a config breaks."""
    _names(config)
    _network(config)
    _size(config)
    _worker(config)
    for name, queue in config.queues.items():
        path = ("queues", name)
        _images(path, queue)
        _machines(path, queue)
        _capacity(path, queue)
        _secrets(path, queue)
        _mounts(path, queue, config)
        _limits(path, queue)


def repository_of(image: str) -> str | None:
    """The repository of the stack's registry that an image lies in, None for other registries."""
    found = _OWN_IMAGE.fullmatch(image)
    return found["name"] if found else None


def _names(config: StackConfig) -> None:
    full = f"{config.team}-{config.environment}"
    if len(full) > LONGEST_NAME:
        raise ConfigError(
            key_path(["team"]),
            shown(config.team),
            f"team and environment of together {LONGEST_NAME - 1} characters or less, these have {len(full) - 1}",
            "Shorten one of them; AWS limits the names of roles and buckets that are made from them",
        )
    if full.startswith(_RESERVED_PREFIXES):
        raise ConfigError(
            key_path(["team"]),
            shown(config.team),
            f"a name that does not start with {' or '.join(_RESERVED_PREFIXES)}",
            "Rename the team; S3 reserves these prefixes of bucket names",
        )


def _network(config: StackConfig) -> None:
    network = config.network
    if network.create and network.existing:
        raise ConfigError(key_path(["network"]), "create and existing together", "one of them", "Remove one of them")
    if network.create:
        cidr = network.create.cidr
        try:
            private = ipaddress.IPv4Network(cidr).is_private
        except ValueError:
            private = False
        if not private:
            raise ConfigError(
                key_path(["network", "create", "cidr"]),
                shown(cidr),
                "a private IPv4 range whose host bits are zero, such as 10.0.0.0/16",
                "Take a range of 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16 that nothing you peer with uses",
            )


def _size(config: StackConfig) -> None:
    count = len(config.queues) + sum(len(queue.images) for queue in config.queues.values())
    if count > MOST_QUEUES_AND_IMAGES:
        raise ConfigError(
            key_path(["queues"]),
            f"{count} queues and images together",
            f"{MOST_QUEUES_AND_IMAGES} or less",
            "Make a second stack; the submitters' policy names each of them and IAM limits its length",
        )


def _worker(config: StackConfig) -> None:
    image = config.worker_image
    if image is None or (_DIGEST_END.search(image) and (_OWN_IMAGE.fullmatch(image) or _OTHER_IMAGE.fullmatch(image))):
        return
    raise ConfigError(
        key_path(["worker_image"]),
        shown(image),
        "registry://name@sha256:<64 hex digits> (the stack's registry) or host/name@sha256:<64 hex digits>",
        "`make worker PUSH=REGISTRY` prints it",
    )


def _images(path: tuple[str, ...], queue: Queue) -> None:
    if "default" not in queue.images:
        raise ConfigError(
            key_path([*path, "images"]),
            f"images {', '.join(queue.images)} without default",
            "a mapping that has the name default",
            "Name the image that jobs get when they ask for none: default",
        )
    for name, image in queue.images.items():
        if not _OWN_IMAGE.fullmatch(image) and not _OTHER_IMAGE.fullmatch(image):
            raise ConfigError(
                key_path([*path, "images", name]),
                shown(image),
                "registry://name:tag, registry://name@sha256:<64 hex digits> (the stack's registry), or "
                "host/name@sha256:<64 hex digits>",
                "Pin the image: `crane digest <image>` or `docker buildx imagetools inspect <image>` prints its digest",
            )


def _machines(path: tuple[str, ...], queue: Queue) -> None:
    wanted, cpus, item = queue.machines, queue.machines.cpus, queue.item
    known = machines.families()
    for index, family in enumerate(wanted.families):
        if family not in known:
            guess = nearest(family, known)
            raise ConfigError(
                key_path([*path, "machines", "families", index]),
                shown(family),
                f"families of components/machines.json: {', '.join(known)}",
                f"Did you mean {guess}?" if guess else "Take a known family, or refresh the table",
            )
    here = [*path, "machines", "cpus"]
    if cpus.min > cpus.max:
        raise ConfigError(
            key_path([*here, "min"]), str(cpus.min), f"max ({cpus.max}) or less", "Lower min or raise max"
        )
    _one_kind(path, queue)
    selected = machines.select(wanted.families, cpus.min, cpus.max)
    sizes = sorted({m.cpus for family in wanted.families for m in known[family]})
    if not selected:
        raise ConfigError(
            key_path(here),
            f"{cpus.min} to {cpus.max} vCPUs",
            f"a range that holds one of {', '.join(map(str, sizes))}, the sizes of {', '.join(wanted.families)}",
            "Widen the range or add a family",
        )
    if not any(m.fits(item.cpus, item.memory_mib, item.gpus) for m in selected):
        most = (
            max(m.cpus for m in selected),
            max(m.usable_memory_mib for m in selected),
            max(m.gpus for m in selected),
        )
        asked = f"{item.cpus} vCPUs, {item.memory_mib} MiB and {item.gpus} GPUs"
        raise ConfigError(
            key_path([*path, "item"]),
            f"an item of {asked}",
            f"what fits one machine of the queue: at most {most[0]} vCPUs, {most[1]} MiB and {most[2]} GPUs",
            "Make the item smaller, raise machines.cpus.max or take families with more memory for each vCPU",
        )


def _one_kind(path: tuple[str, ...], queue: Queue) -> None:
    """One architecture a queue (Batch allows no more), and GPU machines for GPU items alone."""
    families = queue.machines.families
    known = machines.families()
    here = key_path([*path, "machines", "families"])
    kinds = {family: known[family][0].architecture for family in families}
    if len(set(kinds.values())) > 1:
        by_kind = "; ".join(
            f"{kind}: {', '.join(f for f in families if kinds[f] == kind)}" for kind in sorted(set(kinds.values()))
        )
        raise ConfigError(
            here, shown(families), f"families of one architecture ({by_kind})", "Make a queue for each architecture"
        )
    if "arm64" in kinds.values():
        x86 = [family for family in known if known[family][0].architecture == "x86_64"]
        raise ConfigError(
            here, shown(families), f"families of x86_64: {', '.join(x86)}", "There is no worker for arm64 yet"
        )
    with_gpus = [family for family in families if known[family][0].gpus]
    if queue.item.gpus and not with_gpus:
        raise ConfigError(
            key_path([*path, "item", "gpus"]),
            str(queue.item.gpus),
            f"0 on machines without GPUs ({', '.join(families)})",
            f"Take GPU families: {', '.join(f for f in known if known[f][0].gpus)}",
        )
    if with_gpus and (not queue.item.gpus or len(with_gpus) < len(families)):
        raise ConfigError(
            here,
            shown(families),
            "either families with GPUs and an item with item.gpus of 1 or more, or families without GPUs",
            f"Set item.gpus, or leave out {', '.join(with_gpus)}",
        )


def _capacity(path: tuple[str, ...], queue: Queue) -> None:
    item = queue.item
    selected = machines.select(queue.machines.families, queue.machines.cpus.min, queue.machines.cpus.max)
    smallest = min(m.cpus for m in selected if m.fits(item.cpus, item.memory_mib, item.gpus))
    markets = [rung.market for rung in queue.capacity]
    for index, rung in enumerate(queue.capacity):
        here = [*path, "capacity", index]
        if rung.max_cpus < item.cpus:
            raise ConfigError(
                key_path([*here, "max_cpus"]),
                str(rung.max_cpus),
                f"{smallest} or more, one item alone needs {item.cpus}",
                "Raise max_cpus or make the item smaller",
            )
        if rung.max_cpus < smallest:
            raise ConfigError(
                key_path([*here, "max_cpus"]),
                str(rung.max_cpus),
                f"{smallest} or more, the vCPUs of the smallest machine that an item fits",
                "Raise max_cpus or lower machines.cpus.min",
            )
        if rung.market in markets[:index]:
            raise ConfigError(
                key_path([*here, "market"]),
                shown(rung.market),
                "each market once",
                "Join the rungs of one market: raise the max_cpus of the first",
            )


def _secrets(path: tuple[str, ...], queue: Queue) -> None:
    for name, value in queue.secrets.items():
        if not _SECRET.fullmatch(value):
            raise ConfigError(
                key_path([*path, "secrets", name]),
                f"a text of {len(value)} characters (not shown)",
                "the ARN of a Secrets Manager secret or an SSM parameter",
                "Put the secret into Secrets Manager and its ARN here; if this was the secret itself, replace it: a "
                "stack file is no place for it",
            )


def _mounts(path: tuple[str, ...], queue: Queue, config: StackConfig) -> None:
    seen: set[str] = set()
    for name, mount in queue.mounts.items():
        here = [*path, "mounts", name]
        kinds = [kind for kind in ("host", "efs", "s3") if getattr(mount, kind) is not None]
        if len(kinds) != 1:
            raise ConfigError(
                key_path(here), shown(kinds), "exactly one of host, efs, s3", "Make a mount for each of them"
            )
        if mount.path in seen or any(
            mount.path == taken or mount.path.startswith(f"{taken}/") for taken in _TAKEN_PATHS
        ):
            raise ConfigError(
                key_path([*here, "path"]),
                shown(mount.path),
                f"a path of its own outside {', '.join(_TAKEN_PATHS)}",
                f"Take a path such as /mnt/{name}",
            )
        if mount.s3 and not any(mount.s3.startswith(granted) for granted in config.data.read + config.data.write):
            raise ConfigError(
                key_path([*here, "s3"]),
                shown(mount.s3),
                "what tidemill:data's read or write lists",
                f"Add {mount.s3} to tidemill:data.read",
            )
        seen.add(mount.path)


def _limits(path: tuple[str, ...], queue: Queue) -> None:
    for name, value in queue.ulimits.items():
        here = key_path([*path, "ulimits", name])
        if name not in _ULIMITS:
            guess = nearest(name, _ULIMITS)
            hint = f"Did you mean {guess!r}?" if guess else "Remove the key"
            raise ConfigError(here, f"the unknown key {name!r}", f"the keys {', '.join(_ULIMITS)}", hint)
        if value < 1:
            raise ConfigError(here, str(value), "1 or more", "Leave the limit out for the machine's own")
    if queue.shared_memory_mib and queue.shared_memory_mib > queue.item.memory_mib:
        raise ConfigError(
            key_path([*path, "shared_memory_mib"]),
            str(queue.shared_memory_mib),
            f"item.memory_mib ({queue.item.memory_mib}) or less, what lies in /dev/shm counts as memory",
            "Raise item.memory_mib or lower shared_memory_mib",
        )
