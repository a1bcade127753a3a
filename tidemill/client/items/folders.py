"""Items from a folder, a pattern of names, or a prefix of an object store."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from tidemill.client.items.source import Block, batches, blocks, wrong_items
from tidemill.errors import CallerError
from tidemill.store import Stores

WILD = re.compile(r"[*?\[]")


class ItemFolder:
    """Every file under a folder, as absolute paths in the order of their names. Links to folders are not followed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.label = f"items folder {folder}"

    def __iter__(self) -> Iterator[Block]:
        return blocks(self._files())

    def _files(self) -> Iterator[str]:
        for folder, folders, files in os.walk(self.folder, onerror=self._refuse):
            folders.sort()
            yield from (path for name in sorted(files) if self._wanted(path := os.path.join(folder, name)))

    def _wanted(self, path: str) -> bool:
        return True

    def _refuse(self, error: OSError) -> None:
        raise wrong_items(
            f"{self.label}: {error.filename} cannot be read ({error.strerror}).", "Correct its permissions."
        )

    def where(self, place: int) -> str:
        return f"{self.label}, file {place + 1}"


class ItemPattern(ItemFolder):
    """Files whose paths match a pattern, as `StorePrefix` reads one."""

    def __init__(self, pattern: str) -> None:
        whole = os.path.abspath(pattern)
        root = whole[: whole.rindex("/", 0, cast("re.Match[str]", WILD.search(whole)).start())] or "/"
        if not Path(root).is_dir():
            raise wrong_items(f"items {pattern}: the folder {root} does not exist.")
        super().__init__(Path(root))
        self._pattern = re.compile(translate(whole))
        self.label = f"items {pattern}"

    def _wanted(self, path: str) -> bool:
        return bool(self._pattern.fullmatch(path))


class StorePrefix:
    """Objects of a store under a prefix or with names that match a pattern, listed as they stream.

    `*` and `?` stay within a folder, `**` crosses folders, `[...]` is a set of characters. The objects that consoles
    make for folders are not items.
    """

    def __init__(self, uri: str, stores: Stores) -> None:
        fixed = uri[: wild.start()] if (wild := WILD.search(uri)) else uri
        self._root = fixed[: fixed.rindex("/") + 1]
        if self._root.count("/") < 3:
            raise CallerError.about("items", uri, "a pattern within one bucket", "Write the bucket's name in full.")
        self._pattern = re.compile(translate(uri[len(self._root) :])) if wild else None
        self._store, self._prefix = stores.locate(self._root)
        self.label = f"items {uri}"

    def __iter__(self) -> Iterator[Block]:
        for entries, places in batches(self._matching()):
            yield Block([uri for uri, _ in entries], places, sizes=[size for _, size in entries])

    def _matching(self) -> Iterator[tuple[str, int]]:
        skip, pattern = len(self._prefix), self._pattern
        for name, size in self._objects():
            tail = name[skip:].lstrip("/") if skip else name
            if pattern is None or pattern.fullmatch(tail):
                yield self._root + tail, size

    def _objects(self) -> Iterator[tuple[str, int]]:
        """Names and sizes, without the markers of folders: `x/` of a bucket is listed as `x`, before the names that
        follow."""
        held: tuple[str, int] | None = None
        for name, size, _ in self._store.entries(self._prefix):
            if held and self._is_item(*held, followed=name.startswith(f"{held[0]}/")):
                yield held
            held = name, size
        if held and self._is_item(*held, followed=held == (self._prefix.rstrip("/"), 0)):
            yield held

    def _is_item(self, name: str, size: int, followed: bool) -> bool:
        # Some tools write a byte into a marker. Then only a look at the object tells it from one called `x`.
        return not followed or (size > 0 and self._store.size(name) is not None)

    def where(self, place: int) -> str:
        return f"{self.label}, object {place + 1}"


def translate(pattern: str) -> str:
    """A pattern of names as a regular expression: `**` crosses folders, `*` and `?` do not."""
    parts = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    words = re.split(r"(\*\*/|\*\*|\*|\?|\[!?[^\]]+\])", pattern)
    return "".join(
        parts.get(word) or (f"[{'^' * (word[1] == '!')}{word[1:-1].lstrip('!')}]" if _is_set(word) else re.escape(word))
        for word in words
    )


def _is_set(word: str) -> bool:
    return len(word) > 2 and word.startswith("[") and word.endswith("]")
