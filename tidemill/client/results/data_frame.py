"""A job's outcomes as a DataFrame of pandas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tidemill.client.results.export import OUTCOME_COLUMNS
from tidemill.errors import CallerError
from tidemill.ledger import Outcome

if TYPE_CHECKING:
    from pandas import DataFrame

_KINDS = {
    # Whole numbers of a table in memory need no narrow type.
    **{name: kind.replace("int32", "int64") for name, kind in OUTCOME_COLUMNS.items()},
    "exit_code": "Int64",
    "value": "object",
}
"""Column: its dtype in pandas."""


def frame_of(outcomes: Iterable[Outcome], keys: Sequence[str] | None) -> DataFrame:
    """Outcomes with their metadata as a DataFrame; see `Job.to_pandas`. `keys` are those of the metadata.

    Raises:
        CallerError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError:
        raise CallerError("pandas is not installed.", "pip install 'tidemill[pandas]'", what="pandas") from None
    columns: dict[str, list[Any]] = {name: [] for name in ("index", *_KINDS)}
    metas: dict[str, list[Any]] = {"meta": []} if keys is None else {f"meta.{key}": [] for key in keys}
    for outcome in outcomes:
        for name, cells in columns.items():
            cells.append(getattr(outcome, name))
        meta = outcome.meta or {}
        if keys is None:
            metas["meta"].append(meta)
        for key in keys or ():
            metas[f"meta.{key}"].append(meta.get(key))
    index = pandas.Index(columns.pop("index"), name="item", dtype="int64")
    typed = {name: pandas.Series(cells, index, dtype=_KINDS[name]) for name, cells in columns.items()}
    return pandas.DataFrame(typed | {name: pandas.Series(cells, index) for name, cells in metas.items()}, index)
