"""Source lines of functions that travel by value, for tracebacks on machines, which have none of their files."""

from __future__ import annotations

import linecache
import os
from collections.abc import Callable
from types import CodeType
from typing import Any

UNNAMED = "<dynamic-code>"
"""The file of all code in cloudpickle's reductions."""


class SourceLines:
    """The lines of code that is pickled, by names of files that mean something to its author.

    Args:
        reduce: Reduces code as cloudpickle does.

    Attributes:
        lines: By name of a file and number of a line: only those of the code itself travel.
    """

    def __init__(self, reduce: Callable[[CodeType], Any]) -> None:
        self._reduce = reduce
        self._names: dict[str, str] = {}
        self.lines: dict[str, dict[int, str]] = {}

    def reduced(self, code: CodeType) -> Any:
        """Code in parts, as a pickler takes it."""
        make, parts = self._reduce(code)
        name = self._name(code.co_filename)
        known = linecache.getlines(code.co_filename)
        last = max((line for *_, line in code.co_lines() if line), default=code.co_firstlineno)
        numbers = range(max(1, code.co_firstlineno), min(last, len(known)) + 1)
        self.lines.setdefault(name, {}).update({number: known[number - 1] for number in numbers})
        return make, tuple(name if part == UNNAMED else part for part in parts)

    def _name(self, file: str) -> str:
        if file not in self._names:
            # Cells have files of other names in each session.
            is_cell = file.startswith("<") or "ipykernel_" in file
            name = "<cell>" if is_cell else os.path.basename(file)
            taken = sum(name == one.partition(" #")[0] for one in self._names.values())
            self._names[file] = f"{name} #{taken + 1}" if taken else name
        return self._names[file]
