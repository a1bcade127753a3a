"""Telling the end of a job from a worker: the one that commits the last chunk, or finds the job cancelled.

It happens in a thread of its own. A receiver that is slow delays neither items nor commits, and a worker that leaves
waits for it within bounds. The chunk is acknowledged afterwards, so that a worker that dies is followed by one that
finds the chunk done and tells.
"""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable

from tidemill import layout
from tidemill.completion import last_chunks, owners
from tidemill.ending.gate import TELLER_SECONDS, UntoldError, tell
from tidemill.ending.message import Message, message_of
from tidemill.errors import TidemillError
from tidemill.job import JobSpec
from tidemill.ledger import Ledger, Round
from tidemill.store import PAGE, Store
from tidemill.worker.chunks.jobs import LeasedJob
from tidemill.worker.machine.stop import Stop
from tidemill.worker.output import log

LOOK_SECONDS = 2.0
"""Between two looks whether another teller's message has arrived."""
LEAVE_SECONDS = TELLER_SECONDS + 20.0
"""How long a worker that has nothing else to do waits for a message that is on its way. A teller needs a minute at
most, but a dead one's place is taken later."""
LAST_SECONDS = 3.0
"""Seconds that a worker keeps free at the end of its machine or container."""
JOIN_SECONDS = 0.05
Publish = Callable[[str, Message], None]
"""Sends a message to a topic within bounds, or raises `UntoldError`."""


def no_topics(topic: str, message: Message) -> None:
    """A machine without a cloud reaches none."""
    raise UntoldError(f"{topic.rpartition(':')[2]}: this machine has no cloud's login")


class Endings:
    """Tells the ends of jobs that ask for it, one after the other."""

    def __init__(self, store: Store, publish: Publish = no_topics) -> None:
        self._store, self._publish = store, publish
        self._wanted: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._cancelled: set[str] = set()

    def committed(self, job: LeasedJob, chunk: int) -> threading.Event | None:
        """A chunk has its record: it may have been the last one. Returns what is set when nothing is left to tell."""
        if job.spec.notify is None:
            return None
        over = threading.Event()

        def tell() -> None:
            try:
                if may_be_last(job.ledger, job.round, chunk):
                    self._tell(job.spec, patient=True)
            finally:
                over.set()

        self._later(tell)
        return over

    def cancelled(self, job: str) -> None:
        """A job was found cancelled, perhaps by this worker."""
        if job not in self._cancelled:
            self._cancelled.add(job)
            self._later(lambda: self._tell(Ledger(self._store, job).spec()))

    def close(self, stop: Stop) -> None:
        """Wait for what is to be told, as long as the machine lasts: a message without its record is sent again."""
        if self._thread is None:
            return
        self._wanted.put(None)
        until = time.monotonic() + LEAVE_SECONDS
        while self._thread.is_alive() and time.monotonic() < min(until, _ends_at(stop)):
            self._thread.join(JOIN_SECONDS)

    def _later(self, tell: Callable[[], None]) -> None:
        self._wanted.put(tell)
        if self._thread is None:
            # A daemon: a receiver that hangs must not keep the process.
            self._thread = threading.Thread(target=self._run, name="endings", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while wanted := self._wanted.get():
            try:
                wanted()
            except TidemillError as error:
                log(f"the end of a job was not told: {error}", "warning")
            except Exception as error:
                # Nothing that a receiver does may end a worker.
                log(f"the end of a job was not told: {type(error).__name__}", "warning")

    def _tell(self, spec: JobSpec, *, patient: bool = False) -> None:
        """Tell the end of a job if it has ended; `patient` waits for what becomes of another one's message."""
        if spec.notify is None:
            return
        message = message_of(spec, Ledger(self._store, spec.job, spec.manifest).listing())
        if message is None:
            return
        until = time.monotonic() + (LEAVE_SECONDS if patient else 0.0)
        while (status := tell(self._store, message, "worker", self._sender(spec.notify.topic))) == "sending":
            if time.monotonic() >= until:
                break
            time.sleep(LOOK_SECONDS)
        level = "info" if status in ("sent", "sending") else "warning"
        log(f"end of the job told to {spec.notify.to}: {status}", level, job=spec.job)

    def _sender(self, topic: str | None) -> Callable[[Message], None]:
        if topic is None:
            # Imported late: most jobs have none, and every worker would wait for it.
            from tidemill.ending.webhook import Webhook

            return Webhook(self._store, "machine" if self._store.is_object_store else "here").send
        return lambda message: self._publish(topic, message)


def _ends_at(stop: Stop) -> float:
    return stop.ends_at - LAST_SECONDS if stop.raised else math.inf


def may_be_last(ledger: Ledger, round_: Round, chunk: int) -> bool:
    """True if a chunk that was committed in a round may have been the last one of its job.

    Chunks end about in their order, so while a job runs a question for each round suffices: whether the highest of its
    other chunks is done. A chunk that a later round has taken over is looked up there. A worker that sees all of these
    done lists a sixteenth of the rounds; only the last one in its sixteenth goes on.
    """
    rounds = ledger.rounds()
    others = owners(rounds)
    if others.get(chunk) == round_.round:
        del others[chunk]
    if not all(ledger.store.exists(layout.done(ledger.job, at, last)) for at, last in last_chunks(others).items()):
        return False
    if len(others) < PAGE:
        return True
    mine = {other: at for other, at in others.items() if other % 16 == chunk % 16}
    done = {at: _done_in(ledger, at, chunk) for at in set(mine.values())}
    return all(other in done[at] for other, at in mine.items())


def _done_in(ledger: Ledger, number: int, chunk: int) -> set[int]:
    """The chunks that are done in a round, of the sixteenth that a chunk is in."""
    shard = f"{layout.of_round(ledger.job, number, 'done')}/{layout.SHARDS[chunk % 16]}"
    return {layout.chunk_of_done(name) for name in ledger.store.list(shard)}
