"""Outcomes as files: JSON lines, or Parquet where pyarrow is installed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

from tidemill.errors import CallerError
from tidemill.ledger import Outcome

FORMATS = ("jsonl", "parquet")
ROWS_A_GROUP = 50_000
_COLUMNS = {
    "index": "int64",
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
}


def export(outcomes: Iterable[Outcome], path: str | Path, form: str | None = None) -> int:
    """Write outcomes to a file as they stream, with memory that does not grow with them.

    The form is `jsonl` or `parquet`, by default as the name ends; in Parquet `value` is JSON text. Returns how many.

    Raises:
        CallerError: Another format, a file that cannot be written, or Parquet without pyarrow.
    """
    path = Path(path)
    form = form or path.suffix.lstrip(".")
    if form not in FORMATS:
        raise CallerError.about("format", form, " or ".join(FORMATS), "Name one, or a file that ends with .jsonl.")
    try:
        return _jsonl(outcomes, path) if form == "jsonl" else _parquet(outcomes, path)
    except OSError as error:
        advice = "Name a file in a folder that can be written."
        raise CallerError(f"{path} cannot be written: {error.strerror}.", advice) from None


def _jsonl(outcomes: Iterable[Outcome], path: Path) -> int:
    count = 0
    with path.open("w") as file:
        for outcome in outcomes:
            file.write(outcome.line() + "\n")
            count += 1
    return count


def _parquet(outcomes: Iterable[Outcome], path: Path) -> int:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise CallerError(
            "format is 'parquet' and pyarrow is not installed: pip install 'tidemill[parquet]', or write jsonl."
        ) from None
    schema = pyarrow.schema([(name, getattr(pyarrow, kind)()) for name, kind in _COLUMNS.items()])
    source, count = iter(outcomes), 0
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        while batch := list(islice(source, ROWS_A_GROUP)):
            columns = {name: [_cell(outcome, name) for outcome in batch] for name in _COLUMNS}
            writer.write_table(pyarrow.table(columns, schema=schema))
            count += len(batch)
    return count


def _cell(outcome: Outcome, name: str) -> Any:
    value = getattr(outcome, name)
    return json.dumps(value) if name == "value" and value is not None else value
