"""What `tidemill doctor` asks of a cloud."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from tidemill.backends.findings import Finding
from tidemill.descriptor import Descriptor, Image


class Checks(Protocol):
    """What `tidemill doctor` asks a cloud, with the caller's own login."""

    def login(self) -> tuple[Finding, str | None]:
        """Whether there is a valid login, and the account's id where a login has one."""
        ...

    def pipeline(self, descriptor: Descriptor) -> Iterator[Finding]:
        """Queues, images and whatever else a job needs of the cloud."""
        ...

    def image(self, check: str, image: Image) -> Finding:
        """Whether an image is where the stack says it is, as far as this login may see."""
        ...
