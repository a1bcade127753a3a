"""Checks of imports: right cloud, and part of the stack."""

from collections.abc import Mapping, Sequence

from ..errors import ConfigError, key_path, nearest, refuse, shown
from ..models import StackConfig
from .common import check_all_set
from .images import repository_of

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


def _known(key: str, given: Mapping[str, object], allowed: Sequence[str], hint: str) -> None:
    for name in given:
        if name not in allowed:
            guess = nearest(name, allowed)
            raise ConfigError(
                key_path([*_HERE, key, name]),
                f"the unknown name {name!r}",
                f"this stack's {key}: {', '.join(allowed) or 'it has none'}",
                f"Did you mean {guess!r}?" if guess else hint,
            )
