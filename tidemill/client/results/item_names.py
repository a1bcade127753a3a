"""Names of a job's items in a folder of this machine: legal on every file system, and the same in every fetch.

A name depends on the job's whole list of items and on nothing else: not on which items are asked for, nor on what is
there already. Where two items would have the same name, the one with the lower index keeps it, and the other gets `~`
and its index.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from typing import Any
from urllib.parse import unquote

from tidemill import layout
from tidemill.errors import CallerError
from tidemill.job import Item

DEFAULT = "{stem}"
RESERVED = ("logs", "state")
"""Folders of a fetch that are no items."""
ITEM_WORDS = ("stem", "name", "path", "index")
EXTENSION = "{ext}"
NAME_BYTES = 240
"""The longest name that is made here: file systems take 255 bytes, and a collision adds a few."""
_UPLOADED = re.compile(rf"(?:^|/){layout.UPLOADS}/[0-9a-f]{{64}}/([^/]+)$")
_PLACEHOLDER = re.compile(r"\{([^{}/]+)\}")
_ENDING = re.compile(r"(\.tar)?\.(?=[0-9]*[A-Za-z])[A-Za-z0-9]{1,10}$")
_UNSAFE = re.compile(r'[\x00-\x1f\x7f<>:"|?*\\]')
_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)", re.IGNORECASE)
"""Names that Windows keeps for devices, whatever their ending:
https://learn.microsoft.com/en-us/windows/win32/fileio/naming-a-file"""


class ItemNames:
    """Names of items by a template.

    Args:
        template: What names an item: text with `{stem}`, `{name}`, `{path}` (below the folder that all items are in),
            `{index}`, or a key of the items' metadata. A template that ends with `{ext}` names files: an item with a
            single output file is this file, with the ending of the output. Any other item is a folder.
        items: Yields every item of the job, in order. It is not called if the template cannot give two items one name.

    Raises:
        CallerError: The template names no item, or leads out of the folder.
    """

    def __init__(self, template: str, items: Callable[[], Iterable[Item]]) -> None:
        self.of_files = template.endswith(EXTENSION)
        self._template = template.removesuffix(EXTENSION)
        _check(template, self._template)
        self._renamed: dict[int, str] = {}
        self._above = 0
        """Characters of a path that all items have in common: their folder."""
        if self._template == "{index}":
            return
        if "{path}" in self._template:
            self._above = _common_folder(item_path(item) for item in items())
        taken = UsedNames(RESERVED)
        for item in items():
            wanted = self._wanted(item)
            name = taken.claim(wanted, f"~{item.index}")
            if name != wanted:
                self._renamed[item.index] = name

    def of(self, item: Item) -> str:
        """The item's name, relative to the folder, with `/` between its parts."""
        return self._renamed.get(item.index) or self._wanted(item)

    def _wanted(self, item: Item) -> str:
        name = _PLACEHOLDER.sub(lambda match: self._value(item, match[1]), self._template)
        parts = [safe_name(part) for part in name.split("/") if part] or ["_"]
        if parts[0].startswith("."):
            parts[0] = f"_{parts[0][1:]}"
        if self.of_files:
            # The ending is that of the output. A name that kept one could be the file of another item.
            while _ENDING.search(parts[-1]):
                parts[-1] = _split(parts[-1])[0] if _split(parts[-1])[1] else f"{parts[-1]}_"
        return "/".join(parts)

    def _value(self, item: Item, word: str) -> str:
        if word == "index":
            return str(item.index)
        if word in ITEM_WORDS:
            path = item_path(item)
            name = path.rpartition("/")[2]
            return {"path": path[self._above :], "name": name, "stem": _ENDING.sub("", name) or name}[word]
        value = (item.meta or {}).get(word)
        if value is None:
            placeholders = [f"{{{key}}}" for key in (*ITEM_WORDS, "ext", *(item.meta or {}))]
            allowed = f"made of {', '.join(placeholders)}, which item {item.index} has"
            raise CallerError.about("name", self._template, allowed, "Use {index}, which every item has.")
        return _text(value).replace("/", "_")


class UsedNames:
    """Names that are in use in a folder. Names that differ only in case are the same on some file systems."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        self._names, self._folders = set(names), set[str]()

    def claim(self, name: str, mark: str) -> str:
        """The name, or where it is in use the name with a mark. No name is a folder of another."""
        parts = name.split("/")
        while (at := self._conflict(parts)) is not None:
            parts[at] += mark
        *folders, last = _prefixes(parts)
        self._folders.update(folders)
        self._names.add(last)
        return "/".join(parts)

    def _conflict(self, parts: list[str]) -> int | None:
        *folders, last = _prefixes(parts)
        for at, folder in enumerate(folders):
            if folder in self._names:
                return at
        return len(parts) - 1 if last in self._names or last in self._folders else None


def _prefixes(parts: list[str]) -> list[str]:
    """A path's folders and the path itself, as they are compared."""
    whole = unicodedata.normalize("NFC", "/".join(parts)).casefold()
    if len(parts) == 1:
        return [whole]
    pieces = whole.split("/")
    return ["/".join(pieces[:n]) for n in range(1, len(pieces) + 1)]


def safe_name(part: str) -> str:
    """One part of a path as every file system takes it: no separators, control characters or devices' names."""
    part = _UNSAFE.sub("_", part.encode("utf-8", "replace").decode()).rstrip(" .").replace("/", "_")
    if len(part.encode()) > NAME_BYTES:
        base, ending = _split(part)
        kept = base.encode()[: NAME_BYTES - len(ending.encode())]
        part = kept.decode("utf-8", "ignore") + ending
    return f"_{part}" if _DEVICE.match(part) else part or "_"


def safe_path(path: str) -> str:
    """A relative path as every file system takes it, always inside its folder."""
    return "/".join(safe_name(part) for part in path.split("/") if part) or "_"


def ending_of(name: str) -> str:
    """`.npy` of `features.npy`, `.tar.gz` of `a.tar.gz`, nothing of `README`."""
    return _split(name.rpartition("/")[2])[1]


def item_path(item: Item) -> str:
    """An item's path in its bucket or on its machine, or where a submit found the file that it uploaded; any other text
    is its own path."""
    scheme, is_uri, rest = item.uri.partition("://")
    if not is_uri:
        return item.uri.strip("/")
    path = rest.partition("/")[2].strip("/")
    if uploaded := _UPLOADED.search(path):
        stated = (item.meta or {}).get("path")
        return stated.strip("/") if isinstance(stated, str) else uploaded[1]
    return (unquote(path) if scheme == "file" else path) or rest


def paths_below(items: Sequence[Item]) -> list[str]:
    """The items' paths below the folder that all of them are in."""
    paths = [item_path(item) for item in items]
    above = _common_folder(paths)
    return [path[above:] for path in paths]


def _common_folder(paths: Iterable[str]) -> int:
    """Length of the folder, with its slash, that all paths are in."""
    common: list[str] | None = None
    for path in paths:
        folders = path.split("/")[:-1]
        pairs = zip(common if common is not None else folders, folders, strict=False)
        common = [one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)]
        if not common:
            break
    return sum(len(folder) + 1 for folder in common or ())


def _split(name: str) -> tuple[str, str]:
    match = _ENDING.search(name)
    return (name[: match.start()], match[0]) if match and match.start() else (name, "")


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _check(template: str, item_part: str) -> None:
    parts = item_part.split("/")
    leads_out = item_part.startswith("/") or any(part in (".", "..") for part in parts) or "\0" in item_part
    if leads_out or EXTENSION in item_part or not _PLACEHOLDER.search(item_part):
        allowed = "a relative path with {stem}, {name}, {path}, {index} or a key of the metadata; {ext} may end it"
        raise CallerError.about("name", template, allowed, f"Leave it out for {DEFAULT}.")
