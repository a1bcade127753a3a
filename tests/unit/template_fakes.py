"""A pipeline in memory with buckets of data in memory, schedules, and a clock that a test turns."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.stored import read_items
from tests.unit.client_fakes import FakeBackend, descriptor
from tidemill.client import Job, Pipeline
from tidemill.client.site import Site
from tidemill.clouds.events import ArrivedObject, EventBatch
from tidemill.descriptor import SPEC_VERSION, Arrival, Schedule
from tidemill.sender import answer
from tidemill.store import Store

COMMAND = ["python3", "tile.py", "{uri}", "{output}"]
PATTERN = "s3://raw/{time:%Y/%m/%d}/**.jpg"
NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)


class Buckets:
    """Stores by the bucket of a URI."""

    def __init__(self) -> None:
        self.stores: dict[str, Store] = {}

    def locate(self, uri: str) -> tuple[Store, str]:
        bucket, _, name = uri.partition("://")[2].partition("/")
        return self.stores.setdefault(bucket, Store.open("memory://")), name

    def put(self, *uris: str) -> None:
        for uri in uris:
            store, name = self.locate(uri)
            store.put(name, b"x")


class FakeEvents:
    """A queue that delivers what is not forgotten again once a receiver has gone."""

    def __init__(self) -> None:
        self.waiting: list[list[ArrivedObject]] = []
        self.underway: dict[str, list[ArrivedObject]] = {}
        self.dice = random.Random(0)

    def take(self) -> EventBatch:
        self.dice.shuffle(self.waiting)
        some, self.waiting = self.waiting[:10], self.waiting[10:]
        receipts = [str(id(message)) for message in some]
        self.underway |= dict(zip(receipts, some, strict=True))
        return EventBatch([each for message in some for each in message], receipts)

    def forget(self, batch: EventBatch) -> None:
        for receipt in batch.receipts:
            self.underway.pop(receipt, None)

    def lose_receiver(self) -> None:
        """Deliver again what nobody has forgotten."""
        self.waiting += self.underway.values()
        self.underway.clear()


class World:
    """A pipeline whose templates are sent."""

    def __init__(self, monkeypatch: Any, **changes: Any) -> None:
        self.buckets, self.backend, self.now = Buckets(), FakeBackend(), NOW
        self.store = Store.open("memory://")
        values: dict[str, Any] = {"readable": ["s3://raw", "s3://incoming"], "writable": [], "max_spec": SPEC_VERSION}
        self.pipeline = Pipeline(descriptor(**values | changes), self.store, self.backend)
        self.events = FakeEvents()
        self.told: list[tuple[str, str]] = []
        monkeypatch.setattr(Site, "stores", lambda site: self.buckets)
        monkeypatch.setattr(FakeBackend, "now", lambda backend: self.now.timestamp())
        monkeypatch.setattr(
            FakeBackend, "publish", lambda backend, topic, subject, text, fields: self.told.append((topic, text))
        )

    def schedule(self, name: str = "nightly", **changes: Any) -> None:
        """Let the stack have this schedule alone."""
        values = {"template": "nightly", "queues": ["cpu"], "cron": "0 2 * * *", "timezone": "Europe/Berlin"}
        schedules = {name: Schedule(**values | changes)}
        changed = self.pipeline.descriptor.model_copy(update={"schedules": schedules})
        self.pipeline = Pipeline(changed, self.store, self.backend)

    def save(self, name: str = "nightly", command: Any = COMMAND, items: Any = PATTERN, **settings: Any) -> Any:
        return self.pipeline.templates.save(name, command, items, **{"queue": "cpu"} | settings)

    def fire(self, time: str, name: str = "nightly", late: timedelta = timedelta()) -> list[dict[str, Any]]:
        """Let the scheduler fire for a time."""
        at = datetime.fromisoformat(time)
        self.now = at + late
        return answer(self.pipeline.site, {"schedule": name, "time": at.isoformat()})["sends"]

    def receive(self, **changes: Any) -> None:
        """Let the stack have arrivals alone, of the bucket `incoming`."""
        values = {"template": "tiles", "queues": ["cpu"], "prefix": "s3://incoming", "settle_minutes": 5}
        one = Arrival(**values | {"most_per_hour": 12, "queue": "arrivals"} | changes)
        changed = self.pipeline.descriptor.model_copy(update={"arrivals": {"tiles": one}})
        self.pipeline = Pipeline(changed, self.store, self.backend)

    def arrive(self, *names: str, tag: str = "1", ago: float = 0.0) -> None:
        """Let objects arrive, each with an event that waits in the queue."""
        at = self.now.timestamp() - ago
        self.events.waiting += [[ArrivedObject(f"s3://incoming/{name}", tag, at)] for name in names]

    def tick(self, minutes: float = 1.0) -> dict[str, Any]:
        """Let time pass, and the scheduler fire."""
        self.now += timedelta(minutes=minutes)
        (told,) = answer(self.pipeline.site, {"arrivals": True}, lambda descriptor, queue: self.events)["arrivals"]
        return told

    def taken(self) -> list[str]:
        """The items of all jobs."""
        return [
            item.uri.removeprefix("s3://incoming/") for job in self.jobs() for item in read_items(self.store, job.id)
        ]

    def outcomes(self, name: str = "nightly") -> list[tuple[str, str]]:
        """Days and outcomes of the newest sends."""
        return [(row.time[:10], row.outcome) for row in self.pipeline.templates.history(name)]

    def jobs(self) -> list[Job]:
        return [self.pipeline.job(row.job) for row in self.pipeline.jobs(limit=1000)]
