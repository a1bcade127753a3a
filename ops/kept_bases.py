"""States of bases that came up before, in the user's cache folder, so that the next review need not bring them up.

An entry is found by a digest of all that decides it, so it is never out of date. It holds nothing but what
the base's commit and localcloud hold: the clouds' credentials and the caller's login never get there
([ADR 111](../docs/adr/0111-a-bases-state-is-kept.md)).
"""

import gzip
import hashlib
import importlib.metadata
import json
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from localcloud import engine
from ops import git, project
from ops.review.document import Base
from tidemill.folders import cache_folder, replace_file

_VERSION = "1"
_MOST_BYTES = 64 << 20
_HERE = Path(__file__).resolve().parents[1]
_TOOLS = ("localcloud", "ops/base_stack.py", "ops/kept_bases.py", "ops/engine.py", "ops/project.py")
"""What brings a base up, from this checkout: files that are not committed count too."""


class KeptBase(NamedTuple):
    """A base that came up."""

    state: str
    """The engine's export of its stack."""
    resources: dict[str, Any]
    """What a preview may ask the cloud about, by localcloud's name."""


def used() -> bool:
    """False in CI: on a runner that is not new, a pull request's code could have written what the next one reads."""
    return os.environ.get("CI", "").lower() in ("", "0", "false")


def key(base: Base, stack: str) -> str:
    """A digest of all that decides the state: program and stack file of the commit, packages, engine, localcloud."""
    digest = hashlib.sha256()
    for part in _parts(base, stack):
        digest.update(f"{len(part)}:".encode() + part)
    return digest.hexdigest()


def _parts(base: Base, stack: str) -> Iterator[bytes]:
    yield from (each.encode() for each in (_VERSION, stack, sys.version, _engine()))
    settings = project.settings_file(stack, Path()).as_posix()
    yield git.tree(base.commit, (*project.CODE, *project.HOMES, settings)).encode()
    packages = {f"{each.name}=={each.version}" for each in importlib.metadata.distributions()}
    yield "\n".join(sorted(packages)).encode()
    for name in _TOOLS:
        path = _HERE / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            # Python writes there, under names of its own, while another review starts.
            if "__pycache__" not in file.parts and file.is_file():
                yield file.relative_to(_HERE).as_posix().encode()
                yield file.read_bytes()


def _engine() -> str:
    if (path := engine.on_path()) is None:
        return engine.VERSION
    found = path.stat()
    return f"{path} {found.st_size} {found.st_mtime_ns}"


def read(name: str) -> KeptBase | None:
    """The base of a key; None if there is none that can be trusted."""
    try:
        path = _folder() / name
        with path.open("rb") as file:
            if not _own(os.fstat(file.fileno())):
                return None
            digest, _, packed = file.read().partition(b"\n")
        if hashlib.sha256(name.encode() + packed).hexdigest().encode() != digest:
            return None
        found = KeptBase(**json.loads(gzip.decompress(packed)))
        # What was used last stays longest.
        os.utime(path)
    # Without a home there is no cache folder.
    except (OSError, RuntimeError, EOFError, ValueError, TypeError):
        return None
    return found


def write(name: str, base: KeptBase) -> None:
    """Keep a base. A cache that cannot be written is left alone: the next review takes longer."""
    packed = gzip.compress(json.dumps(base._asdict()).encode(), 6, mtime=0)
    digest = hashlib.sha256(name.encode() + packed).hexdigest().encode()
    with suppress(OSError, RuntimeError):
        folder = _folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _own(folder.stat()):
            replace_file(folder / name, digest + b"\n" + packed)
            _make_room(folder)


def _folder() -> Path:
    return cache_folder() / "bases"


def _own(found: os.stat_result) -> bool:
    """True if nobody else can have written it."""
    return found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _make_room(folder: Path) -> None:
    """Delete what was used longest ago until the folder is within its limit, also files of a killed review."""
    files = []
    for path in folder.iterdir():
        with suppress(FileNotFoundError):
            files.append((path.stat(), path))
    left = sum(each.st_size for each, _ in files)
    for found, path in sorted(files, key=lambda file: file[0].st_mtime):
        if left <= _MOST_BYTES:
            return
        path.unlink(missing_ok=True)
        left -= found.st_size
