"""A pipeline in memory with buckets of data in memory, schedules, and a clock that a test turns."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.unit.client_fakes import FakeBackend, descriptor
from tidemill.client import Job, Pipeline
from tidemill.client.site import Site
from tidemill.descriptor import SPEC_VERSION, Schedule
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


class World:
    """A pipeline whose templates are sent."""

    def __init__(self, monkeypatch: Any, **changes: Any) -> None:
        self.buckets, self.backend, self.now = Buckets(), FakeBackend(), NOW
        self.store = Store.open("memory://")
        values: dict[str, Any] = {"readable": ["s3://raw", "s3://incoming"], "writable": [], "max_spec": SPEC_VERSION}
        self.pipeline = Pipeline(descriptor(**values | changes), self.store, self.backend)
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

    def outcomes(self, name: str = "nightly") -> list[tuple[str, str]]:
        """Days and outcomes of the newest sends."""
        return [(row.time[:10], row.outcome) for row in self.pipeline.templates.history(name)]

    def jobs(self) -> list[Job]:
        return [self.pipeline.job(row.job) for row in self.pipeline.jobs()]
