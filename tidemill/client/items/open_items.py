"""Where a job's items come from: arguments, a list, standard input, a folder, or a prefix of an object store.

A source is read once, as a stream of blocks, and never held in memory: `tidemill.client.items.spool` keeps what passes.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

from tidemill.client.items.folders import WILD, ItemFolder, ItemPattern, StorePrefix
from tidemill.client.items.frames import FrameItems, is_frame
from tidemill.client.items.lists import CsvTable, JsonLines, TextLines
from tidemill.client.items.source import Block, ItemSource, blocks, wrong_items
from tidemill.client.items.values import ItemValues
from tidemill.errors import CallerError, StoreMissingError, shown
from tidemill.job import Item
from tidemill.store import Stores

FORMATS = ("text", "jsonl", "csv")
_SUFFIXES = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv"}
_URI = re.compile(r"^(s3|gs|file)://")
_SOURCES = "`items` takes a list with one URI or path per line, a folder, a prefix, or a quoted pattern."


def open_items(
    items: Any,
    *,
    form: str | None = None,
    column: str | None = None,
    stores: Stores,
) -> ItemSource:
    """A source from what a caller gave; see `Pipeline.submit` for `items`, `items_format` and `items_column`.

    Raises:
        CallerError: It does not exist, cannot be read, or the format does not fit.
    """
    if form is not None and form not in FORMATS:
        raise CallerError.about("items_format", form, " or ".join(FORMATS), "Leave it out: it follows from the name.")
    if not isinstance(items, (str, Path)):
        return (
            items
            if isinstance(items, ItemValues)
            else FrameItems(items, column)
            if is_frame(items)
            else ItemList(_checked(items))
        )
    name = str(items)
    if name == "-":
        return _lines(cast(BinaryIO, sys.stdin.buffer), "standard input", name, form, column)
    if _URI.match(name):
        return _from_store(name, form, column, stores)
    path = Path(name)
    if path.is_dir():
        return ItemFolder(path)
    if WILD.search(name) and not path.exists():
        return ItemPattern(name)
    return _lines(_opened(path), f"items file {path}", name, form, column)


def _checked(items: Any) -> Iterable[str | Path | Item]:
    """Refuse what would yield something other than items."""
    kind = type(items).__name__
    if hasattr(items, "columns"):
        raise wrong_items(f"items is a {kind}.", "Give a DataFrame of pandas or polars, or a list of tidemill.Item.")
    if isinstance(items, (Mapping, bytes)) or not isinstance(items, Iterable):
        advice = (
            "Give a list (of URIs or tidemill.Item; for a function, of values too), or the path of a list or folder."
        )
        raise wrong_items(f"items is {shown(items)}.", advice)
    return items


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise wrong_items(f"{path} does not exist.", _SOURCES) from None
    except OSError as error:
        raise wrong_items(f"{path} cannot be read: {error.strerror}.", _SOURCES) from None


def _lines(stream: BinaryIO, label: str, name: str, form: str | None, column: str | None) -> ItemSource:
    form = form or _SUFFIXES.get(Path(name).suffix.lower(), "csv" if column else "text")
    if column is not None and form != "csv":
        raise wrong_items(
            f"items_column is {column!r}, but {label} is read as {form}, and only CSV has columns.",
            "Leave it out.",
            what="items_column",
        )
    if form == "csv":
        return CsvTable(stream, label, column)
    return JsonLines(stream, label) if form == "jsonl" else TextLines(stream, label)


def _from_store(uri: str, form: str | None, column: str | None, stores: Stores) -> ItemSource:
    if uri.endswith("/") or WILD.search(uri):
        return StorePrefix(uri, stores)
    if form is None and column is None and Path(uri).suffix.lower() not in (*_SUFFIXES, ".txt", ".lst"):
        raise CallerError.about(
            "items",
            uri,
            "a prefix that ends with /, a pattern with * or **, or a list (.txt, .jsonl, .csv)",
            "Give a single item in a list.",
        )
    spool = tempfile.NamedTemporaryFile(suffix=Path(uri).suffix)  # noqa: SIM115 - lives as long as its source
    store, name = stores.locate(uri)
    try:
        store.download(name, Path(spool.name))
    except StoreMissingError:
        raise wrong_items(f"{uri} does not exist.", _SOURCES) from None
    return _lines(cast(BinaryIO, spool), f"items file {uri}", uri, form, column)


class ItemList:
    """Items given one by one: URIs, paths, or `Item`s with metadata (their own index is not read)."""

    def __init__(self, items: Iterable[str | Path | Item], label: str = "items") -> None:
        self._items = items
        self.label = label

    def __iter__(self) -> Iterator[Block]:
        for block in blocks(cast("Iterable[str]", self._items)):
            if any(isinstance(item, (Item, Path)) for item in block.uris):
                texts = (str(item) if isinstance(item, Path) else item for item in block.uris)
                full = [item if isinstance(item, Item) else Item(0, item) for item in texts]
                block = Block([item.uri for item in full], block.places, [item.meta for item in full])  # noqa: PLW2901
            yield block

    def where(self, place: int) -> str:
        return f"{self.label}[{place}]"
