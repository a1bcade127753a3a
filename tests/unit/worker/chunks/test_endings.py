"""A worker that dies before it has told the end of a job: the chunk comes again, and the next worker tells."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from tests.unit.worker.fakes import Lease, Runs, Source, Submitted
from tidemill import layout
from tidemill.descriptor import NotifyTarget, WorkerExit
from tidemill.ending import gate
from tidemill.ending.gate import UntoldError
from tidemill.ending.message import Message
from tidemill.store import Store
from tidemill.worker.chunks import endings
from tidemill.worker.machine.stop import Stop, StopReason

SLOW_SECONDS = 1.3
"""As long as a busy service takes for an answer."""


class Topic:
    """A receiver of messages, which hangs until it is let go."""

    def __init__(self, *, hangs: bool = False) -> None:
        self.asked, self.goes = threading.Event(), threading.Event()
        self.took: list[Message] = []
        if not hangs:
            self.goes.set()

    def publish(self, topic: str, message: Message) -> None:
        self.asked.set()
        self.goes.wait(60)
        self.took.append(message)


@pytest.fixture
def topic() -> Any:
    """A topic that hangs; whoever waits for it goes at the test's end."""
    made = Topic(hangs=True)
    yield made
    made.goes.set()


class Array(Source):
    """As of a container on AWS Batch."""

    many_jobs = False


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endings, "LOOK_SECONDS", 0.02)


def to_tell(store: Store, **more: Any) -> Submitted:
    return Submitted(store, notify=NotifyTarget(to="oncall", topic="t"), **more)


def dies_while_it_tells(serve: Any, source: Source, topic: Topic, code: WorkerExit) -> None:
    """Run a worker whose machine is taken while its message is on its way."""
    stop = Stop()

    def notice() -> None:
        topic.asked.wait(60)
        stop.set(StopReason.NOTICE, left=endings.LAST_SECONDS + 0.2)

    thread = threading.Thread(target=notice)
    thread.start()
    assert serve(source, stop=stop, publish=topic.publish).run() is code
    thread.join(60)


@pytest.mark.parametrize("kind", [Source, Array])
def test_the_next_worker_tells(store, serve, topic, monkeypatch, kind):
    job = to_tell(store)
    lease = Lease(job)
    code = WorkerExit.RECLAIMED if kind is Array else WorkerExit.DONE
    dies_while_it_tells(serve, kind(lease, endless=kind is Source), topic, code)
    assert lease.ended == []
    assert job.ledger.done_chunks(0) == {0}

    monkeypatch.setattr(gate, "TELLER_SECONDS", 0.3)
    again, runs, next_topic = Lease(job), Runs(), Topic()
    assert serve(kind(again), runs, publish=next_topic.publish).run() is WorkerExit.DONE
    assert again.ended == ["ack"]
    assert runs.ran == []
    assert [message.state for message in next_topic.took] == ["succeeded"]


def test_a_container_whose_message_is_on_its_way_waits_for_it(store, serve, topic):
    lease = Lease(to_tell(store))
    threading.Timer(0.3, topic.goes.set).start()
    assert serve(Array(lease), publish=topic.publish).run() is WorkerExit.DONE
    assert lease.ended == ["ack"]
    assert len(topic.took) == 1


def test_a_machine_works_on_while_its_message_is_on_its_way(store, serve, topic):
    first, other = Lease(to_tell(store)), Lease(Submitted(store))
    source = Source(first, endless=True)
    stop, seen = Stop(), []

    def watch() -> None:
        topic.asked.wait(60)
        source.waiting.append(other)
        while not other.ended:
            stop.wait(0.02)
        seen.append(list(first.ended))
        topic.goes.set()
        while not first.ended:
            stop.wait(0.02)
        stop.set(StopReason.AGE)

    thread = threading.Thread(target=watch)
    thread.start()
    serve(source, stop=stop, publish=topic.publish).run()
    thread.join(60)
    assert seen == [[]]
    assert (first.ended, other.ended) == (["ack"], ["ack"])


def test_a_receiver_that_refuses_keeps_no_chunk(store, serve):
    def refuse(topic: str, message: Message) -> None:
        raise UntoldError("HTTP 500")

    job = to_tell(store)
    lease = Lease(job)
    assert serve(Array(lease), publish=refuse).run() is WorkerExit.DONE
    assert lease.ended == ["ack"]
    assert store.exists(f"{layout.told_claim(job.spec.job, 0, 0)}.failed")


@pytest.mark.parametrize("reason", [StopReason.NOTICE, StopReason.SIGNAL])
def test_a_message_on_its_way_has_the_time_that_the_machine_has(store, serve, topic, reason):
    job = to_tell(store)
    lease, stop = Lease(job), Stop()

    def stopped() -> None:
        topic.asked.wait(60)
        stop.set(reason)
        time.sleep(SLOW_SECONDS)
        topic.goes.set()

    thread = threading.Thread(target=stopped)
    thread.start()
    serve(Array(lease), stop=stop, publish=topic.publish).run()
    thread.join(60)
    assert lease.ended == ["ack"]
    assert store.exists(layout.told_sent(job.spec.job, 0))


def test_the_worker_that_finds_its_job_cancelled_waits_for_its_message(store, serve, topic):
    """Otherwise another worker would take it for dead, and tell once more."""
    job = to_tell(store)
    job.ledger.cancel()

    def slow() -> None:
        topic.asked.wait(60)
        time.sleep(SLOW_SECONDS)
        topic.goes.set()

    threading.Thread(target=slow).start()
    assert serve(Array(Lease(job)), publish=topic.publish).run() is WorkerExit.STOPPED
    assert store.exists(layout.told_sent(job.spec.job, 0))
