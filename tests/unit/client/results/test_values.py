"""`pipeline.map` and the values of a job, on a pipeline in memory. What this cannot prove: a function that runs (see
tests/worker/map/test_map.py)."""

import gc
import io
import pickle
import sys

import numpy
import pytest

from tests.unit.client_fakes import outcome, pipeline, uris
from tidemill.client import Pipeline
from tidemill.client.results import values
from tidemill.client.results.values import decode_value
from tidemill.client.rounds import deliveries
from tidemill.client.sending import mapping
from tidemill.errors import CallerError, DamagedError, ItemFailedError, JobEndedError
from tidemill.ledger import Ledger
from tidemill.manifest import read_chunk

FUNCTION = "os.path:basename"


@pytest.fixture(autouse=True)
def _no_grace(monkeypatch):
    monkeypatch.setattr(deliveries, "SUBMIT_GRACE_SECONDS", -1)


class World:
    """A pipeline whose chunks a test commits one by one, whenever somebody waits."""

    def __init__(self, patch_time, order=(), fail=(), **changes):
        self.pipeline, self.backend = pipeline(max_spec=4, **changes)
        self.order, self.fail = list(order), fail
        patch_time(sleep=lambda seconds: self.work())

    def map(self, items, **settings):
        mapped = self.pipeline.map(FUNCTION, uris(items), queue="cpu", chunk_size=2, **settings)
        self.job = mapped.job
        return mapped

    def work(self):
        if self.order:
            self.commit(self.order.pop(0))

    def commit(self, chunk):
        outcomes = [
            outcome(i.index, i.uri, i.index in self.fail) for i in read_chunk(self.pipeline.store, self.job.id, chunk)
        ]
        for one in outcomes:
            one.value = None if one.status == "failed" else one.index * 10
        Ledger(self.pipeline.store, self.job.id).chunk(0, chunk).commit("a", outcomes)


def test_values_come_in_the_order_of_the_items_as_soon_as_those_before_are_there(patch_time):
    world = World(patch_time, order=[2, 0, 1, 3])
    mapped = world.map(8)
    assert world.job.spec.keep_values
    assert world.job.spec.spec_version == 4
    seen = []
    for value in mapped:
        seen.append((value, len(world.order)))
    # The third chunk is there first, but its values wait for those of the first two.
    assert seen == [(0, 2), (10, 2), (20, 1), (30, 1), (40, 1), (50, 1), (60, 0), (70, 0)]
    assert not world.job.cancelled


def test_records_are_read_a_few_ahead_however_many_there_are(patch_time, monkeypatch):
    world = World(patch_time)
    mapped = world.map(400)
    for chunk in range(200):
        world.commit(chunk)
    read = []
    merged = Ledger.merged
    monkeypatch.setattr(Ledger, "merged", lambda self, chunk, rounds: read.append(chunk) or merged(self, chunk, rounds))
    assert next(mapped) == 0
    assert len(read) <= values._RECORDS_AHEAD + 1
    assert list(mapped) == [index * 10 for index in range(1, 400)]


def test_the_first_failure_is_raised_with_its_traceback_and_ends_the_job(patch_time, capsys):
    world = World(patch_time, order=[0, 1], fail=[3])
    mapped = world.map(6)
    assert [next(mapped) for _ in range(3)] == [0, 10, 20]
    with pytest.raises(ItemFailedError) as raised:
        next(mapped)
    error = raised.value
    assert (error.job, error.index, error.item, error.reason) == (world.job.id, 3, "s3://raw/3.jpg", "exit")
    assert error.traceback in str(error.__cause__)
    assert error.command == f"tidemill logs {world.job.id} --item 3"
    assert pickle.loads(pickle.dumps(error)).index == 3
    assert world.job.cancelled
    assert "is cancelled; what is finished stays" in capsys.readouterr().err
    assert list(mapped) == []


def test_an_error_shows_only_what_it_has():
    failed = ItemFailedError("j", 3, "x", reason="exit", traceback="ValueError: no", command="tidemill logs j")
    assert repr(failed) == "ItemFailedError(\"Item 3 of j, 'x', failed (exit): ValueError: no.\")"
    assert str(pickle.loads(pickle.dumps(failed))) == str(failed)


def test_failures_may_take_the_place_of_values(patch_time):
    world = World(patch_time, order=[0, 1], fail=[1])
    found = list(world.map(4, return_exceptions=True))
    assert [found[0], *found[2:]] == [0, 20, 30]
    assert isinstance(found[1], ItemFailedError)
    assert not world.job.cancelled


def test_a_job_with_a_name_outlives_its_reader_and_the_same_call_reads_on(patch_time, capsys):
    world = World(patch_time, order=[0, 1])
    for value in world.map(4, name="again"):
        assert value == 0
        break
    gc.collect()
    assert not world.job.cancelled
    assert f"`tidemill cancel {world.job.id}` ends it" in capsys.readouterr().err
    first = world.job.id
    assert list(world.map(4, name="again")) == [0, 10, 20, 30]
    assert world.job.id == first


@pytest.mark.parametrize("leave", ["close", "with", "exit"])
def test_a_reader_that_stops_before_the_first_value_cancels_it_too(patch_time, leave):
    world = World(patch_time)
    mapped = world.map(4)
    if leave == "close":
        mapped.close()
    elif leave == "with":
        with pytest.raises(KeyboardInterrupt), mapped:
            raise KeyboardInterrupt
    else:
        mapping._close_all()
    assert world.job.cancelled
    assert list(mapped) == []


def test_a_reader_that_stops_cancels_a_job_without_a_name(patch_time):
    world = World(patch_time, order=[0])
    with world.map(4) as mapped:
        next(mapped)
        assert not world.job.cancelled
    assert world.job.cancelled


def test_an_interrupt_while_it_waits_cancels_a_job_without_a_name(patch_time):
    world = World(patch_time)
    mapped = world.map(4)

    def interrupted(seconds):
        raise KeyboardInterrupt

    patch_time(sleep=interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(mapped)
    assert world.job.cancelled


def test_values_that_nobody_began_to_read_cancel_nothing(patch_time):
    world = World(patch_time)
    world.map(4)
    gc.collect()
    assert not world.job.cancelled


def test_a_job_that_somebody_cancels_ends_the_values(patch_time):
    world = World(patch_time, order=[0])
    mapped = world.map(4)
    assert [next(mapped), next(mapped)] == [0, 10]
    world.job.cancel("enough")
    with pytest.raises(JobEndedError) as raised:
        next(mapped)
    assert (raised.value.state, raised.value.command) == ("cancelled", f"tidemill resume {world.job.id}")


def test_an_older_stack_refuses_it_and_nothing_is_created(patch_time):
    world = World(patch_time)
    world.pipeline, _ = pipeline(max_spec=3)
    with pytest.raises(CallerError, match="job specs up to version 3"):
        world.map(2)
    assert not list(world.pipeline.store.list("jobs"))


# ---- values in files ----------------------------------------------------------------------------------------------


def test_values_in_files_are_read_a_few_at_a_time(patch_time, monkeypatch):
    world = World(patch_time)
    mapped = world.map(40)
    loaded = []

    def load(self, outcome):
        loaded.append(outcome.index)
        return decode_value(b"bytes of %d" % outcome.index, f"{outcome.output}{outcome.value_file}")

    monkeypatch.setattr(values._Reader, "_load", load)
    for chunk in range(20):
        outcomes = [outcome(i.index, i.uri, False) for i in read_chunk(world.pipeline.store, world.job.id, chunk)]
        for one in outcomes:
            one.value_file = "tidemill-value.bin"
        Ledger(world.pipeline.store, world.job.id).chunk(0, chunk).commit("a", outcomes)
    assert next(mapped) == b"bytes of 0"
    assert len(loaded) <= values._FILES_AHEAD + 1
    assert list(mapped) == [b"bytes of %d" % n for n in range(1, 40)]


def test_what_files_hold():
    array = io.BytesIO()
    numpy.save(array, numpy.arange(6).reshape(2, 3))
    assert decode_value(array.getvalue(), "s3://x/tidemill-value.npy").tolist() == [[0, 1, 2], [3, 4, 5]]
    assert decode_value(b'{"a": [1, null]}', "s3://x/tidemill-value.json") == {"a": [1, None]}
    for damaged in ("tidemill-value.npy", "tidemill-value.json"):
        with pytest.raises(DamagedError, match=damaged):
            decode_value(b"\x00 no", damaged)


def test_an_array_that_was_pickled_is_not_opened():
    """A value comes from a machine: it must not run code here."""
    array = io.BytesIO()
    numpy.save(array, numpy.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(DamagedError, match="pickle"):
        decode_value(array.getvalue(), "tidemill-value.npy")


def test_an_array_without_numpy_is_a_clear_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(CallerError) as raised:
        decode_value(b"", "tidemill-value.npy")
    assert raised.value.fix == "pip install numpy"


# ---- functions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"memori": "2G"}, "`map` has no setting 'memori'. Did you mean 'memory'? It has: after, "),
        ({"memory": "2 cows"}, "memory is '2 cows'; it must be a size such as 512M or 2G, or a number of MiB."),
        ({"timeout": True}, "timeout is True; it must be a time such as 90s or 2h, or a number of seconds."),
        ({"timeout": "1h", "timeout_seconds": 5}, "timeout and timeout_seconds are both given."),
        ({"n_jobs": 4}, "`map` has no setting 'n_jobs'. Did you mean 'max_parallel'?"),
        ({"atempts": 4}, "`map` has no setting 'atempts'. Did you mean 'attempts'?"),
        ({"memory_mib": "2 cows"}, "memory_mib is '2 cows'; it must be a size such as 512M or 2G, or a number of MiB."),
        ({"cpus": "two"}, "cpus is 'two'; it must be a number. Leave it out for the queue's own."),
        ({"gpus": True}, "gpus is True; it must be a number."),
    ],
)
def test_a_setting_that_map_does_not_take_is_named(settings, said):
    target, _ = pipeline(max_spec=4)
    with pytest.raises(CallerError) as raised:
        target.map(FUNCTION, uris(2), **{"queue": "cpu", **settings})
    assert str(raised.value).startswith(said)


@pytest.mark.parametrize("uri", [None, "", 7])
def test_a_pipeline_without_a_uri_is_a_mistake_of_the_caller(uri):
    with pytest.raises(CallerError, match="a variable that holds it may not be set"):
        Pipeline.load(uri)
