"""Items from a DataFrame of pandas or polars. No library is imported."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Protocol, TypeGuard

from tidemill.client.items.lists import item_column
from tidemill.client.items.source import Block, batches, wrong_items


class DataFrameLike(Protocol):
    """A DataFrame of pandas or polars."""

    @property
    def columns(self) -> Any: ...


def is_frame(items: object) -> TypeGuard[DataFrameLike]:
    """True if items are a DataFrame of pandas or polars."""
    return hasattr(items, "columns") and (hasattr(items, "itertuples") or hasattr(items, "iter_rows"))


class FrameItems:
    """Items from a DataFrame: one column is the item, the others are its metadata."""

    def __init__(self, frame: Any, column: str | None) -> None:
        self.label = f"the {type(frame).__name__}"
        self._frame = frame
        self._names = [str(name) for name in frame.columns]
        if repeated := next((name for name in self._names if self._names.count(name) > 1), None):
            raise wrong_items(f"{self.label} has the column {repeated!r} twice.", "Rename one of them.")
        self._at = item_column(self.label, self._names, column)

    def __iter__(self) -> Iterator[Block]:
        frame, at = self._frame, self._at
        rows = frame.itertuples(index=False, name=None) if hasattr(frame, "itertuples") else frame.iter_rows()
        others = [n for n in range(len(self._names)) if n != at]
        for batch, places in batches(rows):
            metas = [{self._names[n]: plain_cell(row[n]) for n in others} for row in batch] if others else None
            yield Block([row[at] for row in batch], places, metas)

    def where(self, place: int) -> str:
        return f"{self.label}, row {place}"


def plain_cell(value: Any) -> Any:
    """A cell as JSON has it: missing values as null, times in ISO 8601, NumPy's scalars as Python's."""
    if isinstance(value, float):
        return None if math.isnan(value) else float(value)
    if value is None or isinstance(value, str) or type(value).__name__ in ("NAType", "NaTType"):
        return value if isinstance(value, str) else None
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return value.item() if hasattr(value, "item") and getattr(value, "shape", None) == () else value
