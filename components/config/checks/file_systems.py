"""Rules of the file systems that a stack makes."""

from __future__ import annotations

from collections.abc import Sequence

from components.config.errors import ConfigError, key_path, nearest, shown
from components.config.models import StackConfig


def refuse_file_systems(config: StackConfig) -> None:
    """Stacks make them only on AWS."""
    for name in config.file_systems:
        raise ConfigError(
            key_path(["file_systems", name]),
            shown(name),
            "only on AWS",
            "Leave it out; make a Filestore instance and mount it with `filestore`",
        )


def check_mounted(path: Sequence[str], name: str | None, config: StackConfig) -> None:
    """A mount must name a file system of the stack.

    Args:
        path: The mount's place in the config.
        name: What its `file_system` says; None if it mounts something else.
    """
    known = [*config.file_systems]
    if name is not None and name not in known:
        guess = nearest(name, known)
        raise ConfigError(
            key_path([*path, "file_system"]),
            shown(name),
            f"file systems of this stack: {', '.join(known) or 'it makes none'}",
            f"Did you mean {guess!r}?" if guess else f"Add {name} to tidemill:file_systems, or remove the mount",
        )
