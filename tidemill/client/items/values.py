"""Items that are values: numbers, dicts, tuples and all else that JSON has, as the texts that a manifest holds."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
import weakref
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path, PurePath
from typing import Any

from tidemill.client.items.frames import is_frame, plain_cell
from tidemill.client.items.source import LINE_BYTES, Block, batches, wrong_items
from tidemill.client.items.sweep import Sweep
from tidemill.errors import one_line, shown
from tidemill.figures import file_size
from tidemill.folders import temporary_folder
from tidemill.job import Item

_BYTES = (bytes, bytearray)
_GIVE = (
    "Give JSON values (numbers, texts, lists, dicts with texts as keys), tuples, dataclasses or Paths; or only "
    "arrays of NumPy, or only bytes. What is larger goes into files: give their paths, and a parameter named `input` "
    "is the path of a copy."
)


class ItemValues:
    """Items of which the first is neither a text nor a path. An item's text is the value as JSON.

    A function gets a value as JSON keeps it. Tuples and objects of a dataclass or named tuple are made again if all
    items are of the same type; within an item tuples become lists, and such objects dicts and lists.

    Attributes:
        item_type: See `JobSpec.item_type`; None where a class says it.
        item_class: The class of the items, where they are objects of a dataclass or named tuple.
        arguments: How many arguments of a function an item is.
        folder: Where arrays and bytes are files until they are uploaded, as long as this object lives; else empty.
    """

    def __init__(self, first: Any, rest: Iterable[Any], item_type: str | None = None) -> None:
        self.label = "items"
        self._values = chain([first], rest)
        kind = type(first)
        named = dataclasses.is_dataclass(kind) or (isinstance(first, tuple) and hasattr(kind, "_fields"))
        self.item_class = kind if named and item_type is None else None
        self.item_type = item_type or (None if named else "tuple" if kind is tuple else "json")
        self.folder = ""
        if is_large(first):
            self.item_type, self.folder = "file", str(temporary_folder("items"))
            weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        self._same = self.item_class or (kind if self.item_type in ("tuple", "file") else None)
        self.arguments = len(first) if item_type == "arguments" else 1

    def __iter__(self) -> Iterator[Block]:
        for values, places in batches(self._values):
            yield Block([self._text(value, place) for value, place in zip(values, places, strict=True)], places)

    def where(self, place: int) -> str:
        return f"{self.label}[{place}]"

    def _text(self, value: Any, place: int) -> str:
        if self._same is not None and type(value) is not self._same:
            problem = f"{self.where(place)} is {shown(value)}, and the first is a {self._same.__name__}."
            raise wrong_items(problem, "Give items of one type.")
        if self.folder:
            return self._file(value, place)
        try:
            text = _TEXT(_plain(value))
            if len(text) <= LINE_BYTES:
                return text
            size = file_size(len(text))
            problem = f"{self.where(place)} has {size} as JSON, and an item may have {LINE_BYTES >> 10} KiB."
        except (TypeError, ValueError) as error:
            problem = f"{self.where(place)} is {shown(value)}, which is not JSON: {one_line(error)}."
        except RecursionError:
            problem = f"{self.where(place)} is a {type(value).__name__} that holds itself, or is nested too deeply."
        raise wrong_items(problem, _GIVE)

    def _file(self, value: Any, place: int) -> str:
        """Write an array or bytes into a file; returns its path, by which it is uploaded."""
        path = f"{self.folder}/{place}.{'bin' if isinstance(value, _BYTES) else 'npy'}"
        if isinstance(value, _BYTES):
            Path(path).write_bytes(value)
        elif value.dtype.hasobject:
            raise wrong_items(f"{self.where(place)} is an array of Python objects.", "Give it another dtype.")
        else:
            sys.modules["numpy"].save(path, value, allow_pickle=False)
        return path


def is_large(value: Any) -> bool:
    """True for what travels in a file of its own: bytes and arrays of NumPy."""
    numpy = sys.modules.get("numpy")
    return isinstance(value, _BYTES) or (numpy is not None and type(value) is numpy.ndarray and value.shape != ())


def values_of(*lists: Any) -> ItemValues | tuple[()]:
    """Items for a function of several arguments: as many as the shortest of the lists has.

    Raises:
        CallerError: One of them is no list of values.
    """
    for one in lists:
        if isinstance(one, (str, PurePath, bytes, Mapping)) or hasattr(one, "columns") or not isinstance(one, Iterable):
            fix = "Open it first: `map` calls the function with a value of each list, such as map(f, [1, 2], [3, 4])."
            raise wrong_items(f"items is {shown(one)}, one of several lists, and it is no list of values.", fix)
    together = zip(*lists, strict=False)
    return next((ItemValues(first, together, "arguments") for first in together), ())


def rows_of(table: Any, column: str | None) -> Iterator[dict[str, Any]] | None:
    """The rows of a table of pandas, polars or pyarrow as dicts; None where a column of it is the item. No library is
    imported."""
    names = [str(name) for name in getattr(table, "column_names", None) or table.columns]
    if hasattr(table, "to_batches"):
        rows = (row.values() for batch in table.to_batches() for row in batch.to_pylist())
    elif column is not None or "uri" in names or len(names) == 1 or len(set(names)) < len(names):
        return None
    else:
        rows = table.itertuples(index=False, name=None) if hasattr(table, "itertuples") else table.iter_rows()
    return ({name: plain_cell(cell) for name, cell in zip(names, row, strict=True)} for row in rows)


def with_values(items: Any, column: str | None, *, rows: bool) -> Any:
    """Items as they were given, or as `ItemValues` if the first of them is a value.

    Args:
        items: See `JobRequest`.
        column: The column of a table that is the item.
        rows: Whether the rows of a table without such a column are items.
    """
    if rows and (is_frame(items) or hasattr(items, "to_batches")) and (found := rows_of(items, column)) is not None:
        items = found
    known = isinstance(items, (str, PurePath, Mapping, bytes, Sweep, ItemValues)) or hasattr(items, "columns")
    if known or not isinstance(items, Iterable):
        return items
    rest = iter(items)
    for first in rest:
        if not isinstance(first, (str, PurePath, Item)):
            return ItemValues(first, rest)
        return chain([first], rest) if rest is items else items
    return ()


def fields_of(items: object) -> dict[str, Any]:
    """Fields of the job that follow from its items: a sweep's command may name hyperparameters. Combinations and values
    are not fetched."""
    if isinstance(items, Sweep):
        return {"placeholders": items.names, "stage_input": False}
    return {"stage_input": False} if isinstance(items, ItemValues) else {}


def _plain(value: Any) -> Any:
    """A value in the types that JSON has."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"its key {key!r} is not a text")
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if not isinstance(value, type) and dataclasses.is_dataclass(value):
        return {one.name: _plain(getattr(value, one.name)) for one in dataclasses.fields(value) if one.init}
    if isinstance(value, PurePath):
        return str(value)
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        return _plain(value.item())
    raise TypeError(f"JSON has no value of type {type(value).__name__}")


_TEXT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(", ", ": ")).encode
