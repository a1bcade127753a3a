"""Mutant: whatever is newer than the mark voids it, also a log."""

from tidemill.state.append_only import AppendOnlyFiles


def apply() -> None:
    AppendOnlyFiles.has = AppendOnlyFiles.only = lambda self, path: False  # type: ignore[method-assign]
