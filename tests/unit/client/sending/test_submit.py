"""Submitting to a queue in memory. What this cannot prove: that AWS Batch takes these arrays."""

import hashlib
from typing import Any

import pytest

import tidemill
from tests.stored import read_items
from tests.unit.client_fakes import pipeline, uris
from tidemill.client.plan.chunks import arrays_of, choose_chunk_size, plan_chunks
from tidemill.descriptor import SPEC_VERSION
from tidemill.errors import CallerError
from tidemill.ledger import Ledger
from tidemill.services.backend import ArrayAddress

COMMAND = ["python3", "features.py", "{input}", "{output}"]


def test_a_submit_writes_the_manifest_the_spec_and_the_round_and_enqueues_one_array():
    target, backend = pipeline()
    job = target.submit(COMMAND, uris(10), queue="cpu", name="tiles", chunk_size=3)
    ledger = Ledger(target.store, job.id)
    assert [item.uri for item in read_items(target.store, job.id)] == uris(10)
    assert (job.spec.items_total, job.spec.chunks_total, job.spec.chunk_size) == (10, 4, 3)
    assert job.spec.user == "ada"
    assert [array.name for array in ledger.round(0).arrays] == [f"{job.id}-r0-a0"] == backend.names
    spec = target.store.get(f"jobs/{job.id}/job.json")
    round_ = target.store.get(f"jobs/{job.id}/rounds/0.json")
    address = ArrayAddress(job.id, 0, 0, hashlib.sha256(spec).hexdigest(), hashlib.sha256(round_).hexdigest())
    assert backend.arrays[0].array.address == address
    assert job.enqueued == 1


def test_the_same_name_and_items_are_the_same_job():
    target, backend = pipeline()
    first = target.submit(COMMAND, uris(10), queue="cpu", name="tiles")
    second = target.submit(COMMAND, uris(10), queue="cpu", name="tiles")
    assert (first.id, second.enqueued) == (second.id, 0)
    assert len(backend.arrays) == 1
    assert target.submit(COMMAND, uris(11), queue="cpu", name="tiles").id != first.id
    assert target.submit([*COMMAND, "-v"], uris(10), queue="cpu", name="tiles").id != first.id


def test_without_a_name_every_submit_is_a_job_of_its_own():
    target, _ = pipeline()
    ids = {target.submit(COMMAND, uris(2), queue="cpu").id for _ in range(2)}
    assert len(ids) == 2
    assert all(job.startswith("features-") for job in ids)


def test_a_name_that_other_jobs_have_is_said():
    target, _ = pipeline()
    said: list[str] = []
    first, second, _ = [target.submit(COMMAND, uris(n), queue="cpu", name="tiles", log=said.append) for n in (2, 3, 3)]
    assert [text for text in said if first.id in text] == [
        f"{second.id} differs from {first.id}: items (3, 2 there); `tidemill wait {first.id}` goes on with that one."
    ]
    assert said[-1] == f"{second.id} already exists: 0 of 3 items are done."


def test_slots_have_no_effect_on_gcp():
    target, _ = pipeline(cloud="gcp")
    said: list[str] = []
    job = target.submit(COMMAND, uris(1), queue="cpu", slots=64, log=said.append)
    assert job.spec.slots == 1
    assert "`slots` has no effect on GCP" in said[0]


def test_a_python_function_is_no_command():
    target, _ = pipeline(max_spec=4)
    command: Any = len
    with pytest.raises(CallerError, match="Give it as `function`"):
        target.submit(command, uris(1), queue="cpu")
    assert target.submit(None, uris(1), queue="cpu", function=len).spec.function == "builtins:len"


def test_what_people_type_shows_what_it_is():
    target, _ = pipeline()
    job = target.submit(COMMAND, uris(3), queue="cpu", name="tiles")
    assert repr(job) == f"<Job {job.id}: 3 items, memory:///pipeline.json>"
    assert repr(target) == "<Pipeline memory:///pipeline.json: queues cpu, gpu>"
    assert {"Item", "Job", "Outcome", "Pipeline"} <= set(dir(tidemill))
    assert all(getattr(tidemill, name) for name in dir(tidemill))


def test_arrays_are_balanced_and_never_of_one():
    for chunks, sizes in [
        (1, [1]),
        (2, [2]),
        (10_000, [10_000]),
        (10_001, [5_001, 5_000]),
        (20_001, [6_667, 6_667, 6_667]),
        (50_000, [10_000] * 5),
    ]:
        arrays = arrays_of("tiles-00000000", 0, range(chunks), 10_000)
        assert [array.size for array in arrays] == sizes
        assert [chunk for array in arrays for chunk in array.all()] == list(range(chunks))


def test_a_list_of_chunks_stays_a_list():
    (array,) = arrays_of("tiles-00000000", 3, [5, 7, 90], 10_000)
    assert (array.name, array.chunks) == ("tiles-00000000-r3-a0", [5, 7, 90])


@pytest.mark.parametrize(
    ("items", "slots", "seconds", "asked", "size"),
    [
        (300, 4, None, None, 24),
        (300, 4, 120, None, 2),
        (300, 300, None, None, 1),
        (10, 4000, None, None, 1),
        (5_000_000, 10**9, 3600, None, 100),
        (300, 4, None, 6, 6),
    ],
)
def test_chunk_sizes(items, slots, seconds, asked, size):
    assert choose_chunk_size(items, slots, seconds, asked) == size


@pytest.mark.parametrize(
    ("items", "slots", "seconds", "asked", "sizes"),
    [
        (300, 4, None, None, [3, 3, 3, 3, *[24] * 12]),
        (300, 4, 10, None, [*[24] * 12, 12]),
        (300, 4, None, 100, [100, 100, 100]),
        (100, 4, None, None, [24, 24, 24, 24, 4]),
        (5, 1000, None, None, [1] * 5),
    ],
)
def test_the_first_chunks_are_small_only_where_nobody_knows_how_long_an_item_takes(items, slots, seconds, asked, sizes):
    plan = plan_chunks(items, slots, seconds, asked)
    assert plan.chunks == len(sizes)
    assert sum(sizes) == items
    given = list(plan.sizes())
    assert given[:-1] == sizes[:-1]
    assert given[-1] >= sizes[-1]


@pytest.mark.parametrize("items", [1, 49_999, 50_000, 50_001, 1_199_999, 1_200_000, 1_200_001, 7_654_321])
def test_a_job_never_has_more_than_fifty_thousand_chunks_and_never_an_array_of_one(items):
    for seconds in (None, 0.001, 10, 100_000):
        plan = plan_chunks(items, 10**9, seconds, None)
        assert plan.chunks <= 50_000
        arrays = arrays_of("tiles-00000000", 0, range(plan.chunks), 10_000)
        assert all(array.size <= 10_000 for array in arrays)
        assert plan.chunks == 1 or min(array.size for array in arrays) > 1


def test_what_is_sent_is_what_was_fingerprinted_whoever_writes_to_the_list_meanwhile(tmp_path):
    target, backend = pipeline()
    items = tmp_path / "items.txt"
    items.write_text("\n".join(uris(4)))
    known = backend.queue_states

    def write_meanwhile(queues):
        items.write_text("\n".join(reversed(uris(4))))
        return known(queues)

    backend.queue_states = write_meanwhile
    job = target.submit(COMMAND, items, queue="cpu", name="tiles")
    assert [item.uri for item in read_items(target.store, job.id)] == uris(4)
    items.write_text("\n".join(uris(4)))
    assert target.submit(COMMAND, items, queue="cpu", name="tiles").id == job.id


def test_a_generator_is_read_once_and_kept_on_disk():
    target, _ = pipeline()
    job = target.submit(COMMAND, (uri for uri in uris(100)), queue="cpu")
    assert [item.uri for item in read_items(target.store, job.id)] == uris(100)


@pytest.mark.parametrize(
    ("items", "most", "asked", "chunks", "size"),
    [
        (10, 3, None, 3, 4),
        (10, 1, None, 1, 10),
        (3, 50, None, 3, 1),
        (10, 4, 5, 2, 5),
        (1_000_000, 7, None, 7, 142_858),
    ],
)
def test_a_limit_of_items_at_once_is_a_limit_of_chunks(items, most, asked, chunks, size):
    plan = plan_chunks(items, 1000, None, asked, most)
    assert (plan.chunks, plan.chunk_size, sum(plan.sizes()) >= items) == (chunks, size, True)
    assert plan.chunks <= most


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"max_parallel": 0}, "max_parallel"),
        ({"max_parallel": 2, "chunk_size": 1}, "chunk_size"),
        ({"max_parallel": 2, "slots": 2}, "slots"),
    ],
)
def test_a_limit_of_items_at_once_that_cannot_be_kept_is_refused(options, what):
    target, backend = pipeline(max_spec=SPEC_VERSION)
    with pytest.raises(CallerError) as error:
        target.submit(COMMAND, uris(10), queue="cpu", **options)
    assert error.value.what == what
    assert backend.arrays == []


def test_every_round_keeps_the_limit_of_items_at_once():
    target, backend = pipeline(max_spec=SPEC_VERSION)
    job = target.submit(COMMAND, uris(10), queue="cpu", max_parallel=3)
    backend.run(target, job.id, fail_items=[0, 4, 9], skip_chunks=[1])
    job.resume()
    job.retry()
    sizes = [fake.array.size for fake in backend.arrays]
    assert sizes[0] == 3
    assert max(sizes) <= 3
    assert job.spec.max_parallel == 3
