"""Rules of the keys that narrow a queue's machines: the types that it leaves out, their image."""

from __future__ import annotations

import re
from collections.abc import Sequence

from components.config.checks.common import Path
from components.config.errors import ConfigError, key_path, nearest, shown
from components.config.queue_models import Queue
from components.machines import MachineType


def check_image(path: Path, queue: Queue, pattern: re.Pattern[str], allowed: str) -> None:
    """The machine image must be one of the stack's cloud."""
    image = queue.machines.image
    if image is not None and not pattern.fullmatch(image):
        raise ConfigError(
            key_path([*path, "machines", "image"]), shown(image), allowed, "Name a machine image of the stack's cloud"
        )


def left_in(path: Path, queue: Queue, selected: Sequence[MachineType]) -> list[MachineType]:
    """The types that `machines.exclude` leaves in.

    Args:
        selected: The types of the queue's families and sizes.

    Raises:
        ConfigError: it names a type that the queue would not start anyway, or leaves nothing in.
    """
    exclude = queue.machines.exclude
    here = [*path, "machines", "exclude"]
    types = [machine.type for machine in selected]
    for index, name in enumerate(exclude):
        if name not in types:
            guess = nearest(name, types)
            raise ConfigError(
                key_path([*here, index]),
                shown(name),
                f"types of machines.families with machines.cpus: {', '.join(types)}",
                f"Did you mean {guess}?" if guess else "Leave it out; the queue does not start it anyway",
            )
    kept = [machine for machine in selected if machine.type not in exclude]
    if not kept:
        raise ConfigError(
            key_path(here),
            shown(exclude),
            f"fewer than all {len(types)} types of machines.families with machines.cpus",
            "Leave one of them in, add a family, or widen machines.cpus",
        )
    return kept
