"""A submit, retry or resume that dies at any step and is run again. What this cannot prove: a real kill -9 in a write.

A step is a write to the store or an array handed to the queue; the process dies just before or just after it.
"""

from dataclasses import replace

import pytest

from tests.stored import read_items
from tests.unit.client_fakes import FakeBackend, descriptor, uris
from tidemill.client import Pipeline
from tidemill.client.rounds import deliveries
from tidemill.ledger import Ledger
from tidemill.store import Store

ITEMS, CHUNK, ARRAY = 25, 2, 5
CHUNKS = -(-ITEMS // CHUNK)


class KilledError(BaseException):
    """The process dies here."""


class Steps:
    """Counts the steps of a pipeline, and ends the process at one of them."""

    def __init__(self, store: Store, backend: FakeBackend) -> None:
        self.seen: list[str] = []
        self.at: int | None = None
        self.before = True
        for name in ("put", "create"):
            setattr(store, name, self._step(getattr(store, name), f"{name} {{0}}"))
        real = backend.enqueue
        one = self._step(lambda array, shape: real(shape, [array]), "enqueue {0.name}")

        def enqueue(shape, arrays) -> None:
            for array in arrays:
                one(array, shape)

        backend.enqueue = enqueue

    def _step(self, call, words):
        def step(*arguments):
            self.seen.append(words.format(*arguments))
            dies = self.at == len(self.seen)
            if dies and self.before:
                raise KilledError
            answer = call(*arguments)
            if dies:
                raise KilledError
            return answer

        return step

    def killed(self, call, step, before):
        """Run a call that dies at a step. Returns false if it has no such step."""
        self.seen, self.at, self.before = [], step, before
        try:
            call()
        except KilledError:
            return True
        finally:
            self.at = None
        return False


@pytest.fixture
def world(monkeypatch):
    monkeypatch.setattr("tidemill.manifest.PART_BYTES", 150)
    monkeypatch.setattr(deliveries, "SUBMIT_GRACE_SECONDS", -1)

    def make():
        backend, store = FakeBackend(), Store.open("memory://")
        backend.service = replace(backend.service, array_chunks=ARRAY)
        return Pipeline(descriptor(), store, backend), backend, Steps(store, backend)

    return make


def submit(target):
    return target.submit(["x", "{uri}"], uris(ITEMS), queue="cpu", name="tiles", chunk_size=CHUNK)


def enqueued(target, backend, job, number):
    """Chunks that the queue received in a round, with repeats."""
    arrays = {array.name: array for array in Ledger(target.store, job.id).round(number).arrays}
    return sorted(
        chunk for fake in backend.arrays if fake.array.name in arrays for chunk in arrays[fake.array.name].all()
    )


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_submit_that_dies_at_any_step_is_finished_by_the_same_command(world, before):
    step = 0
    while True:
        target, backend, steps = world()
        if not steps.killed(lambda target=target: submit(target), step := step + 1, before):
            break
        died_at = steps.seen[-1]
        job = submit(target)
        assert enqueued(target, backend, job, 0) == list(range(CHUNKS)), died_at
        assert [item.uri for item in read_items(target.store, job.id)] == uris(ITEMS), died_at
        assert len(target.jobs()) == 1, died_at
        backend.run(target, job.id)
        assert job.status().state == "succeeded", died_at
        assert submit(target).enqueued == 0, died_at
    # The probe, several parts, the index, the spec, the round and three arrays were all stepped on.
    assert step > 9


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_submit_without_a_name_says_before_it_enqueues_what_finishes_it(world, before):
    step = 0
    while True:
        target, backend, steps = world()
        said: list[str] = []
        call = lambda target=target, said=said: target.submit(  # noqa: E731 one call, of this world
            ["x", "{uri}"], uris(ITEMS), queue="cpu", chunk_size=CHUNK, log=said.append
        )
        if not steps.killed(call, step := step + 1, before):
            break
        died_at = steps.seen[-1]
        told = [word.strip("`") for text in said if "tidemill resume" in text for word in text.split()]
        if not told:
            assert backend.arrays == [], died_at
            continue
        job = target.job(told[told.index("resume") + 1])
        job.resume()
        rounds = Ledger(target.store, job.id).rounds()
        chunks = [chunk for r in rounds for chunk in enqueued(target, backend, job, r.round)]
        assert sorted(chunks) == list(range(CHUNKS)), died_at
    assert step > 9


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("verb", ["retry", "resume"])
def test_a_retry_or_resume_that_dies_at_any_step_is_finished_by_resume(world, verb, before):
    step = 0
    while True:
        target, backend, steps = world()
        job = submit(target)
        backend.run(target, job.id, fail_items=[0, 9, 24] if verb == "retry" else (), skip_chunks=[1, 7, 12])
        wanted = [0, 4] if verb == "retry" else [1, 7, 12]
        if not steps.killed(getattr(job, verb), step := step + 1, before):
            break
        died_at = steps.seen[-1]
        if verb == "retry":
            job.retry()
        job.resume()
        again = [chunk for number in range(1, len(Ledger(target.store, job.id).rounds())) for chunk in
                 enqueued(target, backend, job, number)]  # fmt: skip
        lost = [1, 7, 12] if verb == "retry" else []
        assert sorted(again) == sorted({*wanted, *lost}), died_at
    assert step > 2


def test_two_submits_at_once_leave_one_of_each_array(world):
    target, backend, _steps = world()
    real, inside = backend.enqueue, []

    def enqueue(shape, arrays):
        if not inside:
            inside.append(True)
            submit(target)
        real(shape, arrays)

    backend.enqueue = enqueue
    job = submit(target)
    standing = [fake for fake in backend.arrays if not fake.terminated]
    assert sorted(fake.array.name for fake in standing) == [f"{job.id}-r0-a{k}" for k in range(3)]
    assert len(backend.arrays) == 6
    backend.run(target, job.id)
    assert job.status().state == "succeeded"


def test_a_submit_that_died_is_finished_with_its_own_chunks_whatever_the_next_one_would_choose(monkeypatch):
    """How long an item takes, and so a chunk's size, does not affect whether it is the same job."""
    backend, store = FakeBackend(), Store.open("memory://")
    target, create = Pipeline(descriptor(), store, backend), Store.create

    def submit(seconds):
        return target.submit(["x", "{uri}"], uris(2000), queue="cpu", name="tiles", item_seconds=seconds)

    def killed(store, name, data):
        if name.endswith("job.json"):
            raise KilledError
        return create(store, name, data)

    monkeypatch.setattr(Store, "create", killed)
    with pytest.raises(KilledError):
        submit(1)
    monkeypatch.setattr(Store, "create", create)
    job = submit(60)
    sizes = [Ledger(store, job.id).index().size(chunk) for chunk in range(job.spec.chunks_total)]
    assert (sum(sizes), max(sizes)) == (2000, job.spec.chunk_size)
    assert (
        job.spec.chunks_total
        < target.submit(["x", "{uri}"], uris(2000), queue="cpu", item_seconds=60).spec.chunks_total
    )
    assert [item.uri for item in read_items(store, job.id)] == uris(2000)
    backend.run(target, job.id)
    assert (job.status().state, job.status().succeeded) == ("succeeded", 2000)
