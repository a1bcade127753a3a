"""The lease of Pub/Sub: a machine serves a subscription for days, a message is a chunk.

A message carries no data. Its attributes name the chunk (``job``, ``round``, ``chunk``) and what its job and round must
hash to (``job_sha256``, ``round_sha256``); outcomes live in the store, so that a message which comes twice, or comes
again because its lease was lost, does no harm.
"""

from __future__ import annotations

import queue
import random
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

from tidemill.errors import CallerError
from tidemill.ledger import Round
from tidemill.services.pubsub.lease.holder import Holder
from tidemill.services.pubsub.lease.subscription import PubSubError, PubSubRefusedError, Subscription
from tidemill.worker.machine.idle import IdlePolicy
from tidemill.worker.output import log

REFUSED_SECONDS = 120.0
"""How long refusals are tolerated: a grant that a stack made a moment ago is not everywhere at once
(https://cloud.google.com/iam/docs/access-change-propagation)."""
UNREACHABLE_SECONDS = 600.0
"""How long a machine without work tolerates a subscription that does not answer."""
EMPTY_SECONDS = 1.0
"""Seconds from an empty pull's start to the next pull: Pub/Sub may answer an empty pull at once."""
LONGEST_PAUSE = 30.0
CLOSE_SECONDS = 10.0
"""Seconds for returning everything at the end."""
Finish = Literal["ack", "release", "forget"]


class PubSubLease:
    """The chunk that a pulled message stands for. `finish` is called with its ackId, and with what becomes of it."""

    def __init__(self, received: Mapping[str, Any], finish: Callable[[str, Finish], None]) -> None:
        message = received.get("message") or {}
        attributes: Mapping[str, str] = message.get("attributes") or {}
        self._finish, self._ack_id = finish, str(received["ackId"])
        self.job = _attribute(attributes, "job")
        self.round = _number(attributes, "round")
        self._chunk = _number(attributes, "chunk")
        self.job_sha256: str | None = _attribute(attributes, "job_sha256")
        self.round_sha256: str | None = _attribute(attributes, "round_sha256")
        self.delivery = max(1, int(received.get("deliveryAttempt") or 1))
        self.id = f"a{self.delivery}-{secrets.token_hex(6)}"
        self.backend: dict[str, Any] = {"message_id": message.get("messageId", ""), "attempt": self.delivery}

    def chunk(self, round_: Round) -> int:
        """The chunk of the message; `CallerError` if the round has no such chunk."""
        if round_.has(self._chunk):
            return self._chunk
        raise CallerError.about("chunk", self._chunk, f"one that round {self.round} enqueued", "Resume the job.")

    def extend(self) -> None:
        """Nothing to do: it is held until it is acknowledged or released."""

    def progressed(self) -> None:
        """Nothing to do: Pub/Sub counts every delivery."""

    def ack(self) -> None:
        self._finish(self._ack_id, "ack")

    def release(self) -> None:
        self._finish(self._ack_id, "release")

    def abandon(self) -> None:
        # To give it back could take it from the worker that has it now.
        self._finish(self._ack_id, "forget")


class PubSubLeases:
    """The chunks of a machine on GCP. `idle` decides when the worker leaves."""

    many_jobs = True

    def __init__(self, subscription: Subscription, idle: IdlePolicy) -> None:
        self._subscription, self._idle = subscription, idle
        self._holder = Holder(subscription)
        self._asked: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[dict[str, Any] | PubSubError | None] = queue.SimpleQueue()
        self._pulling = False
        self._ended = self._closed = False
        self._failures = 0
        self._failing_since = self._pull_at = self._asked_at = 0.0
        threading.Thread(target=self._pull, name="pull", daemon=True).start()

    @property
    def exhausted(self) -> bool:
        """True if the worker leaves: idle for long enough, or its machine is too old, and no pull is under way."""
        return self._ended and not self._pulling

    def end(self) -> None:
        """Pull nothing more, and end a waiting pull: it would receive what is returned."""
        self._ended = True
        self._subscription.abort()

    def lease(self, wait_seconds: float) -> PubSubLease | None:
        """The next chunk or None; `CallerError` if this machine may not use the subscription and nothing is held
        any more."""
        if not self._pulling:
            if not self._may_pull():
                time.sleep(min(wait_seconds, max(0.0, self._pull_at - time.monotonic())))
                return None
            self._pulling, self._asked_at = True, time.monotonic()
            self._asked.put(None)
        try:
            answer = self._answers.get(timeout=wait_seconds) if wait_seconds > 0 else self._answers.get_nowait()
        except queue.Empty:
            return None
        self._pulling = False
        if self._ended:
            if isinstance(answer, dict):
                self._holder.release(answer["ackId"])
            return None
        if isinstance(answer, PubSubError):
            self._failed(answer)
            return None
        self._failures = 0
        return self._opened(answer)

    def close(self) -> None:
        """Return everything that is held, and what a pull that is still under way may bring."""
        self._closed = True
        self.end()
        self._holder.close(CLOSE_SECONDS)

    def _may_pull(self) -> bool:
        if not self._ended and not self._idle.may_lease():
            log("machine is near its maximum run time; leasing no more chunks")
            self._ended = True
        return not self._ended and time.monotonic() >= self._pull_at

    def _opened(self, received: dict[str, Any] | None) -> PubSubLease | None:
        self._idle.pulled(empty=received is None)
        if received is None:
            self._pull_at = self._asked_at + EMPTY_SECONDS
            if self._holder.held:
                self._idle.busy()
            elif self._idle.leave():
                log("idle timeout reached; shutting down")
                self._ended = True
            return None
        try:
            return PubSubLease(received, self._finish)
        except ValueError as error:
            # Otherwise it would be delivered again and again.
            log(f"acknowledged a message that is not a chunk: {error}", "error", received=received.get("message"))
            self._finish(received["ackId"], "ack")
            return None

    def _finish(self, ack_id: str, what: Finish) -> None:
        finish = {"ack": self._holder.ack, "release": self._holder.release, "forget": self._holder.forget}
        finish[what](ack_id)
        self._idle.busy()

    def _failed(self, error: PubSubError) -> None:
        """A pull failed, which says nothing about the queue. Without work, that is tolerated only for a while."""
        now = time.monotonic()
        if not self._failures:
            self._failing_since = now
            log(f"cannot pull messages: {error}", "warning")
        self._failures += 1
        self._pull_at = now + min(LONGEST_PAUSE, 0.5 * 2 ** min(self._failures, 10)) * random.uniform(0.5, 1.0)
        borne = REFUSED_SECONDS if isinstance(error, PubSubRefusedError) else UNREACHABLE_SECONDS
        if now - self._failing_since >= borne and not self._holder.held:
            hint = "Look at the subscription and at what the worker's service account may do; then run `pulumi up`."
            raise CallerError(f"No chunk can be leased: {error}", hint)

    def _pull(self) -> None:
        """In a thread of its own: a pull waits for a message far longer than the loop may."""
        while not self._closed:
            self._asked.get()
            try:
                answer = self._subscription.pull()
            except PubSubError as error:
                self._answers.put(error)
                continue
            except Exception as error:  # a thread that dies silently would hang the worker
                self._answers.put(PubSubError(f"pull on {self._subscription.name}: {error!r}"))
                continue
            if answer is not None:
                # It is held from now on, even if the loop takes it later.
                if self._closed:
                    self._holder.release(answer["ackId"])
                else:
                    self._holder.hold(answer["ackId"])
            self._answers.put(answer)


def _attribute(attributes: Mapping[str, str], name: str) -> str:
    value = attributes.get(name)
    if not value:
        raise ValueError(f"it has no attribute {name}")
    return value


def _number(attributes: Mapping[str, str], name: str) -> int:
    value = _attribute(attributes, name)
    if not value.isascii() or not value.isdigit():
        raise ValueError(f"its attribute {name} is {value[:40]!r}, no whole number")
    return int(value)
