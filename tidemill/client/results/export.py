"""Outcomes as files: JSON lines, CSV, or Parquet where pyarrow is installed."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from tidemill.errors import CallerError
from tidemill.job import Item
from tidemill.ledger import Ledger, Outcome
from tidemill.ledger.outcome_items import paired

FORMATS = ("jsonl", "csv", "parquet")
ROWS_A_GROUP = 50_000
OUTCOME_COLUMNS = {
    "uri": "string",
    "status": "string",
    "reason": "string",
    "exit_code": "int32",
    "attempts": "int32",
    "reclaims": "int32",
    "wall_seconds": "float64",
    "cpu_seconds": "float64",
    "peak_memory_mib": "float64",
    "peak_gpu_memory_mib": "float64",
    "gpu_percent": "float64",
    "output": "string",
    "error": "string",
    "value": "string",
    "value_file": "string",
    "origin": "string",
}
"""Columns of a table of outcomes after the index, with their types."""
_COLUMNS = {"index": "int64", **OUTCOME_COLUMNS, "meta": "string"}
MOST_KEYS = 1000
"""Columns of metadata; with more keys than that, CSV has one column of JSON."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How a cell begins that a spreadsheet may run: https://owasp.org/www-community/attacks/CSV_Injection"""

_NUMBER = re.compile(r"[+-]?[0-9]+([.,][0-9]+)?([eE][+-]?[0-9]+)?")


def outcomes_of(ledger: Ledger, *, failed_only: bool, meta: bool) -> Iterator[Outcome]:
    """A job's outcomes as a stream, with the items' metadata where it is wanted."""
    found = with_meta(paired(ledger)) if meta else ledger.outcomes()
    return (one for one in found if not failed_only or one.status == "failed")


@dataclass
class ExportResult:
    """Result of an export.

    Attributes:
        count: Outcomes.
        formulas: Cells of CSV that a spreadsheet may run as a formula.
    """

    count: int = 0
    formulas: int = 0


def with_meta(pairs: Iterable[tuple[Outcome, Item]]) -> Iterator[Outcome]:
    """Outcomes, each with the metadata of its item."""
    for outcome, item in pairs:
        outcome.meta = None if item.meta is None else dict(item.meta)
        yield outcome


def meta_keys(items: Iterable[Item]) -> list[str] | None:
    """Every key of the items' metadata, in the order in which they first appear; None when they are too many for
    columns."""
    keys: dict[str, None] = {}
    for item in items:
        if item.meta:
            keys.update(dict.fromkeys(item.meta))
            if len(keys) > MOST_KEYS:
                return None
    return list(keys)


def line_with_meta(outcome: Outcome) -> str:
    """An outcome with its metadata as a JSON line."""
    more = json.dumps({"origin": outcome.origin, "meta": outcome.meta}, separators=(",", ":"))
    return f"{outcome.line()[:-1]},{more[1:]}"


def export(
    outcomes: Iterable[Outcome], path: str | Path, form: str | None = None, keys: Sequence[str] | None = ()
) -> ExportResult:
    """Write outcomes to a file as they stream, with memory that does not grow with them.

    The form is `jsonl`, `csv` or `parquet`, by default as the name ends. `keys` are the columns of metadata in CSV, see
    `write_csv`; in Parquet `value` and `meta` are JSON text.

    Raises:
        CallerError: Another format, a file that cannot be written, or Parquet without pyarrow.
    """
    path = Path(path)
    form = form or path.suffix.lstrip(".")
    if form not in FORMATS:
        allowed = f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]}"
        raise CallerError.about("format", form, allowed, "Name one, or a file that ends with .jsonl.")
    try:
        if form == "parquet":
            return _parquet(outcomes, path)
        with path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            return write_csv(outcomes, file, keys) if form == "csv" else _jsonl(outcomes, file)
    except OSError as error:
        advice = "Name a file in a folder that can be written."
        raise CallerError(f"{path} cannot be written: {error.strerror}.", advice) from None


def write_csv(outcomes: Iterable[Outcome], file: TextIO, keys: Sequence[str] | None) -> ExportResult:
    """Write outcomes as CSV (RFC 4180, with a header): a column per figure, then `meta.KEY` per key of metadata.

    No cell is altered, so that a program reads what was recorded; those that a spreadsheet may run are counted.

    Args:
        outcomes: With their metadata.
        file: Opened without translation of line ends.
        keys: Of the metadata; None for one column `meta`, which is JSON.
    """
    plain = [name for name in _COLUMNS if name != "meta"]
    writer, written = csv.writer(file, lineterminator="\n"), ExportResult()
    writer.writerow([*plain, *(("meta",) if keys is None else (f"meta.{key}" for key in keys))])
    for outcome in outcomes:
        meta = outcome.meta or {}
        cells = [_cell(outcome, name) for name in plain]
        cells += [_cell(outcome, "meta")] if keys is None else [_text(meta.get(key)) for key in keys]
        writer.writerow(cells)
        written.count += 1
        written.formulas += sum(map(_may_run, cells))
    return written


def _jsonl(outcomes: Iterable[Outcome], file: TextIO) -> ExportResult:
    written = ExportResult()
    for outcome in outcomes:
        file.write(line_with_meta(outcome) + "\n")
        written.count += 1
    return written


def _may_run(cell: Any) -> bool:
    return isinstance(cell, str) and cell.startswith(_FORMULA) and _NUMBER.fullmatch(cell) is None


def _text(value: Any) -> str | None:
    """A value of metadata: a text as it is, anything else as JSON."""
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _parquet(outcomes: Iterable[Outcome], path: Path) -> ExportResult:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise CallerError(
            "format is 'parquet' and pyarrow is not installed: pip install 'tidemill[parquet]', or write jsonl."
        ) from None
    schema = pyarrow.schema([(name, getattr(pyarrow, kind)()) for name, kind in _COLUMNS.items()])
    source, written = iter(outcomes), ExportResult()
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        while batch := list(islice(source, ROWS_A_GROUP)):
            columns = {name: [_cell(outcome, name) for outcome in batch] for name in _COLUMNS}
            writer.write_table(pyarrow.table(columns, schema=schema))
            written.count += len(batch)
    return written


def _cell(outcome: Outcome, name: str) -> Any:
    value = getattr(outcome, name)
    return json.dumps(value) if name in ("value", "meta") and value is not None else value
