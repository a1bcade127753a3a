"""Holds messages for as long as the work on them takes: one small thread that extends their deadlines, and tells the
subscription when they are done or given back. A worker never waits for it.

Client libraries give a message up after an hour (https://github.com/googleapis/python-pubsub/issues/593); this one
holds it until it is told otherwise.
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass
from typing import Literal, Protocol

from tidemill.services.pubsub.lease.subscription import PubSubError, PubSubRefusedError
from tidemill.worker.output import log

DEADLINE_SECONDS = 600
"""The longest deadline that Pub/Sub accepts (https://cloud.google.com/pubsub/docs/lease-management)."""
EXTEND_SECONDS = 200.0
"""Seconds between two extensions at most: two may fail and the third is still in time. Up to a fifth less, so that
machines that started together do not extend together."""
AGAIN_SECONDS = 5.0
"""Seconds before a failed extension is tried again."""
TRIES = 6
"""Attempts to acknowledge, over about a minute. If all fail, the chunk is redelivered and found already done."""
_What = Literal["extend", "ack", "release"]


class Calls(Protocol):
    """The calls of a subscription."""

    def extend(self, ack_ids: list[str], seconds: int) -> None:
        """Hold messages."""
        ...

    def acknowledge(self, ack_ids: list[str]) -> None:
        """They are done."""
        ...


@dataclass
class _Message:
    what: _What
    due: float
    tries: int = 0


class Holder:
    """Holds messages of a subscription."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._messages: dict[str, _Message] = {}
        self._changed = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="leases", daemon=True)
        self._thread.start()

    @property
    def held(self) -> int:
        with self._changed:
            return sum(message.what == "extend" for message in self._messages.values())

    def hold(self, ack_id: str) -> None:
        """Hold a message, from now on: the subscription's own deadline may be short."""
        self._tell(ack_id, "extend")

    def ack(self, ack_id: str) -> None:
        self._tell(ack_id, "ack")

    def release(self, ack_id: str) -> None:
        self._tell(ack_id, "release")

    def forget(self, ack_id: str) -> None:
        """Hold a message no longer, and send nothing."""
        with self._changed:
            self._messages.pop(ack_id, None)
            self._changed.notify_all()

    def close(self, seconds: float) -> None:
        """Return what is still held, and wait at most this long until everything is sent."""
        with self._changed:
            for ack_id, message in self._messages.items():
                if message.what == "extend":
                    self._messages[ack_id] = _Message("release", time.monotonic())
            self._ended = True
            self._changed.notify_all()
        self._thread.join(seconds)

    def _tell(self, ack_id: str, what: _What) -> None:
        with self._changed:
            self._messages[ack_id] = _Message(what, time.monotonic())
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                now = time.monotonic()
                due = {ack_id: message for ack_id, message in self._messages.items() if message.due <= now}
                if not due:
                    if self._ended and not self._messages:
                        return
                    next_ = min((message.due for message in self._messages.values()), default=None)
                    self._changed.wait(None if next_ is None else next_ - now)
                    continue
            # An acknowledgement first: it may be what frees a machine.
            for what in ("ack", "release", "extend"):
                self._say(what, {ack_id: message for ack_id, message in due.items() if message.what == what})

    def _say(self, what: _What, messages: dict[str, _Message]) -> None:
        if not messages:
            return
        try:
            self._call(what, list(messages))
        except PubSubError as error:
            # A message that Pub/Sub refuses must not keep the others from being held.
            if len(messages) > 1 and isinstance(error, PubSubRefusedError):
                for ack_id, message in messages.items():
                    self._say(what, {ack_id: message})
                return
            self._failed(messages, error)
            return
        for ack_id, message in messages.items():
            due = time.monotonic() + EXTEND_SECONDS * random.uniform(0.8, 1.0) if what == "extend" else None
            self._schedule(ack_id, message, due)

    def _call(self, what: _What, ack_ids: list[str]) -> None:
        if what == "ack":
            self._calls.acknowledge(ack_ids)
        else:
            self._calls.extend(ack_ids, DEADLINE_SECONDS if what == "extend" else 0)

    def _failed(self, messages: dict[str, _Message], error: PubSubError) -> None:
        for ack_id, message in messages.items():
            message.tries += 1
            if message.what == "extend":
                if message.tries == 1:
                    log(f"a lease was not extended: {error}", "warning")
                pause = EXTEND_SECONDS if isinstance(error, PubSubRefusedError) else AGAIN_SECONDS
                self._schedule(ack_id, message, time.monotonic() + pause)
            elif message.tries < TRIES:
                self._schedule(ack_id, message, time.monotonic() + 2**message.tries * random.uniform(0.25, 0.5))
            else:
                action = "acknowledged" if message.what == "ack" else "given back"
                log(f"a chunk was not {action}; it will be delivered again when its lease expires: {error}", "warning")
                self._schedule(ack_id, message, None)

    def _schedule(self, ack_id: str, message: _Message, due: float | None) -> None:
        """Set a message's next time, or forget it, unless it was replaced meanwhile."""
        with self._changed:
            if self._messages.get(ack_id) is not message:
                return
            if due is None:
                del self._messages[ack_id]
            else:
                message.due = due
