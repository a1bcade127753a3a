"""Items that are values: numbers, dicts, tuples and all else that JSON has, as the texts that a manifest holds."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import PurePath
from typing import Any

from tidemill.client.items.source import Block, batches, wrong_items
from tidemill.client.items.sweep import Sweep
from tidemill.errors import one_line, shown
from tidemill.job import Item

_GIVE = "Give JSON values (numbers, texts, lists, dicts with texts as keys), tuples, dataclasses or Paths."


class ItemValues:
    """Items of which the first is neither a text nor a path. An item's text is the value as JSON.

    A function gets a value as JSON keeps it. Tuples and objects of a dataclass or named tuple are made again if all
    items are of the same type; within an item tuples become lists, and such objects dicts and lists.

    Attributes:
        item_type: See `JobSpec.item_type`; None where a class says it.
        item_class: The class of the items, where they are objects of a dataclass or named tuple.
    """

    def __init__(self, first: Any, rest: Iterable[Any], item_type: str | None = None) -> None:
        self.label = "items"
        self._values = chain([first], rest)
        kind = type(first)
        made_again = dataclasses.is_dataclass(kind) or (isinstance(first, tuple) and hasattr(kind, "_fields"))
        self.item_class = kind if made_again else None
        self.item_type = item_type or (None if made_again else "tuple" if kind is tuple else "json")

    def __iter__(self) -> Iterator[Block]:
        same = tuple if self.item_type == "tuple" else self.item_class
        for values, places in batches(self._values):
            yield Block([self._text(value, place, same) for value, place in zip(values, places, strict=True)], places)

    def where(self, place: int) -> str:
        return f"{self.label}[{place}]"

    def _text(self, value: Any, place: int, same: type | None) -> str:
        if same is not None and type(value) is not same:
            problem = f"{self.where(place)} is {shown(value)}, and the first is a {same.__name__}."
            raise wrong_items(problem, "Give items of one type.")
        try:
            return _TEXT(_plain(value))
        except (TypeError, ValueError) as error:
            problem = f"{self.where(place)} is {shown(value)}, which is not JSON: {one_line(error)}."
        except RecursionError:
            problem = f"{self.where(place)} is a {type(value).__name__} that holds itself, or is nested too deeply."
        raise wrong_items(problem, _GIVE)


def with_values(items: Any) -> Any:
    """Items as they were given, or as `ItemValues` if the first of them is a value."""
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
        odd = next((key for key in value if not isinstance(key, str)), None)
        if odd is not None:
            raise TypeError(f"its key {odd!r} is not a text")
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
