"""GCP: a message per chunk on Pub/Sub.

A message has no data; its attributes are `job`, `round`, `chunk`, `job_sha256` and `round_sha256`. Pub/Sub knows
neither arrays nor jobs and cannot be asked what it holds, so what was published is recorded in the store, an object
per array, after the one request that carries the array. A submit that dies runs again and publishes what has no record:
what was on its way when it died (`IN_FLIGHT` requests at most) may then be there twice. A worker finds the chunk done,
or at worst does it twice; outcomes stay exactly once.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any, TypeVar

from tidemill import fleet, layout
from tidemill.clouds.gcp.account import GcpAccount
from tidemill.clouds.gcp.session import DeniedError, GoogleSession, MissingError
from tidemill.completion import StartLimit
from tidemill.descriptor import Descriptor, GcpQueue, Queue
from tidemill.errors import CallerError, CloudError
from tidemill.explain.answer import Unseen
from tidemill.explain.facts import CloudFacts
from tidemill.job import Predecessor
from tidemill.services.backend import Array, ArrayState, Backend, DeadLetter, QueueState, Shape
from tidemill.services.pubsub import SERVICE
from tidemill.services.pubsub import dead_letters as dead
from tidemill.services.pubsub.backlog import EmptyPeriod, backlog, empty_since
from tidemill.services.pubsub.facts import PubSubReader, read_queue
from tidemill.services.pubsub.model import GcpFacts
from tidemill.services.pubsub.rules import EXPIRED
from tidemill.store import Store

T = TypeVar("T")
REQUEST_BYTES = 4 * 1024 * 1024
"""Google's own emulators refuse more; a thousand of our messages have 0.4 MB."""
IN_FLIGHT = 4
LOOK_SECONDS = 30.0
"""How long answers of Monitoring and dead letters are reused: both lag more than that."""
LEAST_RETENTION_SECONDS = 600.0
WAIT_SECONDS = 300.0
"""A job that waits longer than this waits for something other than its first machine's start."""

_DELETED = "_deleted-topic_"
_WAITS = "the first machine takes 1 to 4 minutes to start (the autoscaler's metric lags)"
_NO_TOPIC = "the descriptor names no Pub/Sub topic for this queue. Ask the stack's owner to run `pulumi up`."


class GcpPubSub(Backend):
    """The queues of one stack on Pub/Sub, used with the caller's own login."""

    service = SERVICE

    def __init__(self, descriptor: Descriptor, store: Store, account: GcpAccount) -> None:
        self._store, self.account, self._session = store, account, account.session
        account.ask = lambda: _ask_for_an_answer(account.session, descriptor)
        self._kept: dict[tuple[object, ...], tuple[float, Any]] = {}

    # ---- publishing ---------------------------------------------------------------------------------------------

    def enqueue(self, shape: Shape, arrays: Sequence[Array]) -> None:
        topic, over = _of(shape.queue).topic, threading.Event()

        def send(array: Array) -> None:
            if over.is_set():
                return
            try:
                _publish(self._session, self._store, topic, array)
            except BaseException:
                over.set()
                raise

        with ThreadPoolExecutor(IN_FLIGHT) as pool:
            try:
                for _ in pool.map(send, arrays):
                    pass
            finally:
                over.set()

    def hold(self, shape: Shape, arrays: Sequence[Array], after: Sequence[Predecessor]) -> None:
        """Leave arrays for the reconciler, which publishes them once other jobs are complete. A message that is
        published earlier would start machines: the autoscaler counts it."""
        at = arrays[0].address
        held = fleet.HeldJob(
            job=at.job,
            round=at.round,
            job_sha256=at.spec_sha256,
            round_sha256=at.round_sha256,
            topic=_of(shape.queue).topic,
            after={each.job: each.success for each in after},
            arrays={str(array.address.array): list(array.chunks) for array in arrays},
        )
        self._store.put(layout.held(at.job), json.dumps(asdict(held)).encode())

    def limit_start(self, limit: StartLimit) -> None:
        self._store.put(layout.start_limit(limit.job), json.dumps(asdict(limit)).encode())

    def describe(self, queue: Queue, job: str, round_: int | None = None) -> list[ArrayState]:
        states = []
        for entry in self._store.entries(layout.published(job)):
            number, k, size = layout.parse_published(entry.name)
            if round_ in (None, number):
                name, at = f"{job}-r{number}-a{k}", entry.modified
                old = self._is_forgotten(queue, at)
                reason = EXPIRED if old else _WAITS if self.account.now() - at < WAIT_SECONDS else None
                states.append(ArrayState(name, name, size, {}, old, at, reason))
        return sorted(states, key=lambda state: (state.created_at, state.name))

    def _is_forgotten(self, queue: Queue, published_at: float) -> bool:
        age = self.account.now() - published_at
        return age > LEAST_RETENTION_SECONDS and age > self._retention(_of(queue).subscription)

    def _retention(self, subscription: str) -> float:
        """Seconds for which messages are kept; 7 days is the service's default."""

        def ask() -> float:
            settings = self._session.find(subscription, "pubsub.subscriptions.get") or {}
            return float(settings.get("messageRetentionDuration", "604800s").removesuffix("s"))

        return self._keep(("retention", subscription), ask, float("inf"))

    def cancel(self, arrays: Sequence[ArrayState], reason: str) -> int:
        """Ends nothing: workers see the tombstone and drop the job's messages as they come."""
        return sum(not array.ended for array in arrays)

    # ---- what is lost -------------------------------------------------------------------------------------------

    def dead_letters(self, queue: Queue, job: str) -> list[DeadLetter]:
        subscription = _of(queue).dead_letters

        def ask() -> dict[str, list[DeadLetter]]:
            try:
                return dead.look(self._session, subscription)
            except (DeniedError, MissingError):
                return {}

        return self._keep(("dead", subscription), ask, LOOK_SECONDS).get(job, [])

    def forget_dead(self, queue: Queue, job: str, letters: Collection[DeadLetter]) -> int:
        if not letters:
            return 0
        subscription, wanted = _of(queue).dead_letters, {(letter.round, letter.chunk) for letter in letters}
        self._kept.pop(("dead", subscription), None)
        return dead.forget(self._session, subscription, job, lambda one: (one.round, one.chunk) in wanted)

    def is_gone(self, queue: Queue, enqueued_at: float) -> bool:
        empty = self._empty(_of(queue).subscription)
        return empty is not None and empty.covers(enqueued_at)

    def _empty(self, subscription: str) -> EmptyPeriod | None:
        """Since when the backlog has been empty; None when it is not, or this login may not look."""

        def ask() -> EmptyPeriod | None:
            try:
                return empty_since(backlog(self._session, subscription))
            except (DeniedError, MissingError):
                return None

        return self._keep(("empty", subscription), ask, LOOK_SECONDS)

    def _keep(self, key: tuple[object, ...], ask: Callable[[], T], seconds: float) -> T:
        """The last answer, if it is younger than so many seconds, else a new one."""
        kept = self._kept.get(key)
        if kept is None or time.monotonic() - kept[0] > seconds:
            kept = self._kept[key] = (time.monotonic(), ask())
        return kept[1]

    # ---- queues ---------------------------------------------------------------------------------------------------

    def queue_states(self, queues: dict[str, Queue]) -> dict[str, QueueState]:
        return {name: self._queue_state(_of(queue)) for name, queue in queues.items()}

    def _queue_state(self, queue: GcpQueue) -> QueueState:
        seen = read_queue(self._session, queue)
        if not seen.topic_there:
            return QueueState(False, False, "not there: the stack was changed or destroyed")
        if seen.reads is None:
            return QueueState(False, False, "without its subscription: messages would be lost")
        if seen.reads != queue.topic:
            other = "a deleted" if seen.reads == _DELETED else "another"
            return QueueState(False, False, f"broken: its subscription reads {other} topic")
        return QueueState(True, True, "topic and subscription are there")

    def facts(self, queue: Queue, job: str, arrays: Sequence[ArrayState]) -> tuple[CloudFacts | None, list[Unseen]]:
        reader = PubSubReader(self._session)
        return reader.job(queue.gcp), reader.unseen

    def queue_facts(self, queue: Queue) -> tuple[CloudFacts | None, list[Unseen]]:
        # A submit has looked at topic and subscription already.
        return GcpFacts(), []


open_backend = GcpPubSub


def _ask_for_an_answer(session: GoogleSession, descriptor: Descriptor) -> None:
    subscription = next((queue.gcp.subscription for queue in descriptor.queues.values() if queue.gcp), None)
    if subscription:
        session.call("pubsub", "GET", f"v1/{subscription}", action="pubsub.subscriptions.get", pauses=())


def _publish(session: GoogleSession, store: Store, topic: str, array: Array) -> None:
    body = publish_request(array)
    try:
        session.call("pubsub", "POST", f"v1/{topic}:publish", body, action="pubsub.topics.publish")
    except MissingError as error:
        raise CloudError(f"{topic} is not there: the stack was changed or destroyed.", "Ask its owner.") from error
    address = array.address
    name = layout.publication(address.job, address.round, address.array, array.size)
    store.put(name, b"")


def publish_request(array: Array) -> dict[str, Any]:
    """The publish request of an array.

    Raises:
        CallerError: The request is larger than Pub/Sub accepts.
    """
    at = array.address
    messages = fleet.messages(at.job, at.round, at.spec_sha256, at.round_sha256, array.chunks)
    size = len(messages) * len(json.dumps(messages[-1])) + len(messages)
    if len(messages) > SERVICE.array_chunks or size > REQUEST_BYTES:
        raise CallerError(
            f"{array.name} has {len(messages)} messages and {size} bytes; Pub/Sub accepts {SERVICE.array_chunks} and "
            f"{REQUEST_BYTES} in a request."
        )
    return {"messages": messages}


def _of(queue: Queue) -> GcpQueue:
    if queue.gcp is None:
        raise CloudError(_NO_TOPIC)
    return queue.gcp
