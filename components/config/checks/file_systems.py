"""Rules of the file systems that a stack makes."""

import re
from collections.abc import Collection, Sequence

from ..errors import ConfigError, key_path, missing, nearest, refuse, shown
from ..file_system_models import FileSystem
from ..later import is_plain
from ..models import StackConfig
from ..queue_models import Queue
from ..types import AWS_KEY, GCP_KEY

_TIB = 1024
_SMALL, _LARGE = range(_TIB, 10 * _TIB, 256), range(10 * _TIB, 100 * _TIB + 1, 2560)
SIZES = {
    "basic_hdd": (range(_TIB, 65_433 + 1),),
    "basic_ssd": (range(2560, 65_433 + 1),),
    "zonal": (_SMALL, _LARGE),
    "regional": (_SMALL, _LARGE),
}
"""Sizes in GiB that a tier takes. An instance never leaves its range.
Source: https://cloud.google.com/filestore/docs/service-tiers"""


LONGEST_ON_AWS = 45
"""Team, environment and file system without hyphens: what is left of the 64 of a creation token for the rest of the
logical name and auto-naming. Source: https://docs.aws.amazon.com/efs/latest/ug/API_CreateFileSystem.html"""

LONGEST_ON_GCP = 44
"""The same of Filestore's 63.
Source: https://cloud.google.com/filestore/docs/reference/rest/v1/projects.locations.instances/create"""


def check_on_aws(config: StackConfig) -> None:
    """EFS has no tiers, sizes or zones."""
    for name, made in config.file_systems.items():
        _check_name(config, name, LONGEST_ON_AWS, "EFS limits the token that is")
        _check_key(name, made, AWS_KEY, "the ARN of a KMS key")
        for key in ("tier", "size_gib", "zone"):
            refuse(["file_systems", name], made, key, "only on GCP", "Leave it out; EFS grows with what it holds")


def check_on_gcp(config: StackConfig) -> None:
    """Filestore needs a tier, a zone unless the tier is regional, and one of the tier's sizes."""
    for name, made in config.file_systems.items():
        here = ["file_systems", name]
        _check_name(config, name, LONGEST_ON_GCP, "Filestore limits the name of the instance that is")
        for key in ("throughput", "infrequent_after_days", "backup"):
            refuse(here, made, key, "only on AWS", "Leave it out; a tier has its own speed and price")
        _check_key(name, made, GCP_KEY, "projects/p/locations/l/keyRings/r/cryptoKeys/k")
        if made.tier is None:
            raise missing(key_path([*here, "tier"]), f"Take one of {', '.join(SIZES)}")
        if made.tier.startswith("basic"):
            refuse(here, made, "kms_key", "only for the tiers zonal and regional", "Take one of these, or no key")
        if made.tier == "regional":
            refuse(here, made, "zone", "nothing for the tier regional", "Leave it out")
        elif made.zone is None:
            raise missing(key_path([*here, "zone"]), "Take the zone of most machines, such as a")
        if not any(size_of(made) in sizes for sizes in SIZES[made.tier]):
            raise ConfigError(
                key_path([*here, "size_gib"]),
                str(made.size_gib),
                " or ".join(map(_said, SIZES[made.tier])),
                "Take the next larger size",
            )


def _check_key(name: str, made: FileSystem, pattern: re.Pattern[str], allowed: str) -> None:
    if is_plain(made.kms_key) and made.kms_key != "create" and not pattern.fullmatch(made.kms_key):
        raise ConfigError(
            key_path(["file_systems", name, "kms_key"]),
            shown(made.kms_key),
            f"{allowed}, or create",
            "Name a key of the stack's cloud",
        )


def _check_name(config: StackConfig, name: str, longest: int, why: str) -> None:
    together = len(config.team) + len(config.environment) + len(name)
    if together > longest:
        raise ConfigError(
            key_path(["file_systems", name]),
            shown(name),
            f"team, environment and file system with at most {longest} characters together; these have {together}",
            f"Shorten one of them; {why} made from them",
        )


def size_of(made: FileSystem) -> int:
    """Size in GiB of a file system on GCP; the tier's smallest if it names none."""
    assert made.tier is not None
    return made.size_gib or SIZES[made.tier][0].start


def check_change(name: str, made: FileSystem, now_gib: int) -> None:
    """Refuse a size that Filestore would refuse in the middle of an update.

    Args:
        now_gib: The present size in GiB.
    """
    assert made.tier is not None
    wanted, basic = size_of(made), made.tier.startswith("basic")
    same_range = any(wanted in sizes and now_gib in sizes for sizes in SIZES[made.tier])
    if same_range and (wanted >= now_gib or not basic):
        return
    raise ConfigError(
        key_path(["file_systems", name, "size_gib"]),
        str(wanted),
        f"{now_gib} or more: a file system of the tier {made.tier} cannot shrink"
        if basic
        else f"sizes of the range that {now_gib} is in ({', '.join(map(_said, SIZES[made.tier]))})",
        "Make another file system, copy the files with a job, and mount that one",
    )


def _said(sizes: range) -> str:
    step = f" in steps of {sizes.step}" if sizes.step > 1 else ""
    return f"{sizes[0]} to {sizes[-1]} GiB{step}"


def check_mounted(path: Sequence[str], name: str | None, config: StackConfig) -> None:
    """A mount must name a file system of the stack.

    Args:
        path: The mount's place in the config.
        name: What its `file_system` says; None if it mounts something else.
    """
    names = [*config.file_systems]
    if name is not None and name not in names:
        guess = nearest(name, names)
        raise ConfigError(
            key_path([*path, "file_system"]),
            shown(name),
            f"file systems of this stack: {', '.join(names) or 'it makes none'}",
            f"Did you mean {guess!r}?" if guess else f"Add {name} to tidemill:file_systems, or remove the mount",
        )


def check_file_systems(queue: str, settings: Queue, given: Collection[str]) -> None:
    """Refuse a queue that mounts a file system which its program does not pass.

    Args:
        given: Names of the file systems that the queue is given.

    Raises:
        ConfigError: one is missing.
    """
    for mount, chosen in settings.mounts.items():
        if chosen.file_system and chosen.file_system not in given:
            raise ConfigError(
                key_path(["queues", queue, "mounts", mount, "file_system"]),
                shown(chosen.file_system),
                f"the argument file_systems: {', '.join(given) or 'it is empty'}",
                "Pass the `source` of an AwsFileSystem or a GcpFileSystem under this name",
            )
