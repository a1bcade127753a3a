"""The disk of an emulated machine, and what its own programs see besides it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Docker's default PATH, too: https://github.com/moby/moby/blob/master/daemon/pkg/oci/defaults.go"""
PROGRAMS = "/run/localcloud"
"""Where the programs are that stand for others."""
SYSTEM = ["usr", "bin", "sbin", "lib", "lib32", "lib64"]
"""Folders of this machine that an emulated machine has too, read-only."""
ETC = ("passwd", "group", "nsswitch.conf", "ld.so.cache", "ld.so.conf", "alternatives")


def prepare(root: Path, folders: Iterable[str]) -> None:
    """Make folders on a disk, and what of /etc every program needs."""
    for folder in folders:
        (root / folder).mkdir(parents=True, exist_ok=True)
    for name in ETC:
        source, target = Path("/etc", name), root / "etc" / name
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
        elif source.is_file():
            shutil.copyfile(source, target)


def mounts(programs: Path, *shown: str) -> list[dict[str, Any]]:
    """Return what programs of the machine see besides its disk.

    Args:
        programs: The folder that they have at PROGRAMS.
        shown: Further folders of this machine.
    """
    binds = {PROGRAMS: str(programs)} | {folder: folder for folder in shown}
    return [
        {"kind": "image", "source": "/", "only": SYSTEM},
        *({"kind": "bind", "source": here, "target": there, "readonly": True} for there, here in binds.items()),
        {"kind": "devices"},
        {"kind": "proc"},
    ]
