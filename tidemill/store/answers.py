"""Answers of a store."""

from __future__ import annotations

from typing import NamedTuple


class CreateResult(NamedTuple):
    """Result of a conditional create."""

    ours: bool
    """True when the object holds what we wrote, even if the reply was lost."""
    content: bytes
    """Content of the object."""


class Entry(NamedTuple):
    """An object in a listing."""

    name: str
    size: int
    """Bytes."""
    modified: float
    """Seconds since the epoch."""
    etag: str = ""
    """The store's name for the content; empty where it has none."""


class UploadResult(NamedTuple):
    """A file that is an object now."""

    size: int
    """Bytes."""
    sha256: str | None
    """In hex, where it was wanted."""
