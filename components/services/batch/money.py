"""Bills for queues on AWS Batch, apart from machines: none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...config import Queue
    from ...money import Book, Line


def staying(queue: Queue) -> int:
    """The machines that stay without work."""
    return 0


def disk_gib(queue: Queue) -> int:
    """The size of a machine's disks."""
    return queue.disk_gib


def idle(book: Book, queues: Mapping[str, Queue]) -> Iterator[Line]:
    """The cost of a pipeline's queues together without work."""
    yield from ()
