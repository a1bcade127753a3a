"""Items that are values, as texts. What a function gets of them: tests/worker/map/test_by_value.py."""

import enum
import gc
import json
import weakref
from collections import namedtuple
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as some

from tidemill.client.items.source import BLOCK_ITEMS
from tidemill.client.items.spool import Spool
from tidemill.client.items.sweep import Sweep
from tidemill.client.items.values import ItemValues, values_of, with_values
from tidemill.errors import CallerError
from tidemill.job import Item


def texts(items: Any, column=None):
    source = with_values(items, column, rows=True)
    assert isinstance(source, ItemValues)
    return [item.uri for item in Spool(None).fill(source).items()], source


@dataclass
class Point:
    x: int
    near: "Point | None" = None
    norm: float = field(init=False, default=0.0)


Pair = namedtuple("Pair", "a b")
JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False, allow_infinity=False)
    | some.text(some.characters(exclude_categories=["Cs"])),
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.text("abc"), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@given(some.lists(JSON, max_size=5))
def test_what_json_has_comes_back_as_it_was(values):
    found, source = texts([0, *values])
    assert [json.loads(text) for text in found] == [0, *values]
    assert (source.item_type, source.item_class) == ("json", None)


@pytest.mark.parametrize(
    ("first", "text", "item_type", "item_class"),
    [
        (7, "7", "json", None),
        (None, "null", "json", None),
        (numpy.float32(1.5), "1.5", "json", None),
        (numpy.bool_(True), "true", "json", None),
        ({"é": [Path("a"), (1,)]}, '{"é": ["a", [1]]}', "json", None),
        ((1, "a"), '[1, "a"]', "tuple", None),
        (Pair(1, (2,)), "[1, [2]]", None, Pair),
        (Point(1, Point(2)), '{"x": 1, "near": {"x": 2, "near": null}}', None, Point),
    ],
)
def test_the_first_value_says_what_items_are(first, text, item_type, item_class):
    (found,), source = texts([first])
    assert (found, source.item_type, source.item_class) == (text, item_type, item_class)


@pytest.mark.parametrize("items", [["a", "b"], [Path("a")], [Item(0, "a")], "list.txt", Sweep({"lr": [1]}), {"a": 1}])
def test_what_was_an_item_before_stays_one(items):
    assert with_values(items, None, rows=True) is items


def test_an_iterator_of_texts_keeps_its_first():
    assert list(with_values(iter(["a", "b"]), None, rows=True)) == ["a", "b"]
    assert list(with_values(iter([]), None, rows=True)) == []
    assert values_of([], [1]) == ()


class Colour(enum.Enum):
    RED = 1


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ([1, float("inf")], "items[1] is inf, which is not JSON: Out of range float values"),
        ([0, numpy.float64("nan")], "which is not JSON: Out of range float values"),
        ([{1}], "items[0] is {1}, which is not JSON: JSON has no value of type set"),
        ([0, b"a"], "JSON has no value of type bytes"),
        ([b"a", 0], "items[1] is 0, and the first is a bytes"),
        ([numpy.array([None])], "items[0] is an array of Python objects"),
        ([Colour.RED], "JSON has no value of type Colour"),
        ([0, numpy.zeros(2)], "JSON has no value of type ndarray"),
        ([[{"a": {None: 1}}]], "its key None is not a text"),
        ([Point(1), {"x": 1}], "items[1] is {'x': 1}, and the first is a Point"),
        ([1, "\ud800"], "which is not UTF-8"),
        ([10**5000], "items[0] is <int>, which is not JSON: Exceeds the limit (4300 digits)"),
        ([0, "x" * 70_000], "items[1] has 68 KiB as JSON, and an item may have 64 KiB"),
    ],
)
def test_what_is_not_json_is_one_sentence(items, said):
    with pytest.raises(CallerError) as raised:
        texts(items)
    assert said in str(raised.value)
    assert len(str(raised.value)) < 500


def test_a_generator_is_not_held():
    """No more of its values live than a block and its successor have."""
    alive, most = weakref.WeakSet[Any](), 0

    class Held(dict[str, int]):
        pass

    def stream():
        nonlocal most
        for n in range(4 * BLOCK_ITEMS):
            value = Held(n=n)
            alive.add(value)
            if n % BLOCK_ITEMS == 0:
                gc.collect()
                most = max(most, len(alive))
            yield value

    Held.__hash__ = object.__hash__  # type: ignore[method-assign]
    Held.__eq__ = object.__eq__  # type: ignore[method-assign]
    found, _ = texts(stream())
    assert len(found) == 4 * BLOCK_ITEMS
    assert most <= 2 * BLOCK_ITEMS


def test_of_several_lists_the_shortest_counts():
    source = values_of(range(5), iter("ab"))
    assert isinstance(source, ItemValues)
    assert (source.item_type, source.arguments) == ("arguments", 2)
    assert [item.uri for item in Spool(None).fill(source).items()] == ['[0, "a"]', '[1, "b"]']
