"""A pipeline in memory: a queue that records what it receives, and a worker that commits what a test says."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from tidemill.client import Pipeline
from tidemill.clouds.account import Account, LogLine, LogSearch
from tidemill.descriptor import AwsQueue, Descriptor, Image, Machine, Queue, Resources, Rung
from tidemill.ledger import Ledger, Outcome
from tidemill.ledger.digest import UNKNOWN, RunFacts
from tidemill.manifest import read_chunk
from tidemill.secrets.secret_store import SecretStore
from tidemill.services.backend import Array, ArrayState, Backend, QueueState, Shape
from tidemill.services.batch import SERVICE as BATCH
from tidemill.store import Store

ARN = "arn:aws:batch:us-west-2:123456789012"


@dataclass
class FakeArray:
    array: Array
    shape: Shape
    id: str
    children: list[str]
    reasons: dict[int, str] = field(default_factory=dict)
    terminated: bool = False


def belongs(array: Array, job: str, round_: int | None) -> bool:
    return array.address.job == job and round_ in (None, array.address.round)


class FakeBackend(Backend, Account):
    """A queue. `forget`, `children` and `reasons` are a test's to change; `refuse_after` makes enqueueing fail."""

    service = replace(BATCH, most_dependencies=0)

    def __init__(self) -> None:
        super().__init__()
        self.account = self
        self.arrays: list[FakeArray] = []
        self.refuse_after: int | None = None
        self.lines: list[LogLine] = []
        self.state = QueueState(True, True, "enabled, valid")
        self.secret_store: SecretStore | None = None
        self._ids = itertools.count()

    def user(self) -> str:
        return "ada"

    def secrets(self) -> SecretStore | None:
        return self.secret_store

    def enqueue(self, shape: Shape, arrays: Sequence[Array]) -> None:
        for array in arrays:
            if self.refuse_after is not None and len(self.arrays) >= self.refuse_after:
                raise ConnectionAbortedError("the submitter dies here")
            self.arrays.append(FakeArray(array, shape, f"id-{next(self._ids)}", ["waiting"] * array.size))

    def describe(self, queue: Queue, job: str, round_: int | None = None) -> list[ArrayState]:
        return [self._state(a) for a in self.arrays if belongs(a.array, job, round_)]

    def _state(self, fake: FakeArray) -> ArrayState:
        ended = all(state in ("succeeded", "failed") for state in fake.children)
        return ArrayState(
            fake.array.name, fake.id, fake.array.size, dict(Counter(fake.children)), ended, float(fake.id.split("-")[1])
        )

    def failed_children(self, array: ArrayState) -> dict[int, str]:
        fake = next(a for a in self.arrays if a.id == array.id)
        return {i: fake.reasons.get(i, "failed") for i, state in enumerate(fake.children) if state == "failed"}

    def cancel(self, arrays: Sequence[ArrayState], reason: str) -> int:
        ids = {state.id for state in arrays if not state.ended}
        for fake in self.arrays:
            if fake.id in ids:
                fake.terminated = True
                fake.children = ["failed" if state != "succeeded" else state for state in fake.children]
        return len(ids)

    def logs(self, search: LogSearch) -> Iterator[LogLine]:
        return iter(self.lines)

    def child_logs(self, array: ArrayState, index: int, search: LogSearch) -> Iterator[LogLine]:
        return (line for line in self.lines if line.stream == f"{array.name}:{index}")

    def queue_states(self, queues: dict[str, Queue]) -> dict[str, QueueState]:
        return dict.fromkeys(queues, self.state)

    # ---- what a test does with it -------------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        return [fake.array.name for fake in self.arrays]

    def run(
        self,
        pipeline: Pipeline,
        job: str,
        *,
        fail_items: Sequence[int] = (),
        skip_chunks: Sequence[int] = (),
    ) -> None:
        """Commit every waiting chunk of a job as a worker would; skipped ones fail without a record."""
        ledger = Ledger(pipeline.store, job)
        for round_ in ledger.rounds():
            by_name = {array.name: array for array in round_.arrays}
            for fake in self.arrays:
                array = by_name.get(fake.array.name)
                if array is None:
                    continue
                for child in range(fake.array.size):
                    if fake.children[child] != "waiting":
                        continue
                    chunk = array.chunk(child)
                    if chunk in skip_chunks:
                        fake.children[child] = "failed"
                        fake.reasons[child] = "Host EC2 (instance i-1) terminated."
                        continue
                    outcomes = [
                        outcome(i.index, i.uri, i.index in fail_items) for i in read_chunk(pipeline.store, job, chunk)
                    ]
                    ledger.chunk(round_.round, chunk).commit(f"a{child}", outcomes, run=ran())
                    fake.children[child] = "succeeded"


def outcome(index: int, uri: str, failed: bool) -> Outcome:
    return Outcome(
        index=index,
        uri=uri,
        status="failed" if failed else "succeeded",
        reason="exit" if failed else None,
        exit_code=1 if failed else 0,
        attempts=3 if failed else 1,
        wall_seconds=0.5,
        cpu_seconds=0.25,
        peak_memory_mib=100 + index,
        output=None if failed else f"s3://store/out/{index}/",
        error="ValueError: no" if failed else None,
    )


def ran() -> RunFacts:
    """The facts of a worker that ran one item at a time for a second."""
    return RunFacts(datetime.now(UTC).isoformat(), UNKNOWN, 1, 1.0, 0.0, 0.0, 1.0, 1)


def queue(**changes: Any) -> Queue:
    plain = Queue(
        item=Resources(cpus=1, memory_mib=2048, gpus=0),
        images={"default": Image(ref="r@sha256:0", job_definition=f"{ARN}:job-definition/cpu-default:1")},
        machines=[
            Machine(type="c7i.2xlarge", cpus=8, memory_mib=16384),
            Machine(type="c7i.4xlarge", cpus=16, memory_mib=32768),
        ],
        capacity=[Rung(market="spot", max_cpus=64)],
        scratch_gib=100,
        aws=AwsQueue(job_queue=f"{ARN}:job-queue/cpu"),
    )
    return plain.model_copy(update=changes)


def descriptor(store: str = "memory://", queues: dict[str, Queue] | None = None, **changes: Any) -> Descriptor:
    values: dict[str, Any] = {
        "team": "vision",
        "environment": "dev",
        "cloud": "aws",
        "region": "us-west-2",
        "account": "123456789012",
        "store": store,
        "log_group": "/tidemill/vision-dev",
        "queues": queues
        or {"cpu": queue(), "gpu": queue(machines=[gpu_machine()], item=Resources(cpus=1, memory_mib=2048, gpus=1))},
    }
    return Descriptor(**(values | changes))


def gpu_machine() -> Machine:
    return Machine(type="g5.2xlarge", cpus=8, memory_mib=32768, gpus=1)


def pipeline(uri: str = "memory://", **changes: Any) -> tuple[Pipeline, FakeBackend]:
    backend = FakeBackend()
    return Pipeline(descriptor(uri, **changes), Store.open(uri), backend), backend


def uris(count: int) -> list[str]:
    return [f"s3://raw/{n}.jpg" for n in range(count)]
