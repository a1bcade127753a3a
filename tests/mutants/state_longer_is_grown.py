"""Mutant: a file that has become longer has grown, whatever its first bytes are."""

from tidemill.state.grown import Grown


def apply() -> None:
    Grown._begins = lambda self, path, inode, size, wanted: True  # type: ignore[method-assign]
