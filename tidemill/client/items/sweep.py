"""Sweeps: every combination of some hyperparameters, each an item whose metadata holds the values."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from tidemill.client.items.source import LINE_BYTES
from tidemill.errors import CallerError
from tidemill.job import MAX_CHUNKS, Item
from tidemill.placeholders import PLACEHOLDERS, value_text

MAX_COMBINATIONS = MAX_CHUNKS
"""Combinations of a sweep: each may be a chunk of its own."""
RESERVED = (*PLACEHOLDERS, "code")
"""Names that mean something else in braces."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_RANGE = re.compile(r"(-?\d{1,15})\.\.(-?\d{1,15})(?:\.\.(\d{1,15}))?")
_VALUES = "text, a number, true or false"
_wrong = partial(CallerError, what="sweep")


class Sweep:
    """Combinations of hyperparameters: the product of some lists. Iterating yields an `Item` per combination.

    Args:
        grid: Names, each with its values. A range is not expanded.
        rows: Combinations listed one by one, all with the same names. Each is combined with the whole grid.
        hyperparameters: Values that every combination has.

    Raises:
        CallerError: A name or a value that cannot be used, or more than 50,000 combinations.

    Example:
        >>> sweep = tidemill.Sweep({"lr": ["1e-3", "3e-4"], "seed": range(5)}, hyperparameters={"epochs": 90})
        >>> len(sweep), next(iter(sweep)).meta
        (10, {'epochs': 90, 'lr': '1e-3', 'seed': 0})
    """

    def __init__(
        self,
        grid: Mapping[str, Sequence[Any]] | None = None,
        *,
        rows: Iterable[Mapping[str, Any]] | None = None,
        hyperparameters: Mapping[str, Any] | None = None,
    ) -> None:
        for name, given in (("sweep", grid), ("hyperparameters", hyperparameters)):
            if not isinstance(given, Mapping | None):
                raise CallerError.about(name, given, "a dict", "Write {'lr': [1e-3, 3e-4]}.")
        self._grid, self._fixed = dict(grid or {}), dict(hyperparameters or {})
        self._rows: list[Mapping[str, Any]] = [{}] if rows is None else list(rows)
        if not self._rows:
            raise _wrong("sweep has no combinations: its list is empty.", "Give one combination per row.")
        self._check_names()
        for name, values in self._grid.items():
            self._check_list(name, values)
        self._count = len(self._rows) * math.prod(map(len, self._grid.values()))
        if self._count > MAX_COMBINATIONS:
            raise _wrong(
                f"sweep has {self._count} combinations; a job may have {MAX_COMBINATIONS}.",
                "Give fewer values, or list chosen combinations (`sweep_file`, in Python `rows`).",
                value=str(self._count),
                allowed=f"at most {MAX_COMBINATIONS} combinations",
            )
        for key, value in self._values():
            _check_value(key, value)

    def __len__(self) -> int:
        return self._count

    @property
    def names(self) -> list[str]:
        """Every hyperparameter: what varies comes last."""
        return [*self._fixed, *self._rows[0], *self._grid]

    def __iter__(self) -> Iterator[Item]:
        for index, (row, values) in enumerate(product(self._rows, product(*self._grid.values()))):
            varied = {**row, **dict(zip(self._grid, values, strict=True))}
            every = {**self._fixed, **varied}
            label = ",".join(f"{name}={value_text(value)}" for name, value in (varied or every).items())
            yield Item(index, label or "training", every or None)

    # ---- checks -------------------------------------------------------------------------------------------------

    def _check_names(self) -> None:
        variables: dict[str, str] = {}
        for name in self.names:
            check_name(name)
            # As variables of a program they are in capitals.
            if (other := variables.setdefault(name.upper(), name)) != name:
                raise _wrong(f"sweep has both {other!r} and {name!r}, which differ in case only.", "Rename one.")
        twice = {name for name in self.names if self.names.count(name) > 1}
        if twice:
            name = min(twice)
            raise _wrong(f"sweep: {name!r} is given twice.", "Give it once, with all of its values.", value=name)
        for number, row in enumerate(self._rows):
            if row.keys() != self._rows[0].keys():
                names = ", ".join(self._rows[0])
                raise _wrong(
                    f"sweep: combination {number + 1} has {', '.join(row) or 'nothing'}, and the first has {names}.",
                    "Give every combination the same names.",
                )

    def _check_list(self, name: str, values: Any) -> None:
        if isinstance(values, (str, bytes)) or not isinstance(values, Sequence):
            fix = "Put one value into a list; what does not vary goes into the `hyperparameters` of a Sweep."
            raise CallerError.about(f"sweep.{name}", values, "a list of values", fix)
        if not values:
            raise _no_value(f"sweep.{name}")
        if len(values) <= MAX_COMBINATIONS and len(set(map(value_text, values))) < len(values):
            raise CallerError.about(f"sweep.{name}", list(values), "different values", "Leave copies out.")

    def _values(self) -> Iterator[tuple[str, Any]]:
        yield from ((f"hyperparameters.{name}", value) for name, value in self._fixed.items())
        yield from ((f"sweep.{name}", value) for name, values in self._grid.items() for value in values)
        yield from ((f"sweep.{name}", value) for row in self._rows for name, value in row.items())


def check_name(name: str) -> None:
    """Refuse what cannot be the name of a hyperparameter, because it could not stand in braces."""
    if name in RESERVED:
        fix = "Choose another name, and write {another name} in the command."
        raise CallerError.about("hyperparameter", name, f"a name other than {', '.join(RESERVED)}", fix)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        allowed = "a letter or '_', then up to 63 letters, digits, '_' and '-'"
        raise CallerError.about("hyperparameter", name, allowed, "Rename it.")


def _check_value(key: str, value: Any) -> None:
    if not isinstance(value, (str, int, float)):
        raise CallerError.about(key, value, _VALUES, "Give several values as text, such as JSON.")
    if value == "":
        raise _no_value(key)
    if isinstance(value, float) and not math.isfinite(value):
        raise CallerError.about(key, value, "finite", "Give it as text.")
    if isinstance(value, str) and re.search(r"[\0\r\n]", value):
        raise CallerError.about(key, value, "text without line breaks and NUL", "Put it into a file of the code.")


def _no_value(key: str) -> CallerError:
    return CallerError.about(key, "", "a value", "Give at least one, without empty ones in between.")


# ---- what people type -------------------------------------------------------------------------------------------


def parse_sweep(texts: Iterable[str]) -> dict[str, Sequence[Any]]:
    """`lr=1e-3,3e-4` and `seed=0..4`, as `Sweep` takes them. A range has both of its ends, and a step as `0..90..10`.

    Raises:
        CallerError: It is not a name with values, or a name is given twice.
    """
    parameters: dict[str, Sequence[Any]] = {}
    for name, text in _pairs("--sweep", texts, "NAME=VALUE,VALUE or NAME=FIRST..LAST"):
        spans = [_span(part.strip()) for part in text.split(",")] if text else []
        parameters[name] = spans[0] if len(spans) == 1 else [value for span in spans for value in _expanded(name, span)]
    return parameters


def parse_hyperparameters(texts: Iterable[str]) -> dict[str, str]:
    """`epochs=90`, as `Sweep` takes it.

    Raises:
        CallerError: It is not a name with a value, or a name is given twice.
    """
    return dict(_pairs("--hp", texts, "NAME=VALUE"))


def _pairs(option: str, texts: Iterable[str], allowed: str) -> Iterator[tuple[str, str]]:
    seen = set()
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise CallerError.about(option, text, allowed, f"For example: {option} lr=1e-3.")
        if name in seen:
            raise CallerError(f"{option}: {name!r} is given twice.", "Give it once.", what=option, value=name)
        seen.add(name)
        yield name, value


def _span(text: str) -> Sequence[Any]:
    match = _RANGE.fullmatch(text)
    if match is None:
        return [text]
    first, last, step = int(match[1]), int(match[2]), int(match[3] or 1)
    if step == 0:
        raise CallerError.about("--sweep", text, "a range with a step of at least 1", "For example: 0..90..10.")
    return range(first, last + 1, step) if first <= last else range(first, last - 1, -step)


def _expanded(name: str, span: Sequence[Any]) -> Sequence[Any]:
    if len(span) > MAX_COMBINATIONS:
        allowed = f"at most {MAX_COMBINATIONS} combinations"
        raise _wrong(f"sweep.{name} has {len(span)} values; {allowed} are possible.", "Give fewer.", allowed=allowed)
    return span


def read_rows(file: str | Path) -> list[dict[str, Any]]:
    """The combinations of a list: CSV with a header (values are text), or JSON lines with an object per line.

    Raises:
        CallerError: It cannot be read, or a line is not a combination.
    """
    path = Path(file)
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            read = _json_rows if path.suffix.lower() in (".jsonl", ".ndjson") else _csv_rows
            rows = []
            for row in read(str(path), lines):
                rows.append(row)
                if len(rows) > MAX_COMBINATIONS:
                    raise _wrong(f"{path} has more than {MAX_COMBINATIONS} combinations.", "Send several jobs.")
            return rows
    except OSError as error:
        raise _wrong(f"{path} cannot be read: {error.strerror}.", "Give the path of a list.") from None
    except UnicodeDecodeError as error:
        raise _wrong(f"{path} is not UTF-8 ({error.reason}).", "Save it as UTF-8.") from None


def _json_rows(path: str, lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _wrong(f"{path}, line {number} is not JSON ({error}).", "Give one object per line.") from None
        if not isinstance(row, dict) or not row:
            raise _wrong(f'{path}, line {number} is not an object such as {{"lr": 0.001}}.', "Give one per line.")
        yield row


def _csv_rows(path: str, lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    csv.field_size_limit(LINE_BYTES)
    table = csv.DictReader(lines, strict=True)
    try:
        if len(set(table.fieldnames or ())) < len(table.fieldnames or ()):
            raise _wrong(f"{path} has a column twice: {', '.join(table.fieldnames or ())}.", "Rename one.")
        for row in table:
            if None in row or None in row.values():
                names = len(table.fieldnames or ())
                raise _wrong(f"{path}, line {table.line_num} does not have {names} fields.", "Correct the list.")
            yield row
    except csv.Error as error:
        raise _wrong(f"{path}, line {table.line_num} is not CSV ({error}).", "Correct the list.") from None
