"""The bucket of the stacks' states, and the versions that it keeps of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True)
class Version:
    """One version of an object.

    Attributes:
        id: S3's version id, or Cloud Storage's generation.
        written: When, with its time zone; of a deletion on AWS, when it was deleted.
        live: Whether readers of the object get this one.
        deletion: AWS: a delete marker, which has no content.
    """

    name: str
    id: str
    written: datetime
    live: bool
    deletion: bool = False


class Bucket(Protocol):
    """A bucket with versions, on either cloud."""

    refusals: tuple[type[Exception], ...]
    """What the calls raise when the cloud refuses, or when there is no login."""

    def versions(self, prefix: str) -> Iterator[Version]:
        """All versions of the objects below a prefix."""
        ...

    def read(self, version: Version) -> bytes: ...

    def write(self, name: str, content: bytes) -> None:
        """Make a new version, which becomes the live one."""
        ...

    def delete(self, name: str) -> None:
        """Delete the live version, which stays as an older one."""
        ...
