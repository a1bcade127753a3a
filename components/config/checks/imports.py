"""Checks of imports: right cloud, region and project, and part of the stack."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from components.config.checks.common import check_all_set, refuse
from components.config.checks.images import repository_of
from components.config.errors import ConfigError, key_path, nearest, shown
from components.config.models import StackConfig
from components.config.types import JOB_QUEUE, REPOSITORY, SNS_TOPIC, SUBSCRIPTION, TOPIC

_HERE = ("imports",)


def check_aws_imports(config: StackConfig) -> None:
    """Repositories and queues must be the stack's, without keys of GCP."""
    imports = config.imports
    refuse(_HERE, imports, "repository", "only on GCP", "Name repositories, one by one")
    for name, queue in imports.queues.items():
        for key in ("topic", "subscription"):
            refuse((*_HERE, "queues", name), queue, key, "only on GCP", "Name job_queue")
        check_all_set((*_HERE, "queues", name), queue, ("job_queue",))
    images = [image for queue in config.queues.values() for image in queue.images.values()]
    images += config.worker_images.values()
    own = {*config.registry.repositories, *(name for image in images if (name := repository_of(image)))}
    _known("repositories", imports.repositories, sorted(own), "Add it to tidemill:registry.repositories")
    _check_common(config)


def check_gcp_imports(config: StackConfig) -> None:
    """Queues must be the stack's, without keys of AWS."""
    imports = config.imports
    refuse(_HERE, imports, "repositories", "only on AWS", "Name repository: on GCP one holds every image")
    for name, queue in imports.queues.items():
        refuse((*_HERE, "queues", name), queue, "job_queue", "only on AWS", "Name topic and subscription")
        check_all_set((*_HERE, "queues", name), queue, ("topic", "subscription"))
    _check_common(config)


def check_place(config: StackConfig, region: str | None, project: str | None) -> None:
    """Imports and the alarms' topic must be in the stack's region and project: nothing elsewhere is reached.

    Args:
        region: the stack's region; None if it comes from the environment.
    """
    imports = config.imports
    named = [
        (("monitoring", "topic"), config.monitoring.topic, SNS_TOPIC),
        ((*_HERE, "repository"), imports.repository, REPOSITORY),
    ]
    for name, queue in imports.queues.items():
        here = (*_HERE, "queues", name)
        named += [
            ((*here, "job_queue"), queue.job_queue, JOB_QUEUE),
            ((*here, "topic"), queue.topic, TOPIC),
            ((*here, "subscription"), queue.subscription, SUBSCRIPTION),
        ]
    for path, value, pattern in named:
        found = pattern.fullmatch(value) if value else None
        if found:
            _same(path, found, "region", region, region)
            _same(path, found, "project", f"projects/{project}" if project else None, project)


def _same(path: Sequence[str], found: re.Match[str], what: str, wanted: str | None, said: str | None) -> None:
    if wanted is not None and found.groupdict().get(what, wanted) != wanted:
        raise ConfigError(
            key_path(path), shown(found.string), f"what is in {said}, the stack's {what}", "Name one that is there"
        )


def _check_common(config: StackConfig) -> None:
    _known("queues", config.imports.queues, list(config.queues), "Add it to tidemill:queues")
    queues = config.imports.queues.items()
    places = [((*_HERE, "repositories", name), value) for name, value in config.imports.repositories.items()]
    for key in ("job_queue", "topic", "subscription"):
        places += [((*_HERE, "queues", name, key), value) for name, queue in queues if (value := getattr(queue, key))]
    seen: set[str] = set()
    for path, value in places:
        if value in seen:
            raise ConfigError(key_path(path), shown(value), "each value once", "Take each of them over once")
        seen.add(value)


def _known(key: str, given: Mapping[str, object], known: Sequence[str], hint: str) -> None:
    for name in given:
        if name not in known:
            guess = nearest(name, known)
            raise ConfigError(
                key_path([*_HERE, key, name]),
                f"the unknown name {name!r}",
                f"this stack's {key}: {', '.join(known) or 'it has none'}",
                f"Did you mean {guess!r}?" if guess else hint,
            )
