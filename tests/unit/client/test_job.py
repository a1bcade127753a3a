"""Status, wait, results, cancel and logs of a job in memory. What this cannot prove: how the cloud's figures lag."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.client_fakes import outcome, pipeline, uris
from tidemill.client.rounds import deliveries, rounds
from tidemill.clouds.account import LogLine
from tidemill.errors import CallerError, CloudError
from tidemill.ledger import Ledger
from tidemill.ledger import chunk as chunk_ledger
from tidemill.services.backend import QueueState

COMMAND = ["python3", "features.py", "{input}", "{output}"]


@pytest.fixture
def grown_up(monkeypatch):
    """Rounds count as long enqueued at once."""
    monkeypatch.setattr(deliveries, "SUBMIT_GRACE_SECONDS", -1)


def submitted(items=10, chunk_size=3):
    target, backend = pipeline()
    return target, backend, target.submit(COMMAND, uris(items), queue="cpu", name="tiles", chunk_size=chunk_size)


def test_a_job_that_waits_says_so_and_why():
    _, backend, job = submitted()
    assert (job.status().state, job.status().remaining, job.status().chunks.waiting) == ("waiting", 10, 4)
    backend.state = QueueState(False, False, "disabled, invalid")
    assert job.status().note == "queue 'cpu' is disabled, invalid"


def test_counts_come_from_the_store_and_states_from_the_queue():
    target, backend, job = submitted()
    backend.arrays[0].children[2:] = ["running", "running"]
    backend.run(target, job.id, fail_items=[1])
    status = job.status()
    assert (status.state, status.succeeded, status.failed, status.remaining) == ("running", 5, 1, 4)
    assert (status.chunks.done, status.chunks.running) == (2, 2)
    assert status.exit_code == 1


def test_items_of_running_chunks_are_counted_unless_that_is_declined():
    """A finished chunk counts only by its record, and an item that two attempts have finished counts once."""
    target, backend, job = submitted()
    backend.arrays[0].children[2:] = ["running", "running"]
    backend.run(target, job.id, fail_items=[1])
    ledger = Ledger(target.store, job.id)
    for chunk, attempt, items in ((0, "a", (1, 2)), (2, "a", (6, 7)), (2, "b", (7, 8))):
        ledger.chunk(0, chunk).write_progress(
            attempt, 0, [outcome(n, f"s3://raw/{n}.jpg", failed=n == 7) for n in items]
        )
    for _ in range(2):
        assert job.status(running=False).progress == (6, 10)
        status = job.status()
        assert (status.succeeded, status.failed, status.remaining, status.progress) == (7, 2, 1, (9, 10))


def test_a_finished_job_stays_finished_when_the_queue_has_forgotten_it(grown_up):
    target, backend, job = submitted()
    backend.run(target, job.id)
    backend.arrays.clear()
    status = target.job(job.id).status()
    assert (status.state, status.succeeded, status.chunks.lost, status.exit_code) == ("succeeded", 10, [], 0)


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_lost_delivery_is_named_and_wait_repairs_it(grown_up, patch_time, forgotten):
    target, backend, job = submitted()
    backend.run(target, job.id, skip_chunks=[1, 3])
    if forgotten:
        backend.arrays.clear()
    status = job.status()
    assert (status.state, status.chunks.lost, status.exit_code) == ("lost", [1, 3], 1)
    assert status.note == (
        "the queue does not know it (any more)" if forgotten else "Host EC2 (instance i-1) terminated."
    )

    patch_time(sleep=lambda seconds: backend.run(target, job.id))
    said = []
    status = job.wait(log=said.append)
    assert (status.state, status.succeeded, status.rounds) == ("succeeded", 10, 2)
    assert Ledger(target.store, job.id).round(1).arrays[0].chunks == [1, 3]
    assert backend.names[-1] == f"{job.id}-r1-a0"
    assert len(said) == 1
    assert said[0].startswith("2 lost deliveries")


def test_a_failed_child_of_an_array_that_still_runs_is_repaired_at_once(grown_up, patch_time):
    target, backend, job = submitted()
    backend.run(target, job.id, skip_chunks=[1])
    backend.arrays[0].children[3] = "running"
    seen = []
    patch_time(sleep=lambda seconds: backend.run(target, job.id))
    status = job.wait(on_status=seen.append)
    assert seen[0].chunks.lost == [1]
    assert status.state == "succeeded"


def test_a_submit_that_is_still_going_on_is_not_taken_for_lost(monkeypatch):
    _, backend, job = submitted()
    backend.arrays.clear()
    assert (job.status().state, job.status().chunks.lost) == ("waiting", [])
    later = time.time() + deliveries.SUBMIT_GRACE_SECONDS + 1
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: later)
        backend.now = lambda: later - deliveries.SUBMIT_GRACE_SECONDS
        assert job.status().chunks.lost == [], "this machine's clock is ahead, the cloud's is not"
    backend.now = lambda: later
    assert job.status().chunks.lost == [0, 1, 2, 3]


def test_a_job_has_the_clouds_times_and_so_the_newest_of_a_name_is_the_last_one():
    target, backend = pipeline()
    jobs = []
    for number in (1, 2):
        at = datetime.fromtimestamp(1.7e9 + number, UTC)
        backend.now = at.timestamp
        jobs.append(target.submit(COMMAND, uris(number), queue="cpu", name="tiles"))
        assert jobs[-1].spec.created_at == at
        assert Ledger(target.store, jobs[-1].id).rounds()[0].created_at == at
    assert target.job("tiles").id == jobs[1].id


def test_wait_bears_an_outage_and_gives_up_on_a_long_one(patch_time, monkeypatch):
    target, backend, job = submitted()
    backend.run(target, job.id)
    outages = iter([1] * 3)
    describe = backend.describe

    def flaky(queue, prefix):
        if next(outages, 0):
            raise CloudError("batch:ListJobs: AWS could not be asked.")
        return describe(queue, prefix)

    patch_time(sleep=lambda seconds: None)
    monkeypatch.setattr(backend, "describe", flaky)
    said = []
    assert job.wait(log=said.append).state == "succeeded"
    assert len(said) == 3
    outages = iter([1] * 100)
    with pytest.raises(CloudError):
        job.wait()


PIP = "the code does not start: WARNING: a\nWARNING: b\nERROR: No matching distribution found for nope\nWARNING: c"


def test_a_note_has_pips_error_and_not_its_warnings():
    target, _, job = submitted()
    Ledger(target.store, job.id).cancel("worker", PIP)
    words = "stopped: the code does not start: ERROR: No matching distribution found for nope"
    assert job.status().note == words


def test_code_that_does_not_start_is_shown():
    """SkyPilot 9800: a worker that dies before its first chunk is shown."""
    target, _, job = submitted()
    Ledger(target.store, job.id).start_failed(0, "ModuleNotFoundError: No module named 'torch'")
    assert job.status().note == "the program did not start once: ModuleNotFoundError: No module named 'torch'"


def test_the_summary_adds_up_the_outcomes():
    target, backend, job = submitted()
    backend.run(target, job.id, fail_items=[4])
    summary = job.summary()
    assert (summary.succeeded, summary.failed, summary.attempts) == (9, 1, 12)
    assert (summary.cpu_seconds, summary.peak_memory_mib) == (2.5, 109.0)
    assert 0 <= summary.wall_seconds < 60
    assert [o.index for o in job.results()] == list(range(10))
    assert [o.index for o in job.results(failed_only=True)] == [4]


@pytest.mark.parametrize("hours", [-1, 1])
def test_the_wall_time_does_not_depend_on_the_clock_of_a_machine(hours, monkeypatch):
    class MachineClock(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + timedelta(hours=hours)

    target, backend, job = submitted()
    monkeypatch.setattr(chunk_ledger, "datetime", MachineClock)
    time.sleep(0.01)
    backend.run(target, job.id)
    assert 0 < job.summary().wall_seconds < 60


def test_a_later_round_counts_once():
    target, backend, job = submitted()
    backend.run(target, job.id, skip_chunks=[0], fail_items=[4])
    rounds.send_again(target.site, job.spec, Ledger(target.store, job.id).listing(), [0, 1])
    backend.run(target, job.id, fail_items=[4])
    assert (job.summary().succeeded, job.summary().failed, job.summary().attempts) == (9, 1, 12)
    assert (job.status().succeeded, job.status().failed) == (9, 1)


def test_of_two_submits_at_once_the_younger_twin_is_ended(monkeypatch):
    target, backend = pipeline()
    describe = backend.describe
    blind = iter([True, True])
    monkeypatch.setattr(backend, "describe", lambda *asked: [] if next(blind, False) else describe(*asked))
    first = target.submit(COMMAND, uris(4), queue="cpu", name="tiles", chunk_size=2)
    blind = iter([True])
    target.submit(COMMAND, uris(4), queue="cpu", name="tiles", chunk_size=2)
    assert backend.names == [f"{first.id}-r0-a0"] * 2
    assert [fake.terminated for fake in backend.arrays] == [False, True]
    monkeypatch.setattr(deliveries, "SUBMIT_GRACE_SECONDS", -1)
    assert (first.status().state, first.status().chunks.lost) == ("waiting", [])


def test_a_finished_job_is_shown_when_its_queue_is_gone():
    target, backend, job = submitted()
    del target.descriptor.queues["cpu"]
    with pytest.raises(CallerError, match="queue 'cpu' with image 'default', which this pipeline does not have"):
        job.status()
    target.descriptor.queues["cpu"] = backend.arrays[0].shape.queue
    backend.run(target, job.id)
    del target.descriptor.queues["cpu"]
    assert job.status().state == "succeeded"
    assert len(list(job.results())) == 10


def line(place, **fields):
    return LogLine(1.0, str(fields), place, fields)


def test_logs_of_an_item_come_from_its_container():
    _, backend, job = submitted()
    backend.lines = [
        line(f"{job.id}-r0-a0:1", job=job.id, item=3, stream="stdout", message="three"),
        line(f"{job.id}-r0-a0:1", job=job.id, item=4, stream="stdout", message="four"),
        line(f"{job.id}-r0-a0:1", message="chunk leased"),
        line(f"{job.id}-r0-a0:2", job=job.id, item=3, stream="stderr", message="elsewhere"),
    ]
    assert [found.fields["message"] for found in job.logs(item=3)] == ["three"]
    assert [found.fields["message"] for found in job.logs(item=3, worker=True)] == ["three", "chunk leased"]
    assert len(list(job.logs())) == 3
    with pytest.raises(CallerError, match="item is 10"):
        list(job.logs(item=10))


def test_logs_of_a_forgotten_container_are_searched():
    _, backend, job = submitted()
    backend.arrays.clear()
    backend.lines = [line("anywhere", job=job.id, item=3, stream="stdout", message="three")]
    assert [found.fields["message"] for found in job.logs(item=3)] == ["three"]


@pytest.mark.parametrize("job", ["Tiles", "../../etc", "tiles-0000000g", ""])
def test_what_is_no_job_id_is_refused(job):
    target, _ = pipeline()
    with pytest.raises(CallerError, match=r"job is|There is no job"):
        target.job(job)


def test_a_name_means_its_newest_job():
    target, _ = pipeline()
    for count in (3, 4):
        job = target.submit(COMMAND, uris(count), queue="cpu", name="tiles")
        assert target.job("tiles").id == job.id
    target.submit(COMMAND, uris(5), queue="cpu", name="tiles-again")
    assert target.job("tiles").spec.items_total == 4


def test_a_job_that_is_not_there_is_said():
    target, _ = pipeline()
    with pytest.raises(CallerError, match=r"There is no job .* in memory:"):
        target.job("tiles-00000000")
    with pytest.raises(CallerError, match=r"There is no job .* in memory:"):
        target.job("tiles")


def test_a_submit_that_died_before_it_enqueued_is_finished_by_wait(grown_up, patch_time, monkeypatch):
    target, backend = pipeline()
    with monkeypatch.context() as dying:
        dying.setattr("tidemill.client.sending.submit.write_first_round", lambda *args, **kwargs: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            target.submit(COMMAND, uris(10), queue="cpu", name="tiles", chunk_size=3)
    (name,) = [name for name in target.store.list("jobs") if name.endswith("job.json")]
    job = target.job(name.split("/")[1])
    assert (job.status().state, job.status().chunks.lost) == ("lost", [0, 1, 2, 3])
    patch_time(sleep=lambda seconds: backend.run(target, job.id))
    assert job.wait().succeeded == 10
    assert backend.names == [f"{job.id}-r0-a0"]
    assert target.submit(COMMAND, uris(10), queue="cpu", name="tiles", chunk_size=3).enqueued == 0
