"""Bills for queues on Pub/Sub, apart from machines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...config import Queue
    from ...money import Book, Line


def staying(queue: Queue) -> int:
    return queue.gcp.min_machines


def disk_gib(queue: Queue) -> int:
    return queue.disk_gib + (queue.gcp.extra_disk_gib or 0)


def idle(book: Book, queues: Mapping[str, Queue]) -> Iterator[Line]:
    yield book.line("reconciler: Cloud Scheduler job", 1, "scheduler_job_month")
