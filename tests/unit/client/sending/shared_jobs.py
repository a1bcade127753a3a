"""Jobs of files on this machine, whose items a test runs itself: an outcome's value is what the item was made of."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from tests.unit.client_fakes import FakeBackend, descriptor, ran
from tidemill.client import Job, Pipeline
from tidemill.descriptor import SPEC_VERSION
from tidemill.job import Item
from tidemill.ledger import Ledger, Outcome
from tidemill.manifest import read_chunk
from tidemill.store import Store


class Bench:
    """A pipeline on a folder, with inputs and code beside it.

    Attributes:
        ran: Paths or URIs of the items that have run, in order.
    """

    def __init__(self, folder: Path, store: str | None = None, **changes: Any) -> None:
        self.inputs, self.code = folder / "in", folder / "code"
        self.inputs.mkdir(parents=True)
        self.code.mkdir()
        (self.code / "w.py").write_text("1")
        uri = store or f"file://{folder}/store"
        self.backend = FakeBackend()
        self.pipeline = Pipeline(descriptor(uri, max_spec=SPEC_VERSION, **changes), Store.open(uri), self.backend)
        self.ran: list[str] = []
        self.said: list[str] = []

    def write(self, **inputs: str) -> list[str]:
        """Write inputs; returns the paths of all there are."""
        for name, text in inputs.items():
            (self.inputs / name).write_text(text)
        return self.paths()

    def paths(self) -> list[str]:
        return sorted(map(str, self.inputs.iterdir()))

    def submit(self, items: Any = None, **settings: Any) -> Job:
        given: dict[str, Any] = {"queue": "cpu", "name": "words", "code": self.code, "chunk_size": 3}
        given |= {"log": self.said.append} | settings
        command = ["python3", "w.py", "{uri}"]
        items = self.paths() if items is None else items
        self.said.clear()
        return self.pipeline.submit(command, items, **given)

    def job(self, items: Any = None, *, fails: Collection[str] = (), **settings: Any) -> Job:
        """Submit a job, and run what it enqueues."""
        job = self.submit(items, **settings)
        self.run(job, fails=fails)
        return job

    def run(self, job: Job, *, fails: Collection[str] = (), most: int | None = None) -> None:
        """Run what is left of a job's newest rounds; after `most` items the worker dies, and has stored them."""
        ledger = Ledger(self.pipeline.store, job.id, job.spec.manifest)
        for round_ in ledger.rounds():
            done = ledger.done_chunks(round_.round)
            for chunk in round_.enqueued():
                if chunk in done:
                    continue
                part = ledger.chunk(round_.round, chunk)
                before = part.progress()
                wanted = round_.runs(chunk)
                items = [
                    item
                    for item in read_chunk(self.pipeline.store, job.id, chunk)
                    if item.index not in before and (wanted is None or item.index in wanted)
                ]
                some = items if most is None else items[:most]
                outcomes = [self._outcome(job, item, item.uri in fails) for item in some]
                most = None if most is None else most - len(some)
                if len(some) < len(items):
                    part.write_progress("a1", len(before), outcomes)
                    return
                part.commit("a1", sorted([*before.values(), *outcomes], key=lambda one: one.index), run=ran())

    def _outcome(self, job: Job, item: Item, failed: bool) -> Outcome:
        self.ran.append(item.uri)
        return Outcome(
            index=item.index,
            uri=item.uri,
            status="failed" if failed else "succeeded",
            reason="exit" if failed else None,
            attempts=1,
            wall_seconds=0.5,
            value=self.made_of(item.uri, job.spec.env),
        )

    def made_of(self, uri: str, env: dict[str, str]) -> list[Any]:
        """The value of an item that runs now."""
        path = Path(uri)
        content = path.read_text() if "://" not in uri and path.is_file() else uri
        return [(self.code / "w.py").read_text(), content, env.get("SCALE", "")]
