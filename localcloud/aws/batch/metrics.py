"""Batch's metrics of its job queues, which it sends to CloudWatch at each change of a job's state.

An array's children count, each for itself; of its parent there is the submission alone. A minute's values are added up
here, because an array has thousands of children.

Source: https://docs.aws.amazon.com/batch/latest/userguide/using_cloudwatch_metrics.html
"""

import threading
from collections.abc import Iterator
from dataclasses import dataclass

NAMESPACE = "AWS/Batch"
DIMENSION = "JobQueueName"
MOVED = {
    "PENDING": "JobsMovedToPending",
    "RUNNABLE": "JobsMovedToRunnable",
    "STARTING": "JobsMovedToStarting",
    "RUNNING": "JobsMovedToRunning",
    "SUCCEEDED": "JobsMovedToSucceeded",
    "FAILED": "JobsMovedToFailed",
}
SUBMITTED = "JobsSubmitted"
WAITED = "JobAttemptRunnableToStartingDuration"
KEPT_SECONDS = 86400.0


@dataclass
class Minute:
    """What CloudWatch keeps of a metric's values within a minute."""

    count: int
    total: float
    least: float
    most: float


class QueueMetrics:
    """The metrics of all job queues."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._minutes: dict[tuple[str, str, str], dict[int, Minute]] = {}

    def add(self, region: str, job_queue: str, name: str, value: float, at: float) -> None:
        """Count a value of a metric, at a time of the epoch."""
        minute = int(at // 60)
        with self._lock:
            kept = self._minutes.setdefault((region, job_queue, name), {})
            held = kept.get(minute)
            if held is None:
                kept[minute] = Minute(1, value, value, value)
                for old in [each for each in kept if each < minute - KEPT_SECONDS // 60]:
                    del kept[old]
            else:
                kept[minute] = Minute(held.count + 1, held.total + value, min(held.least, value), max(held.most, value))

    def of(self, region: str, job_queue: str, name: str) -> Iterator[tuple[float, Minute]]:
        """The minutes of a metric, each by its start."""
        with self._lock:
            kept = dict(self._minutes.get((region, job_queue, name), {}))
        yield from ((minute * 60.0, values) for minute, values in kept.items())


metrics = QueueMetrics()
