"""Mutant: a file that has become longer has grown, whatever its first bytes are."""

from tidemill.state.append_only import AppendOnlyFiles


def apply() -> None:
    AppendOnlyFiles._begins = lambda self, path, inode, size, wanted: True  # type: ignore[method-assign]
