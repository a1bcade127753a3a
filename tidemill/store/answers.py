"""What a store answers."""

from __future__ import annotations

from typing import NamedTuple


class Created(NamedTuple):
    """What a conditional create left in the store."""

    ours: bool
    """True when the object holds what we wrote, even if the reply was lost."""
    content: bytes
    """What the object holds."""


class Entry(NamedTuple):
    """An object in a listing."""

    name: str
    size: int
    """Bytes."""
    modified: float
    """Seconds since the epoch."""


class Uploaded(NamedTuple):
    """A file that is an object now."""

    size: int
    """Bytes."""
    sha256: str | None
    """In hex, where it was wanted."""
