"""Items from a folder, a pattern of names, or a prefix of an object store.

What is hidden, so that its name or the name of a folder above it begins with a dot, is an item only where a part of the
pattern begins with a dot, too. Shells and Python's `glob` agree (POSIX, "Patterns Used for Filename Expansion").
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from tidemill.client.items.source import Block, batches, blocks, wrong_items
from tidemill.errors import CallerError
from tidemill.store import Entry, Stores

WILD = re.compile(r"[*?\[]")


class Hiding:
    """Passes over what is hidden, and counts it.

    Attributes:
        hidden: How many files and folders.
    """

    def __init__(self, pattern: str) -> None:
        self.hidden = 0
        self._pattern_of_hidden = pattern

    def passes_over(self, path: str) -> bool:
        """True if a relative path is hidden."""
        hidden = "/." in f"/{path}"
        self.hidden += hidden
        return hidden

    def note(self) -> str | None:
        """A remark on what was passed over, if anything was."""
        if not self.hidden:
            return None
        which = "1 hidden file or folder is" if self.hidden == 1 else f"{self.hidden} hidden files and folders are"
        return f"{which} left out; a pattern with a dot, such as {self._pattern_of_hidden!r}, makes such files items."


class ItemFolder:
    """Every file under a folder that is not hidden, as absolute paths in the order of their names. Links to folders are
    not followed.

    Attributes:
        hiding: What is passed over.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.label = f"items folder {folder}"
        self.hiding = Hiding(str(folder / "**/.*"))

    def __iter__(self) -> Iterator[Block]:
        return blocks(self._files())

    def _files(self) -> Iterator[str]:
        for folder, folders, files in os.walk(self.folder, onerror=self._refuse):
            folders[:] = sorted(filter(self._enters, folders))
            yield from (path for name in sorted(files) if self._wanted(path := os.path.join(folder, name)))

    def _enters(self, name: str) -> bool:
        """True if there may be items in a folder of this name."""
        return not self.hiding.passes_over(name)

    def _wanted(self, path: str) -> bool:
        return not self.hiding.passes_over(os.path.basename(path))

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
        self._enters_hidden = "/." in whole[len(root) :]
        self.label = f"items {pattern}"

    def _enters(self, name: str) -> bool:
        return self._enters_hidden or not name.startswith(".")

    def _wanted(self, path: str) -> bool:
        return bool(self._pattern.fullmatch(path))


class StorePrefix:
    """Objects of a store under a prefix or with names that match a pattern, listed as they stream.

    `*` and `?` stay within a folder, `**` crosses folders, `[...]` is a set of characters. The objects that consoles
    make for folders are not items.

    Attributes:
        hiding: What is passed over where no pattern was given.
    """

    def __init__(self, uri: str, stores: Stores) -> None:
        fixed = uri[: wild.start()] if (wild := WILD.search(uri)) else uri
        self._root = fixed[: fixed.rindex("/") + 1]
        if self._root.count("/") < 3:
            raise CallerError.about("items", uri, "a pattern within one bucket", "Write the bucket's name in full.")
        self._pattern = re.compile(translate(uri[len(self._root) :])) if wild else None
        self._store, self._prefix = stores.locate(self._root)
        self.label = f"items {uri}"
        self.hiding = Hiding(f"{self._root}**/.*")

    def __iter__(self) -> Iterator[Block]:
        for entries, places in batches(self._matching()):
            sizes, etags = [entry.size for _, entry in entries], [entry.etag for _, entry in entries]
            yield Block([uri for uri, _ in entries], places, sizes=sizes, etags=etags)

    def _matching(self) -> Iterator[tuple[str, Entry]]:
        skip, pattern = len(self._prefix), self._pattern
        for entry in self._objects():
            tail = entry.name[skip:].lstrip("/") if skip else entry.name
            if pattern.fullmatch(tail) if pattern else not self.hiding.passes_over(tail):
                yield self._root + tail, entry

    def _objects(self) -> Iterator[Entry]:
        """Entries without the markers of folders: `x/` of a bucket is listed as `x`, before the names that
        follow."""
        held: Entry | None = None
        for entry in self._store.entries(self._prefix):
            if held and self._is_item(held, followed=entry.name.startswith(f"{held.name}/")):
                yield held
            held = entry
        if held and self._is_item(held, followed=(held.name, held.size) == (self._prefix.rstrip("/"), 0)):
            yield held

    def _is_item(self, entry: Entry, followed: bool) -> bool:
        # Some tools write a byte into a marker. Then only a look at the object tells it from one called `x`.
        return not followed or (entry.size > 0 and self._store.size(entry.name) is not None)

    def where(self, place: int) -> str:
        return f"{self.label}, object {place + 1}"


def translate(pattern: str) -> str:
    """A pattern of names as a regular expression: `**` crosses folders, `*` and `?` do not, and none of them matches
    what is hidden."""
    words = re.split(r"(\*\*/|\*\*|\*|\?|\[!?[^\]]+\])", pattern)
    expression, begins = "", True
    for word in filter(None, words):
        wild = _WILD_WORDS.get(word) or _set(word)
        guard = _NOT_HIDDEN if wild and begins and word != "**/" else ""
        expression += guard + (wild or re.escape(word))
        begins = word.endswith("/")
    return expression


_NOT_HIDDEN = r"(?!\.)"
_WILD_WORDS = {
    "**/": rf"(?:{_NOT_HIDDEN}[^/]*/)*",
    "**": rf"(?:[^/]|/{_NOT_HIDDEN})*",
    "*": "[^/]*",
    "?": "[^/]",
}


def _set(word: str) -> str | None:
    if len(word) <= 2 or not (word.startswith("[") and word.endswith("]")):
        return None
    return f"[{'^' * (word[1] == '!')}{word[1:-1].lstrip('!')}]"
