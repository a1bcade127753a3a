"""Where a job's items come from: arguments, a list, standard input, a folder, or a prefix of an object store.

A source is read once, as a stream of blocks, and never held in memory: `tidemill.client.spool` keeps what passes.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

from tidemill.errors import CallerError, StoreMissingError
from tidemill.job import Item
from tidemill.store import Stores

LINE_BYTES = 64 * 1024
"""An item with its metadata is at most as long as this: it becomes a part of a command line."""
FORMATS = ("text", "jsonl", "csv")
_BLOCK_ITEMS = 4096
_BLOCK_BYTES = 1 << 20
_SUFFIXES = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv"}
_URI = re.compile(r"^(s3|gs|file)://")
_WILD = re.compile(r"[*?\[]")
_SOURCES = "--items takes a list with one URI or path per line, a folder, a prefix, or a quoted pattern."


@dataclass(frozen=True)
class Block:
    """Some items of a source, as they were read.

    Attributes:
        uris: Not yet checked.
        places: Where each stands; `ItemSource.where` says it in words.
        metas: What is attached to each, or None where a source knows no metadata.
    """

    uris: Sequence[str]
    places: Sequence[int]
    metas: Sequence[Mapping[str, Any] | None] | None = None


class ItemSource(Protocol):
    """Items as a stream of blocks, with the words that say where each stands."""

    label: str

    def __iter__(self) -> Iterator[Block]:
        """Yields blocks."""
        ...

    def where(self, place: int) -> str:
        """A place in words, for an error message."""
        ...


def open_items(
    items: str | Path | Iterable[str | Item], *, form: str | None = None, column: str | None = None, stores: Stores
) -> ItemSource:
    """A source from what a caller gave.

    Args:
        items: Path of a list or a folder, `-` for standard input, a URI that is a prefix (ends with `/`), a pattern
            (`s3://bucket/prefix/**.jpg`) or a list in a store, or the items themselves.
        form: `text`, `jsonl` or `csv`; None goes by the name's ending.
        column: The column of a CSV list that holds the URI.
        stores: Opens the stores of URIs.

    Raises:
        CallerError: It does not exist, cannot be read, or the format does not fit.
    """
    if form is not None and form not in FORMATS:
        raise CallerError.about("items_format", form, " or ".join(FORMATS), "Leave it out: it follows from the name.")
    if not isinstance(items, (str, Path)):
        return ItemList(_checked(items))
    name = str(items)
    if name == "-":
        return _lines(cast(BinaryIO, sys.stdin.buffer), "standard input", name, form, column)
    if _URI.match(name):
        return _from_store(name, form, column, stores)
    path = Path(name)
    if path.is_dir():
        return ItemFolder(path)
    if _WILD.search(name) and not path.exists():
        return ItemPattern(name)
    return _lines(_opened(path), f"items file {path}", name, form, column)


def _checked(items: Any) -> Iterable[str | Item]:
    """Refuse what yields something else than items when it is iterated."""
    kind = type(items).__name__
    if hasattr(items, "columns"):
        raise CallerError(
            f"items is a {kind}.", "Give the column that holds the items, or a list of tidemill.Item.", what="items"
        )
    if isinstance(items, (Mapping, bytes)) or not isinstance(items, Iterable):
        raise CallerError(
            f"items is a {kind}.",
            "Give a list of URIs or tidemill.Item, or the path of a list or folder.",
            what="items",
        )
    return items


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise CallerError(f"{path} does not exist.", _SOURCES) from None
    except OSError as error:
        raise CallerError(f"{path} cannot be read: {error.strerror}.", _SOURCES) from None


def _lines(stream: BinaryIO, label: str, name: str, form: str | None, column: str | None) -> ItemSource:
    form = form or _SUFFIXES.get(Path(name).suffix.lower(), "csv" if column else "text")
    if column is not None and form != "csv":
        raise CallerError(
            f"items_column is {column!r}, but {label} is read as {form}, and only CSV has columns.",
            "Leave it out.",
            what="items_column",
        )
    if form == "csv":
        return CsvTable(stream, label, column)
    return JsonLines(stream, label) if form == "jsonl" else TextLines(stream, label)


def _from_store(uri: str, form: str | None, column: str | None, stores: Stores) -> ItemSource:
    if uri.endswith("/") or _WILD.search(uri):
        return StorePrefix(uri, stores)
    if form is None and column is None and Path(uri).suffix.lower() not in (*_SUFFIXES, ".txt", ".lst"):
        raise CallerError.about(
            "items",
            uri,
            "a prefix that ends with /, a pattern with * or **, or a list (.txt, .jsonl, .csv)",
            "A single item is an argument: leave out --items.",
        )
    spool = tempfile.NamedTemporaryFile(suffix=Path(uri).suffix)  # noqa: SIM115 - lives as long as its source
    store, name = stores.locate(uri)
    try:
        store.download(name, Path(spool.name))
    except StoreMissingError:
        raise CallerError(f"{uri} does not exist.", _SOURCES) from None
    return _lines(cast(BinaryIO, spool), f"items file {uri}", uri, form, column)


class ItemList:
    """Items given one by one: URIs, or `Item`s with metadata (their own index is not read)."""

    def __init__(self, items: Iterable[str | Item], label: str = "items") -> None:
        self._items = items
        self.label = label

    def __iter__(self) -> Iterator[Block]:
        source, start = iter(self._items), 0
        while batch := list(islice(source, _BLOCK_ITEMS)):
            places = range(start, start + len(batch))
            start += len(batch)
            if any(isinstance(item, Item) for item in batch):
                full = [item if isinstance(item, Item) else Item(0, item) for item in batch]
                yield Block([item.uri for item in full], places, [item.meta for item in full])
            else:
                yield Block(cast("list[str]", batch), places)

    def where(self, place: int) -> str:
        """`items[3]`."""
        return f"{self.label}[{place}]"


class _Lines:
    """Lines of a UTF-8 list. Empty lines are no items; Windows line ends and a BOM are no part of one."""

    def __init__(self, stream: BinaryIO, label: str) -> None:
        self._stream = stream
        self.label = label

    def where(self, place: int) -> str:
        """`items file tiles.txt, line 3`."""
        return f"{self.label}, line {place}"

    def _blocks(self) -> Iterator[tuple[list[str], Sequence[int]]]:
        """Lines that are not empty, with their numbers."""
        number, rest = 1, b""
        while data := self._stream.read(_BLOCK_BYTES):
            if number == 1 and not rest:
                data = self._without_mark(data)
            whole, newline, rest = (rest + data).rpartition(b"\n")
            if newline:
                lines = whole.split(b"\n")
                yield self._decoded(lines, number)
                number += len(lines)
            if len(rest) > LINE_BYTES:
                raise self._too_long(number)
        if rest:
            yield self._decoded([rest], number)

    def _without_mark(self, data: bytes) -> bytes:
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise CallerError(f"{self.label} is UTF-16.", "Save the list as UTF-8 text, one URI or path a line.")
        return data.removeprefix(b"\xef\xbb\xbf")

    def _decoded(self, lines: list[bytes], first: int) -> tuple[list[str], Sequence[int]]:
        if max(map(len, lines)) > LINE_BYTES:
            raise self._too_long(first + next(n for n, line in enumerate(lines) if len(line) > LINE_BYTES))
        try:
            text = b"\n".join(lines).decode()
        except UnicodeDecodeError:
            raise self._not_utf8(lines, first) from None
        texts = text.split("\n")
        if "\r" in text:
            texts = [line.rstrip("\r") for line in texts]
        if all(map(str.strip, texts)):
            return texts, range(first, first + len(texts))
        kept = [n for n, text in enumerate(texts) if text.strip()]
        return [texts[n] for n in kept], [first + n for n in kept]

    def _too_long(self, place: int) -> CallerError:
        return CallerError(f"{self.where(place)} is longer than {LINE_BYTES} bytes.", "Give one item a line.")

    def _not_utf8(self, lines: list[bytes], first: int) -> CallerError:
        for place, line in enumerate(lines, start=first):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                return CallerError(
                    f"{self.where(place)} is not UTF-8 (byte {line[error.start]:#04x} at column {error.start + 1}).",
                    "Save the list as UTF-8 text, one URI or path a line.",
                )
        raise AssertionError("unreachable")


class TextLines(_Lines):
    """A list with one URI or path a line."""

    def __iter__(self) -> Iterator[Block]:
        for texts, places in self._blocks():
            yield Block(texts, places)


class JsonLines(_Lines):
    """A list of JSON lines: a text, or an object whose key `uri` is the item and whose other keys are its metadata."""

    def __iter__(self) -> Iterator[Block]:
        for texts, places in self._blocks():
            pairs = [self._pair(text, place) for text, place in zip(texts, places, strict=True)]
            yield Block([uri for uri, _ in pairs], places, [meta for _, meta in pairs])

    def _pair(self, text: str, place: int) -> tuple[str, dict[str, Any] | None]:
        try:
            value = json.loads(text, parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            raise CallerError(f"{self.where(place)} is not JSON ({error}).", "Give one JSON value a line.") from None
        if isinstance(value, str):
            return value, None
        if not isinstance(value, dict) or not isinstance(value.get("uri"), str):
            raise CallerError(
                f'{self.where(place)} has no text under the key "uri"; allowed: {{"uri": "s3://...", ...}} or a text.'
            )
        return value.pop("uri"), value or None


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


class CsvTable:
    """A CSV list with a header (RFC 4180): one column is the item, the others are its metadata, as texts."""

    def __init__(self, stream: BinaryIO, label: str, column: str | None) -> None:
        self._stream, self._column = stream, column
        self.label = label
        csv.field_size_limit(LINE_BYTES)

    def where(self, place: int) -> str:
        """`items file tiles.csv, line 3`."""
        return f"{self.label}, line {place}"

    def __iter__(self) -> Iterator[Block]:
        text = io.TextIOWrapper(self._stream, encoding="utf-8-sig", newline="")
        rows = csv.reader((), strict=True)
        try:
            first = text.readline()
            # Spreadsheets write semicolons where the comma is the decimal sign.
            delimiter = next((mark for mark in ",;\t" if mark in first), ",")
            rows = csv.reader(chain([first] if first else (), text), strict=True, delimiter=delimiter)
            header = next(rows, [])
            at = self._position(header)
            while batch := list(islice(self._rows(rows, header), _BLOCK_ITEMS)):
                yield self._block(batch, header, at)
        except UnicodeDecodeError as error:
            where = self.where(rows.line_num + 1)
            raise CallerError(f"{where} or later is not UTF-8 ({error.reason}).", "Save the list as UTF-8.") from None
        except csv.Error as error:
            raise CallerError(f"{self.where(rows.line_num)} is not CSV ({error}).", "Mend the list.") from None

    def _rows(self, rows: Any, header: list[str]) -> Iterator[tuple[int, list[str]]]:
        for row in rows:
            if not any(row):
                continue
            if len(row) != len(header):
                raise CallerError(
                    f"{self.where(rows.line_num)} has {len(row)} fields; the header has {len(header)}.",
                    "Mend the list.",
                )
            yield rows.line_num, row

    def _position(self, header: list[str]) -> int:
        names = ", ".join(header)
        column = self._column or ("uri" if "uri" in header else header[0] if len(header) == 1 else None)
        if column is None or column not in header:
            problem = f"{self.label} has no column {column!r}" if column else f"{self.label}: which column is the item?"
            raise CallerError(f"{problem} Its columns: {names or 'none'}.", "Name one with --items-column.")
        return header.index(column)

    def _block(self, batch: list[tuple[int, list[str]]], header: list[str], at: int) -> Block:
        others = [n for n in range(len(header)) if n != at]
        metas = [{header[n]: row[n] for n in others} for _, row in batch] if others else None
        return Block([row[at] for _, row in batch], [place for place, _ in batch], metas)


class ItemFolder:
    """Every file under a folder, as absolute paths in the order of their names. Links to folders are not followed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()
        self.label = f"items folder {folder}"

    def __iter__(self) -> Iterator[Block]:
        files, start = self._files(), 0
        while batch := list(islice(files, _BLOCK_ITEMS)):
            yield Block(batch, range(start, start + len(batch)))
            start += len(batch)

    def _files(self) -> Iterator[str]:
        for folder, folders, files in os.walk(self._folder, onerror=self._refuse):
            folders.sort()
            yield from (path for name in sorted(files) if self._wanted(path := os.path.join(folder, name)))

    def _wanted(self, path: str) -> bool:
        return True

    def _refuse(self, error: OSError) -> None:
        raise CallerError(f"{self.label}: {error.filename} cannot be read ({error.strerror}).", "Mend its permissions.")

    def where(self, place: int) -> str:
        """`items folder photos, file 3`."""
        return f"{self.label}, file {place + 1}"


class ItemPattern(ItemFolder):
    """Files whose paths match a pattern, as `StorePrefix` reads one."""

    def __init__(self, pattern: str) -> None:
        whole = os.path.abspath(pattern)
        root = whole[: whole.rindex("/", 0, cast("re.Match[str]", _WILD.search(whole)).start())] or "/"
        if not Path(root).is_dir():
            raise CallerError(f"items {pattern}: the folder {root} does not exist.")
        super().__init__(Path(root))
        self._pattern = re.compile(translate(whole))
        self.label = f"items {pattern}"

    def _wanted(self, path: str) -> bool:
        return bool(self._pattern.fullmatch(path))


class StorePrefix:
    """Objects of a store under a prefix or with names that match a pattern, listed as they stream.

    `*` and `?` stay within a folder, `**` crosses folders, `[...]` is a set of characters. The objects that consoles
    make for folders are no items.
    """

    def __init__(self, uri: str, stores: Stores) -> None:
        fixed = uri[: wild.start()] if (wild := _WILD.search(uri)) else uri
        self._root = fixed[: fixed.rindex("/") + 1]
        if self._root.count("/") < 3:
            raise CallerError.about("items", uri, "a pattern within one bucket", "Write the bucket's name in full.")
        self._pattern = re.compile(translate(uri[len(self._root) :])) if wild else None
        self._store, self._prefix = stores.locate(self._root)
        self.label = f"items {uri}"

    def __iter__(self) -> Iterator[Block]:
        found, start = self._matching(), 0
        while batch := list(islice(found, _BLOCK_ITEMS)):
            yield Block(batch, range(start, start + len(batch)))
            start += len(batch)

    def _matching(self) -> Iterator[str]:
        skip, pattern = len(self._prefix), self._pattern
        for name in self._objects():
            tail = name[skip:].lstrip("/") if skip else name
            if pattern is None or pattern.fullmatch(tail):
                yield self._root + tail

    def _objects(self) -> Iterator[str]:
        """Names, without the markers of folders: `x/` of a bucket is listed as `x`, before the names that follow."""
        held: tuple[str, int] | None = None
        for name, size, _ in self._store.entries(self._prefix):
            if held and self._is_item(*held, followed=name.startswith(f"{held[0]}/")):
                yield held[0]
            held = name, size
        if held and self._is_item(*held, followed=held == (self._prefix.rstrip("/"), 0)):
            yield held[0]

    def _is_item(self, name: str, size: int, followed: bool) -> bool:
        # Some tools write a byte into a marker. Then only a look at the object tells it from one called `x`.
        return not followed or (size > 0 and self._store.size(name) is not None)

    def where(self, place: int) -> str:
        """`items s3://raw/**.jpg, object 3`."""
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
