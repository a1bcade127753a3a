"""The cloud-config in a template's `user-data`: what a Container-Optimized OS machine writes and runs at boot.

https://cloud.google.com/container-optimized-os/docs/how-to/create-configure-instance#using_cloud-init_with_the_cloud_config_format
An unknown key is an error, so nothing is silently left out.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import re
from dataclasses import dataclass, field
from typing import Any

import yaml

HEADER = "#cloud-config"
FILE_KEYS = {"path", "content", "permissions", "owner", "encoding"}
ENCODINGS = {
    "": "",
    "text/plain": "",
    "b64": "b",
    "base64": "b",
    "gz+b64": "gb",
    "gzip+base64": "gb",
    "gz+base64": "gb",
}


class CloudInitError(Exception):
    """User data that cannot be run here; the message begins with the place in it."""


@dataclass(frozen=True)
class File:
    """A file to write."""

    path: str
    content: bytes
    mode: int


@dataclass(frozen=True)
class CloudConfig:
    """Steps at boot, in this order: `before` (bootcmd), `files`, `commands` (runcmd). A string is a shell command."""

    before: list[str | list[str]] = field(default_factory=list)
    files: list[File] = field(default_factory=list)
    commands: list[str | list[str]] = field(default_factory=list)


def parse(user_data: str) -> CloudConfig:
    """Read a cloud-config.

    Raises:
        CloudInitError: The text is not a cloud-config, or uses a part that is not emulated.
    """
    if user_data.partition("\n")[0].strip() != HEADER:
        raise CloudInitError(f"user-data: the first line has to be {HEADER}")
    try:
        config = yaml.safe_load(user_data) or {}
    except yaml.YAMLError as error:
        raise CloudInitError(f"user-data: {error}") from None
    known = {"bootcmd", "write_files", "runcmd"}
    if not isinstance(config, dict) or set(config) - known:
        raise CloudInitError(f"user-data: localcloud knows {sorted(known)}, not {sorted(set(config) - known)}")
    files = [_file(f"write_files[{n}]", each) for n, each in enumerate(config.get("write_files") or [])]
    return CloudConfig(_commands("bootcmd", config), files, _commands("runcmd", config))


def _file(place: str, given: Any) -> File:
    if not isinstance(given, dict) or set(given) - FILE_KEYS or not str(given.get("path", "")).startswith("/"):
        raise CloudInitError(f"{place}: a mapping of {sorted(FILE_KEYS)} with an absolute path, not {given!r:.200}")
    if given.get("owner", "root:root") not in ("root", "root:root"):
        raise CloudInitError(f"{place}.owner: localcloud knows root:root, not {given['owner']!r}")
    mode = str(given.get("permissions", "0644"))
    if not re.fullmatch(r"0?[0-7]{3,4}", mode):
        raise CloudInitError(f"{place}.permissions: an octal number in quotes, not {mode!r}")
    encoding = given.get("encoding", "")
    if encoding not in ENCODINGS:
        raise CloudInitError(f"{place}.encoding: one of {sorted(filter(None, ENCODINGS))}, not {encoding!r}")
    content = str(given.get("content", "")).encode()
    try:
        content = base64.b64decode(content) if "b" in ENCODINGS[encoding] else content
        content = gzip.decompress(content) if "g" in ENCODINGS[encoding] else content
    except (binascii.Error, OSError) as error:
        raise CloudInitError(f"{place}.content: {error}") from None
    return File(given["path"], content, int(mode, 8))


def _commands(name: str, config: dict[str, Any]) -> list[str | list[str]]:
    commands = config.get(name) or []
    for number, each in enumerate(commands):
        if not isinstance(each, str) and not (isinstance(each, list) and all(isinstance(w, str | int) for w in each)):
            raise CloudInitError(f"{name}[{number}]: a text or a list of words, not {each!r}")
    return [each if isinstance(each, str) else [str(word) for word in each] for each in commands]
