"""Items from a list: text, JSON lines or CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any, BinaryIO

from tidemill.client.items.source import BLOCK_ITEMS, LINE_BYTES, Block, wrong_items
from tidemill.errors import CallerError

_BLOCK_BYTES = 1 << 20
_UTF8 = "Save the list as UTF-8 text with one URI or path per line."
_AN_ITEM = "If the file is itself an item, give its folder."


class _List:
    def __init__(self, stream: BinaryIO, label: str) -> None:
        self._stream = stream
        self.label = label

    def where(self, place: int) -> str:
        return f"{self.label}, line {place}"


class _Utf8Lines(_List):
    """Lines of a UTF-8 list. Empty lines are not items; Windows line ends and a BOM are not part of one."""

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
            raise wrong_items(f"{self.label} is UTF-16.", _UTF8)
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
        fix = f"Give one item per line. {_AN_ITEM}"
        return wrong_items(f"{self.where(place)} is longer than {LINE_BYTES} bytes.", fix)

    def _not_utf8(self, lines: list[bytes], first: int) -> CallerError:
        for place, line in enumerate(lines, start=first):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                return wrong_items(
                    f"{self.where(place)} is not UTF-8 (byte {line[error.start]:#04x} at column {error.start + 1}).",
                    f"{_UTF8} {_AN_ITEM}",
                )
        raise AssertionError("unreachable")


class TextLines(_Utf8Lines):
    """A list with one URI or path per line."""

    def __iter__(self) -> Iterator[Block]:
        for texts, places in self._blocks():
            yield Block(texts, places)


class JsonLines(_Utf8Lines):
    """A list of JSON lines: a text, or an object whose key `uri` is the item and whose other keys are its metadata."""

    def __iter__(self) -> Iterator[Block]:
        for texts, places in self._blocks():
            pairs = [self._pair(text, place) for text, place in zip(texts, places, strict=True)]
            yield Block([uri for uri, _ in pairs], places, [meta for _, meta in pairs])

    def _pair(self, text: str, place: int) -> tuple[str, dict[str, Any] | None]:
        try:
            value = json.loads(text, parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            raise wrong_items(f"{self.where(place)} is not JSON ({error}).", "Give one JSON value per line.") from None
        if isinstance(value, str):
            return value, None
        if not isinstance(value, dict) or not isinstance(value.get("uri"), str):
            raise wrong_items(
                f'{self.where(place)} has no text under the key "uri"; allowed: {{"uri": "s3://...", ...}} or a text.'
            )
        return value.pop("uri"), value or None


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def item_column(label: str, names: list[str], column: str | None) -> int:
    """Which of a table's columns is the item: the one that is asked for, `uri`, or the only one."""
    column = column or ("uri" if "uri" in names else names[0] if len(names) == 1 else None)
    if column is None or column not in names:
        problem = f"{label} has no column {column!r}." if column else f"{label}: which column is the item?"
        raise wrong_items(f"{problem} Its columns: {', '.join(names) or 'none'}.", "Name one: `items_column`.")
    return names.index(column)


class CsvTable(_List):
    """A CSV list with a header (RFC 4180): one column is the item, the others are its metadata, as texts."""

    def __init__(self, stream: BinaryIO, label: str, column: str | None) -> None:
        super().__init__(stream, label)
        self._column = column
        csv.field_size_limit(LINE_BYTES)

    def __iter__(self) -> Iterator[Block]:
        text = io.TextIOWrapper(self._stream, encoding="utf-8-sig", newline="")
        rows = csv.reader((), strict=True)
        try:
            first = text.readline()
            # Spreadsheets write semicolons where the comma is the decimal sign.
            delimiter = next((mark for mark in ",;\t" if mark in first), ",")
            rows = csv.reader(chain([first] if first else (), text), strict=True, delimiter=delimiter)
            header = next(rows, [])
            at = item_column(self.label, header, self._column)
            while batch := list(islice(self._rows(rows, header), BLOCK_ITEMS)):
                yield self._block(batch, header, at)
        except UnicodeDecodeError as error:
            where = self.where(rows.line_num + 1)
            raise wrong_items(f"{where} or later is not UTF-8 ({error.reason}).", "Save the list as UTF-8.") from None
        except csv.Error as error:
            raise wrong_items(f"{self.where(rows.line_num)} is not CSV ({error}).", "Correct the list.") from None

    def _rows(self, rows: Any, header: list[str]) -> Iterator[tuple[int, list[str]]]:
        for row in rows:
            if not any(row):
                continue
            if len(row) != len(header):
                raise wrong_items(
                    f"{self.where(rows.line_num)} has {len(row)} fields; the header has {len(header)}.",
                    "Correct the list.",
                )
            yield rows.line_num, row

    def _block(self, batch: list[tuple[int, list[str]]], header: list[str], at: int) -> Block:
        others = [n for n in range(len(header)) if n != at]
        metas = [{header[n]: row[n] for n in others} for _, row in batch] if others else None
        return Block([row[at] for _, row in batch], [place for place, _ in batch], metas)
