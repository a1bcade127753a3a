"""Checks that what a config names is where the stack is: nothing elsewhere is reached."""

import re
from collections.abc import Collection, Iterator, Sequence

import pulumi

from tidemill import prices

from ...rooms import CLOUDS, cloud_room
from ..errors import ConfigError, key_path, nearest, refuse, shown
from ..later import is_plain
from ..models import StackConfig
from ..registry_models import ECR

Named = tuple[tuple[str | int, ...], pulumi.Input[str] | None]
"""A key's place in the config, and its value."""

_REGION = re.compile(r"arn:[^:]*:[^:]*:([^:]+):.*|.*/(?:locations|regions)/([^/]+)/.*")


def check_place(config: StackConfig, region: str | None, project: str | None) -> None:
    """Check that what machines, alarms and buckets use is in the stack's region, and imports in its project too.

    Args:
        region: The stack's region; None if it comes from the environment.
        project: The stack's project; None as above, and where a cloud has none.

    Raises:
        ConfigError: the first thing that is elsewhere.
    """
    if region is not None:
        check_region(config.cloud, f"{config.cloud}:region", region)
    imports = [*_imports(config)]
    for path, value in [*imports, *_used(config)]:
        if is_plain(value) and (match := _REGION.fullmatch(value)):
            _same(path, value, "region", match[1] or match[2], region)
    for path, value in imports:
        if is_plain(value) and value.startswith("projects/"):
            _same(path, value, "project", value.split("/")[1], project)
    _check_mirrors(config, region)
    for prefix, keys in cloud_room(config.cloud, "keys").UNAVAILABLE.items():
        for key, fix in keys.items():
            if region and region.startswith(prefix):
                refuse([], config, key, f"nothing in {region}, which lacks the service", fix)
    for path, zone in _zones(config):
        if is_plain(zone) and region and len(zone) > 1 and not zone.startswith(region):
            raise ConfigError(
                key_path(path), shown(zone), f"zones of {region}, the stack's region", "Name its letter, such as a"
            )
    _check_own_zones(config)


def check_region(cloud: str, key: str, region: str) -> None:
    """Check that a cloud has a region, by our lists and the price table.

    Args:
        key: The key that names it, for the error.

    Raises:
        ConfigError: neither has it.
    """
    known = _regions(cloud)
    if region not in known:
        raise ConfigError(key, shown(region), f"a region of {cloud.upper()}", _meant(cloud, str(region), known))


def _regions(cloud: str) -> set[str]:
    return {*cloud_room(cloud, "keys").REGIONS, *prices.covered(cloud)}


def _meant(cloud: str, region: str, known: Collection[str]) -> str:
    """The choices of a person who named an unknown region."""
    others = [
        f"It is a region of {other.upper()}. " for other in CLOUDS if other != cloud and region in _regions(other)
    ]
    guess = nearest(region.lower(), sorted(known))
    for of_zone in (region[:-1], region.rpartition("-")[0]):
        if of_zone in known:
            others, guess = ["It is a zone. "], of_zone
    meant = f"Did you mean {guess}?" if guess else "Name a region by its id."
    refresh = f"`python -m ops prices refresh --cloud {cloud} --region {region}`"
    return f"{''.join(others)}{meant} {refresh} adds one that this version does not know"


def _check_own_zones(config: StackConfig) -> None:
    """A queue's zones are among those that the stack's new network names, each as a letter or in full."""
    names = (config.network.create.zone_names if config.network.create else None) or []
    letters = {name[-1] for name in names}
    for path, zone in _zones(config):
        if names and is_plain(zone) and zone[-1] not in letters:
            allowed = f"zones of tidemill:network.create.zone_names: {', '.join(names)}"
            raise ConfigError(key_path(path), shown(zone), allowed, "Name one of them, or add it there")


def _check_mirrors(config: StackConfig, region: str | None) -> None:
    """The endpoint of ECR in a network without internet is its region's."""
    if config.network.create is None or config.network.create.egress != "endpoints":
        return
    for host, mirror in config.mirrors.items():
        if (match := ECR.match(mirror)) and region and match["region"] != region:
            raise ConfigError(
                key_path(["mirrors", host]),
                shown(mirror),
                f"ECR of {region}, the stack's region: with network.create.egress endpoints machines reach no other",
                f"Make the cache in {region} too, or take egress nat",
            )


def _imports(config: StackConfig) -> Iterator[Named]:
    yield ("imports", "repository"), config.imports.repository
    for name, queue in config.imports.queues.items():
        for key in ("job_queue", "topic", "subscription"):
            yield ("imports", "queues", name, key), getattr(queue, key)


def _used(config: StackConfig) -> Iterator[Named]:
    """Keys encrypt where they are: https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingKMSEncryption.html and
    https://docs.cloud.google.com/storage/docs/encryption/customer-managed-keys#restrictions"""
    yield ("monitoring", "topic"), config.monitoring.topic
    yield ("store", "kms_key"), config.store.kms_key
    yield ("logs", "kms_key"), config.logs.kms_key
    yield ("registry", "kms_key"), config.registry.kms_key
    yield ("disks", "kms_key"), config.disks.kms_key
    yield ("topics", "kms_key"), config.topics.kms_key
    for name, made in config.file_systems.items():
        yield ("file_systems", name, "kms_key"), made.kms_key
    for name, queue in config.queues.items():
        for index, rung in enumerate(queue.capacity):
            yield ("queues", name, "capacity", index, "reservation"), rung.reservation
    if config.network.existing:
        yield ("network", "existing", "subnetwork"), config.network.existing.subnetwork


def _zones(config: StackConfig) -> Iterator[Named]:
    new = config.network.create
    for index, zone in enumerate(new.zone_names or [] if new else []):
        yield ("network", "create", "zone_names", index), zone
    for name, queue in config.queues.items():
        for index, zone in enumerate(queue.machines.zones):
            yield ("queues", name, "machines", "zones", index), zone
    for name, files in config.file_systems.items():
        yield ("file_systems", name, "zone"), files.zone


def _same(path: Sequence[str | int], value: str, what: str, place: str, wanted: str | None) -> None:
    if wanted is not None and place != wanted:
        raise ConfigError(
            key_path(path), shown(value), f"what is in {wanted}, the stack's {what}", "Name one that is there"
        )
