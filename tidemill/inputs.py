"""Named inputs: the files of a store behind a URI of a job's `inputs`. Workers fetch them, submits look at them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tidemill import layout
from tidemill.chain import SCHEME, JobFiles
from tidemill.errors import DamagedError, StoreMissingError
from tidemill.store import Entry, Store, Stores
from tidemill.tree import Tree, TreeFile

MAX_FILES = 200_000
"""Files of a named input."""


class Source(NamedTuple):
    """A named input.

    Attributes:
        store: Where its objects are.
        tree: Its files; a SHA-256 that has not been computed yet is unknown.
        single: It is one file, and not a folder with one.
        lasting: The same URI always means the same content.
    """

    store: Store
    tree: Tree
    single: bool
    lasting: bool


def read_source(stores: Stores, home: Store, uri: str) -> Source:
    """Look up a named input, without reading its bytes.

    Args:
        stores: Any store that a URI may name.
        home: The job store.
        uri: A folder that was uploaded, an object, a prefix that ends with a slash, or what another job has left.

    Raises:
        StoreMissingError: There is nothing.
        DamagedError: It has too many files, or is not what a submit uploads.
        CallerError: It is none of these.
    """
    if uri.startswith(SCHEME):
        files = JobFiles(stores).find(uri)
        # The other job may be retried.
        return Source(files.store, files.tree, files.single, lasting=False)
    own = uri.removeprefix(f"{home.uri}/{layout.UPLOADS}/")
    if own.startswith("trees/"):
        name = f"{layout.UPLOADS}/{own}"
        return Source(home, Tree.decode(home.get(name), home.uri_of(name)), single=False, lasting=True)
    store, name = stores.locate(uri)
    if uri.endswith("/"):
        return Source(store, Tree(tuple(_below(store, name, uri))), single=False, lasting=False)
    size = store.size(name)
    if size is None:
        raise StoreMissingError(f"{uri} does not exist.")
    file = TreeFile(name.rpartition("/")[2], size, None, name)
    return Source(store, Tree((file,)), single=True, lasting=own != uri)


def _below(store: Store, prefix: str, uri: str) -> Iterator[TreeFile]:
    count, skip = 0, len(prefix.rstrip("/")) + 1 if prefix.strip("/") else 0
    for entry in _without_folders(store.entries(prefix)):
        count += 1
        if count > MAX_FILES:
            raise DamagedError(f"{uri} has more than {MAX_FILES} objects.", "Pack them, or make them items.")
        yield TreeFile(entry.name[skip:], entry.size, None, entry.name)
    if not count:
        raise StoreMissingError(f"There is nothing below {uri}.")


def _without_folders(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Objects without the empty ones that consoles make for folders: `x/` is listed as `x`, before what follows."""
    held: Entry | None = None
    for entry in entries:
        if held and not (held.size == 0 and entry.name.startswith(f"{held.name}/")):
            yield held
        held = entry
    if held:
        yield held
