"""The fleet contract on GCP: a stack's settings for the reconciler, and the objects that reconciler and machines store.

Components write `FleetSettings`. The reconciler's function reads them and writes a `FleetReport`, which the client
reads. A machine that cannot run its worker writes a `MachineError` (services/pubsub/host). The function ships
this module, so it is a leaf of the standard library alone. Its schema is `fleet` in docs/documents.schema.json.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class FleetGroup:
    """A rung of a queue, as the reconciler knows it.

    Attributes:
        market: `spot` or `on_demand`.
        manager: Name of its regional instance group manager.
        autoscaler: Name of its autoscaler.
        per_machine: Items that run side by side on one machine.
        minimum: Machines that stay without work.
    """

    market: str
    manager: str
    autoscaler: str
    per_machine: float
    minimum: int


@dataclass(frozen=True)
class FleetQueue:
    """A queue with its rungs, in the order in which they open.

    Attributes:
        name: The queue.
        subscription: Short name of the subscription that workers pull from.
        topic: Full name of the topic of its messages.
        groups: A group per rung.
    """

    name: str
    subscription: str
    topic: str
    groups: list[FleetGroup]

    @classmethod
    def of(cls, values: dict[str, Any]) -> FleetQueue:
        """A queue from plain JSON values.

        Raises:
            TypeError: A field is missing or unknown.
        """
        return cls(**{**values, "groups": [FleetGroup(**group) for group in values["groups"]]})


@dataclass(frozen=True)
class FleetSettings:
    """The reconciler's settings: the environment variable `RECONCILER_SETTINGS` of its function."""

    project: str
    region: str
    bucket: str
    period_seconds: float
    queues: list[FleetQueue]

    @classmethod
    def parse(cls, text: str) -> FleetSettings:
        """Settings from JSON.

        Raises:
            TypeError: A field is missing or unknown.
        """
        values = json.loads(text)
        return cls(**{**values, "queues": [FleetQueue.of(queue) for queue in values["queues"]]})


@dataclass(frozen=True)
class ScalerNote:
    """Google's note about an autoscaler: an entry of its `statusDetails`.

    Attributes:
        type: Such as `ZONE_RESOURCE_STOCKOUT`.
        message: In Google's words.
    """

    type: str
    message: str = ""


@dataclass(frozen=True)
class MachineFailure:
    """Why a machine could not be created.

    Attributes:
        code: Google's, such as `QUOTA_EXCEEDED`.
        message: In Google's words.
        zone: Where; empty where Google does not say so.
        at: When, in ISO 8601; empty where Google does not say so.
    """

    code: str
    message: str = ""
    zone: str = ""
    at: str = ""


@dataclass(frozen=True)
class GroupReport:
    """A rung's machines.

    Attributes:
        target: Machines that the autoscaler wants.
        running: Machines that run.
        creating: Machines that are being created.
        stopped: Machines that were taken away or have stopped.
        stockout: Whether the market has none, while some are wanted.
        errors: What went wrong within an hour, the newest first: `<Google's code>: <message>`.
        quotas: Those of `errors` that are a quota.
        open: Whether the rung takes work; None for the first rung, which always does.
        autoscaler: Status of its autoscaler: `ACTIVE`, `ERROR`, ...
        notes: What Google says of the autoscaler.
        failures: Why machines could not be created within an hour: the three newest per code.
        unheard: Machines that are up, or were, and whose worker has never said that it is alive.
    """

    target: int = 0
    running: int = 0
    creating: int = 0
    stopped: int = 0
    stockout: bool = False
    errors: list[str] = field(default_factory=list)
    quotas: list[str] = field(default_factory=list)
    open: bool | None = None
    autoscaler: str = ""
    notes: list[ScalerNote] = field(default_factory=list)
    failures: list[MachineFailure] = field(default_factory=list)
    unheard: int = 0


@dataclass(frozen=True)
class QueueReport:
    """A queue's part of the report.

    Attributes:
        backlog: Messages that wait; None when that could not be read.
        groups: By market.
        decisions: What the reconciler did, in words.
    """

    backlog: int | None = None
    groups: dict[str, GroupReport] = field(default_factory=dict)
    decisions: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class FleetReport:
    """Report of the reconciler's last run: the object `fleet/reconciler.json`.

    Attributes:
        at: When it ran, in ISO 8601.
        period_seconds: How often it runs.
        queues: By name.
    """

    at: str
    period_seconds: float
    queues: dict[str, QueueReport]


@dataclass(frozen=True)
class MachineError:
    """Why a machine could not run its worker: an object in `fleet/errors`.

    Attributes:
        error: What went wrong, and the last lines that the worker printed.
        at: When it gave up, in ISO 8601.
    """

    error: str
    at: str = ""


@dataclass(frozen=True)
class HeldJob:
    """A round that waits for other jobs, in `fleet/held`: what to publish once they are complete.

    Attributes:
        job: The job's id.
        round: The round's number.
        job_sha256: Of its spec.
        round_sha256: Of the round's object.
        topic: Full name of the topic of its queue. The reconciler publishes only to topics of its own settings.
        after: By id of the other job: whether all of its items must have succeeded.
        arrays: By number, as text: the chunks of each array that is not published yet.
    """

    job: str
    round: int
    job_sha256: str
    round_sha256: str
    topic: str
    after: dict[str, bool]
    arrays: dict[str, list[int]]

    @classmethod
    def parse(cls, data: bytes) -> HeldJob:
        """A round from JSON.

        Raises:
            TypeError: A field is missing or unknown.
        """
        return cls(**json.loads(data))

    def messages(self, array: str) -> list[dict[str, Any]]:
        """The messages of an array."""
        return messages(self.job, self.round, self.job_sha256, self.round_sha256, self.arrays[array])


def messages(job: str, number: int, job_sha256: str, round_sha256: str, chunks: Iterable[int]) -> list[dict[str, Any]]:
    """A message per chunk, as workers on GCP read them."""
    labels = {"job": job, "round": str(number), "job_sha256": job_sha256, "round_sha256": round_sha256}
    return [{"attributes": labels | {"chunk": str(chunk)}} for chunk in chunks]
