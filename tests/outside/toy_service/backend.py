"""Arrays of chunks as objects of the job store: the queue of a service that has no cloud."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tidemill.clouds.account import Account
from tidemill.descriptor import Descriptor, Queue
from tidemill.explain.answer import Unseen
from tidemill.services.backend import Array, ArrayState, Backend, QueueState, Shape
from tidemill.store import Store
from toy_service import SERVICE
from toy_service.model import ToyFacts


class ToyBackend(Backend):
    """Shelves of arrays. A child is a state: `waiting`, `succeeded` or `failed`."""

    service = SERVICE

    def __init__(self, store: Store, account: Account) -> None:
        self.store, self.account = store, account

    def enqueue(self, shape: Shape, arrays: Sequence[Array]) -> None:
        for array in arrays:
            name = f"{shelf_of(shape.queue)}/{array.address.job}/{array.name}.json"
            made = {"round": array.address.round, "array": array.address.array, "at": self.account.now()}
            self.put(name, {**made, "children": ["waiting"] * array.size})

    def describe(self, queue: Queue, job: str, round_: int | None = None) -> list[ArrayState]:
        found = ((name, self.get(name)) for name in self.store.list(f"{shelf_of(queue)}/{job}"))
        kept = [_state(name, made) for name, made in found if round_ in (None, made["round"])]
        return sorted(kept, key=lambda state: state.created_at)

    def cancel(self, arrays: Sequence[ArrayState], reason: str) -> int:
        ours = [array for array in arrays if not array.ended]
        for array in ours:
            made = self.get(array.id)
            ended = ["failed" if state == "waiting" else state for state in made["children"]]
            self.put(array.id, {**made, "children": ended})
        return len(ours)

    def failed_children(self, array: ArrayState) -> dict[int, str]:
        states = enumerate(self.get(array.id)["children"])
        return {index: "it fell off the shelf" for index, state in states if state == "failed"}

    def queue_states(self, queues: dict[str, Queue]) -> dict[str, QueueState]:
        return {name: QueueState(True, True, f"{shelf_of(queue)} stands") for name, queue in queues.items()}

    def facts(self, queue: Queue, job: str, arrays: Sequence[ArrayState]) -> tuple[ToyFacts, list[Unseen]]:
        return ToyFacts(sum(array.states.get("waiting", 0) for array in arrays)), []

    def get(self, name: str) -> dict[str, Any]:
        return json.loads(self.store.get(name))

    def put(self, name: str, made: dict[str, Any]) -> None:
        self.store.put(name, json.dumps(made).encode())


def shelf_of(queue: Queue) -> str:
    assert isinstance(queue.block, dict)
    return queue.block["shelf"]


def _state(name: str, made: dict[str, Any]) -> ArrayState:
    counts = Counter(made["children"])
    array = name.rpartition("/")[2].removesuffix(".json")
    return ArrayState(array, name, len(made["children"]), dict(counts), not counts["waiting"], made["at"])


def open_backend(descriptor: Descriptor, store: Store, account: Account) -> ToyBackend:
    return ToyBackend(store, account)
