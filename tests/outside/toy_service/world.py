"""A pipeline whose queue is a shelf, for the tests of every service."""

import json
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

from tests.unit.client_fakes import descriptor, queue
from tests.unit.every_cloud import AwsWorld, Dying, opened, run_chunk
from tidemill.ledger import Ledger
from toy_service.backend import ToyBackend


class ToyWorld(AwsWorld):
    """Shelves, in an account of AWS that keeps users and lines."""

    def __init__(self, folder: Path, monkeypatch: Any) -> None:
        super().__init__(folder, monkeypatch)
        account = self.pipeline.site.account
        queues = {"cpu": queue(service="toy", aws=None, place={"shelf": "toys"})}
        self.pipeline = opened(descriptor(f"file://{folder}/store", queues), lambda store: ToyBackend(store, account))
        self._dying = Dying(self.pipeline.site.backend("cpu"))
        self.store, self.ledger = self.pipeline.store, lambda job: Ledger(self.pipeline.store, job)

    def delivered(self, job: str) -> Counter[tuple[int, int]]:
        made = [json.loads(self.store.get(name)) for name in self.store.list(f"toys/{job}")]
        rounds = [(each["round"], self.ledger(job).round(each["round"]).arrays[each["array"]]) for each in made]
        return Counter((number, chunk) for number, array in rounds for chunk in array.all())

    def work(self, job: str, fail: Collection[int] = (), lose: Collection[int] = ()) -> None:
        for name in self.store.list(f"toys/{job}"):
            made = json.loads(self.store.get(name))
            array = self.ledger(job).round(made["round"]).arrays[made["array"]]
            for child, state in enumerate(made["children"]):
                if state == "waiting":
                    chunk = array.chunk(child)
                    made["children"][child] = "failed" if chunk in lose else "succeeded"
                    if chunk not in lose:
                        run_chunk(self.pipeline, job, made["round"], chunk, fail)
            self.store.put(name, json.dumps(made).encode())

    def say(self, at: float, **fields: Any) -> None:
        event = {"timestamp": int(at * 1000), "message": json.dumps(fields), "logStreamName": "toys"}
        self.lines.append(event | {"eventId": f"e{len(self.lines)}"})
