"""Retry, resume and cancel with a queue in memory. What this cannot prove: how a cloud ends containers."""

import json
import time
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.unit.client_fakes import outcome, pipeline, uris
from tidemill import layout
from tidemill.client.report.consumption import Consumption, Spread, suggestion
from tidemill.client.rounds import deliveries, rounds
from tidemill.client.watch.status import speed_of
from tidemill.client.watch.wait import Repairs
from tidemill.descriptor import SPEC_VERSION
from tidemill.errors import CallerError, TidemillError
from tidemill.ledger import Ledger, RetryProgress
from tidemill.request import with_flags
from tidemill.services.backend import QueueState
from tidemill.store import Store

COMMAND = ["python3", "x.py", "{uri}"]


@pytest.fixture(autouse=True)
def _no_grace(monkeypatch):
    monkeypatch.setattr(deliveries, "SUBMIT_GRACE_SECONDS", -1)


def submitted(items=10, chunk_size=3):
    target, backend = pipeline()
    return target, backend, target.submit(COMMAND, uris(items), queue="cpu", name="tiles", chunk_size=chunk_size)


def rerun(target, backend, job, number, failing=()):
    """Run a round's chunks as a worker would: only the items that the round names."""
    ledger = Ledger(target.store, job.id)
    round_ = ledger.round(number)
    for array in round_.arrays:
        for chunk in array.all():
            frame = ledger.index().frame(chunk)
            ran = (round_.items or {}).get(chunk, range(frame.first, frame.first + frame.items))
            ledger.chunk(number, chunk).commit("b", [outcome(i, uris(i + 1)[i], i in failing) for i in ran])
    for fake in backend.arrays:
        if fake.array.name.startswith(f"{job.id}-r{number}-"):
            fake.children = ["succeeded"] * len(fake.children)


def test_retry_runs_what_failed_and_nothing_else():
    target, backend, job = submitted()
    backend.run(target, job.id, fail_items=[1, 9, 4])
    sent = job.retry()
    assert (sent.round, sent.chunks, sent.items, sent.arrays, sent.note) == (1, 3, 3, 1, None)
    round_ = Ledger(target.store, job.id).round(1)
    # Item 9 is a chunk of its own, which runs whole.
    assert (round_.items, round_.failed_before) == ({0: [1], 1: [4]}, {0: 1, 1: 1})
    assert (job.status().state, job.status().failed) == ("waiting", 3)
    rerun(target, backend, job, 1, failing=[4])
    status = job.status()
    assert (status.state, status.succeeded, status.failed, status.remaining) == ("failed", 9, 1, 0)
    assert [o.index for o in job.results(failed_only=True)] == [4]
    assert job.retry().items == 1


def test_what_runs_again_is_counted_by_itself():
    target, backend, job = submitted()
    backend.run(target, job.id, fail_items=[1, 2, 4, 9])
    assert job.status().again is None
    job.retry()
    assert job.status().again == RetryProgress(since=1, items=4, ended=0, failed=0)
    ledger = Ledger(target.store, job.id)
    ledger.chunk(1, 0).commit("b", [outcome(i, uris(3)[i], i == 2) for i in (1, 2)])
    status = job.status()
    assert status.again == RetryProgress(since=1, items=4, ended=2, failed=1)
    assert (status.progress, status.succeeded, status.failed) == ((2, 4), 7, 3)
    # A lost part that is enqueued again belongs to the same retry, as does another that begins meanwhile.
    for fake in backend.arrays:
        fake.children = ["failed"] * len(fake.children)
    assert job.resume().round == 2
    job.retry([2])
    assert job.status().again == RetryProgress(since=1, items=3, ended=0, failed=0)
    rerun(target, backend, job, 2)
    assert job.status().again == RetryProgress(since=3, items=1, ended=0, failed=0)
    rerun(target, backend, job, 3)
    assert (job.status().again, job.status().state, job.status().failed) == (None, "succeeded", 0)


def test_a_resume_counts_the_whole_job():
    target, backend, job = submitted()
    backend.run(target, job.id, skip_chunks=[1, 2])
    job.resume()
    assert (job.status().again, job.status().progress) == (None, (4, 10))


def test_what_runs_again_beside_what_never_ran_has_not_ended():
    target, _, job = submitted()
    Ledger(target.store, job.id).chunk(0, 0).commit("a", [outcome(i, uris(3)[i], i == 1) for i in range(3)])
    job.retry()
    status = job.status()
    assert (status.remaining, status.again, status.progress) == (7, RetryProgress(1, 1, 0, 0), (2, 10))


@pytest.mark.parametrize("max_spec", [2, 3])
def test_a_large_retry_that_is_lost_resumes_with_the_same_items(monkeypatch, max_spec):
    """Workers of an older stack would not find lists stored next to the round."""
    monkeypatch.setattr("tidemill.ledger.ledger.INLINE_CHUNKS", 1)
    target, backend = pipeline(max_spec=max_spec)
    job = target.submit(COMMAND, uris(10), queue="cpu", name="tiles", chunk_size=3)
    backend.run(target, job.id, fail_items=[1, 4, 9])
    job.retry()
    backend.arrays[-1].children = ["failed"] * 3
    assert (job.resume().items, job.status().failed) == (3, 3)
    assert job.status().again == RetryProgress(since=1, items=3, ended=0, failed=0)
    lost, again = Ledger(target.store, job.id).rounds()[1:]
    assert (again.chosen is None) == (max_spec == 2)
    assert [(again.runs(chunk), again.had_failed(chunk)) for chunk in (0, 1, 3)] == [([1], 1), ([4], 1), (None, 0)]
    assert all(lost.runs_as(again, chunk) for chunk in (0, 1, 3))
    backend.arrays[-1].children = ["succeeded"] * 3
    for chunk, ran in ((0, [1]), (1, [4]), (3, [9])):
        Ledger(target.store, job.id).chunk(2, chunk).commit("b", [outcome(i, uris(10)[i], i == 4) for i in ran])
    assert (job.status().state, job.status().failed, job.status().succeeded) == ("failed", 1, 9)


def test_of_two_who_watch_one_enqueues_what_is_lost(capsys):
    target, backend, job = submitted()
    backend.run(target, job.id, skip_chunks=[0, 1])
    watchers = [target.job(job.id), target.job(job.id)]
    seen = [watcher.status() for watcher in watchers]
    for watcher, status in zip(watchers, seen, strict=True):
        assert status.chunks.lost == [0, 1]
        Repairs(watcher._watched, print).enqueue(status)
    assert capsys.readouterr().out.count("enqueued again as round") == 1
    assert backend.names == [f"{job.id}-r0-a0", f"{job.id}-r1-a0"]


def test_a_cancel_ends_what_is_being_enqueued_again_at_that_moment(monkeypatch):
    target, backend, job = submitted()
    backend.run(target, job.id, skip_chunks=[0])
    real = Ledger.add_round

    def add_round(self, round_, apart):
        job.cancel()
        return real(self, round_, apart)

    status = job.status()
    monkeypatch.setattr(Ledger, "add_round", add_round)
    Repairs(job._watched, print).enqueue(status)
    assert (len(backend.arrays), job.status().state) == (1, "cancelled")


def test_a_round_that_somebody_else_writes_meanwhile_is_kept_and_ours_is_the_next(monkeypatch):
    target, backend, job = submitted()
    backend.run(target, job.id, fail_items=[1, 2, 4])
    real, others = Ledger.listing, [[4], [1]]

    def look(self):
        found = real(self)
        if others:
            items = others.pop()
            monkeypatch.setattr(Ledger, "listing", real)
            target.job(job.id).retry(items)
            monkeypatch.setattr(Ledger, "listing", look)
        return found

    monkeypatch.setattr(Ledger, "listing", look)
    # Somebody retries one of two failures of our chunk while we plan, and then a chunk that is not ours.
    sent = job.retry()
    monkeypatch.undo()
    assert (sent.round, sent.note) == (None, "failed items of 2 chunks run again already")
    assert [round_.items for round_ in Ledger(target.store, job.id).rounds()[1:]] == [{0: [1]}, {1: [4]}]


def test_retry_refuses_items_that_are_not_there_or_not_done():
    target, backend, job = submitted()
    backend.run(target, job.id, skip_chunks=[1])
    for items, words in [([10], "0 to 9"), ([-1], "0 to 9"), ([], "items is empty"), ([4], "has not ended")]:
        with pytest.raises(CallerError, match=words):
            job.retry(items)


def test_what_is_lost_keeps_the_jobs_definition_and_a_retry_takes_todays():
    target, backend, job = submitted()
    backend.run(target, job.id, skip_chunks=[0], fail_items=[4])
    queue = target.descriptor.queues["cpu"]
    image = queue.images["default"].model_copy(update={"job_definition": "cpu-default:2"})
    target.descriptor.queues["cpu"] = queue.model_copy(update={"images": {"default": image}})
    for again in (job.resume, job.retry):
        again()
    backend.arrays[-1].children = ["failed"]
    job.resume()
    used = [fake.shape.queue.images["default"].job_definition for fake in backend.arrays]
    # The last one was lost of the retry.
    first = queue.images["default"].job_definition
    assert used == [first, first, "cpu-default:2", "cpu-default:2"]


@pytest.mark.parametrize(("after", "left"), [(0, None), (28, "48 h")])
def test_what_may_outlive_its_job_is_warned_of(monkeypatch, after, left):
    """An attempt may take a week, and the stack deletes jobs after 30 days."""
    target, backend = pipeline(expire_jobs_after_days=30, max_spec=SPEC_VERSION)
    week = 7 * 86_400
    job = target.submit(COMMAND, uris(10), queue="cpu", name="x", chunk_size=3, state=True, timeout_seconds=week)
    backend.run(target, job.id, fail_items=[1])
    spec = job.spec.model_copy(update={"created_at": job.spec.created_at - timedelta(days=after)})
    site = target.site
    sent = [rounds.retry(site, spec, rounds.RetryRequest())]
    backend.arrays[-1].children = ["failed"]
    sent.append(rounds.resume(site, spec))
    words = left and f"an attempt may take 168 h, and the stack deletes what the job needs in {left}: "
    assert [one.note for one in sent] == [words and f"{words}expire_jobs_after_days"] * 2


def test_resume_of_a_lost_retry_runs_the_same_items():
    target, backend, job = submitted()
    backend.run(target, job.id, fail_items=[1])
    job.retry()
    backend.arrays[-1].children = ["failed"]
    sent = job.resume()
    assert (sent.round, sent.items) == (2, 1)
    assert Ledger(target.store, job.id).round(2).items == {0: [1]}
    rerun(target, backend, job, 2)
    assert (job.progress().succeeded, job.progress().failed, job.status().state) == (10, 0, "succeeded")


def test_a_cancelled_job_resumes_with_what_is_left():
    target, backend, job = submitted()
    backend.run(target, job.id, skip_chunks=[0])
    job.retry([9])
    assert job.cancel() == 1
    assert job.status().state == "cancelled"
    assert job.status().facts()["continue"] == f"tidemill resume {job.id}"
    sent = job.resume()
    # The lost chunk as a whole; of the chunk being retried, only its item.
    assert (sent.round, sent.chunks, sent.items) == (2, 2, 4)
    ledger = Ledger(target.store, job.id)
    assert [ledger.is_cancelled(number) for number in (0, 1, 2)] == [True, True, False]
    assert job.status().state == "waiting"
    rerun(target, backend, job, 2)
    assert (job.status().state, job.progress().succeeded) == ("succeeded", 10)
    assert job.status().note is None


def test_a_job_can_be_cancelled_again_after_it_was_resumed():
    _target, _backend, job = submitted()
    job.cancel()
    job.resume()
    assert job.cancel("enough") == 1
    status = job.status()
    assert (status.state, status.note) == ("cancelled", "cancelled by ada: enough")


def test_resume_finishes_a_submit_that_died_before_its_round():
    target, backend = pipeline()
    backend.refuse_after = 0
    with pytest.raises(ConnectionAbortedError):
        target.submit(COMMAND, uris(10), queue="cpu", name="tiles", chunk_size=3)
    backend.refuse_after = None
    job = target.job("tiles")
    target.store._backend.delete(layout.round_(job.id, 0))
    sent = job.resume()
    assert (sent.round, sent.chunks, sent.arrays, len(backend.arrays)) == (0, 4, 1, 1)


def test_a_submit_that_is_repeated_after_a_resume_enqueues_nothing():
    target, backend, job = submitted()
    backend.run(target, job.id, skip_chunks=[1])
    job.resume()
    backend.arrays.clear()
    assert target.submit(COMMAND, uris(10), queue="cpu", name="tiles", chunk_size=3).enqueued == 0


def test_jobs_are_listed_newest_first():
    target, backend, job = submitted()
    backend.run(target, job.id, fail_items=[1])
    other = target.submit(COMMAND, uris(2), queue="cpu", name="other")
    other.cancel()
    rows = target.jobs()
    assert [(row.job, row.state, row.items, row.failed) for row in rows] == [
        (other.id, "cancelled", 2, 0),
        (job.id, "failed", 10, 1),
    ]
    assert [row.job for row in target.jobs(limit=1)] == [other.id]


def test_of_many_jobs_only_those_that_are_shown_are_read(monkeypatch):
    target, _, old = submitted()
    (entry,) = target.store.list(layout.JOURNAL)
    target.store._backend.delete(entry)
    jobs = [target.submit(COMMAND, uris(1), queue="cpu", name=f"n{n % 5}").id for n in range(20)]
    read = []
    real = Store.get
    monkeypatch.setattr(Store, "get", lambda store, name: read.append(name) or real(store, name))
    assert [row.job for row in target.jobs(limit=3)] == jobs[:-4:-1]
    # Each of three, and the one that the journal does not know.
    assert sorted(name for name in read if name.endswith("job.json")) == sorted(
        f"jobs/{job}/job.json" for job in (*jobs[-3:], old.id)
    )
    read.clear()
    assert target.job("n2").id == jobs[17]
    assert read == [f"jobs/{jobs[17]}/job.json"]
    assert target.job("tiles").id == old.id


def test_status_tells_what_items_take_and_what_to_ask_for():
    target, backend, job = submitted(items=40)
    backend.run(target, job.id)
    status = job.status()
    assert status.consumption is not None
    assert status.consumption.chunks == 8
    assert status.consumption.cpus == Spread(0.5, 0.5, 0.5)
    assert status.consumption.memory_mib.max <= 139
    assert status.suggestion == "`memory_mib=256` is enough, and more items would fit on a machine"
    assert status.to_json()["suggestion"] == "--memory 256 is enough, and more items would fit on a machine"
    assert "CPUs" in status.facts()
    assert job.status(consumption=False).consumption is None


def test_status_tells_what_items_take_of_gpus():
    target, _ = pipeline()
    job = target.submit(COMMAND, uris(4), queue="gpu", name="tiles", chunk_size=4)
    outcomes = [outcome(i, uris(4)[i], False) for i in range(4)]
    for i, memory, percent in ((0, 8000.0, 10.0), (1, 12000.0, 90.0), (2, 9000.0, None)):
        outcomes[i] = replace(outcomes[i], peak_gpu_memory_mib=memory, gpu_percent=percent)
    Ledger(target.store, job.id).chunk(0, 0).commit("a", outcomes)
    taken = job.status().consumption
    assert taken is not None
    assert (taken.gpu_memory_mib, taken.gpu_percent) == (Spread(9000, 12000, 12000), Spread(10, 90, 90))
    facts = job.status().facts()
    assert facts["GPUs"] == "p50 10, p95 90, max 90 % busy (1 per item)"
    assert facts["GPU memory"] == "p50 9000, p95 12000, max 12000 MiB"


@pytest.mark.parametrize(
    ("memory", "cpus", "asked", "words"),
    [
        (1900, 1, (1, 2048), "--memory 2304: the largest item came near its limit"),
        (1000, 1, (1, 2048), None),
        (0, 1, (1, 2048), None),
        (100, 0.9, (4, 512), "--memory 256 is enough, and more items would fit on a machine; --cpus 1 is enough"),
        (400, 2.6, (1, 512), "--cpus 3: items use more than they ask for"),
    ],
)
def test_suggestions(memory, cpus, asked, words):
    some = Spread.of([cpus], 2)
    taken = Consumption(20, 8, Spread.of([1], 1), some, Spread.of([memory], 1), *asked)
    advice = suggestion(taken)
    assert (advice and with_flags(advice)) == words


def test_nothing_is_suggested_from_a_few_items():
    some = Spread.of([1], 1)
    assert suggestion(Consumption(9, 1, some, some, some, 8, 65536)) is None


def test_status_shows_what_machines_said_first():
    target, backend, job = submitted()
    target.store.put("fleet/errors/i-1.json", json.dumps({"error": "no GPU", "at": "2999-01-01T00:00:00Z"}).encode())
    assert job.status().fleet_errors == ["i-1: no GPU"]
    said: list[str] = []
    backend.state = QueueState(True, True, "")
    target.submit(COMMAND, uris(1), queue="cpu", log=said.append)
    assert said[1] == "a machine could not run its worker within the last day: i-1: no GPU"


def test_speed_and_rest_come_from_the_times_of_records(monkeypatch):
    target, backend, job = submitted(items=9, chunk_size=1)
    backend.run(target, job.id, skip_chunks=range(6, 9))
    look = Ledger(target.store, job.id).listing
    monkeypatch.setattr("tidemill.client.watch.status.time.time", lambda: 1000.0)

    def timed(self):
        found = look()
        found.done[0].update({chunk: 900 + 10 * chunk for chunk in found.done[0]})
        return found

    monkeypatch.setattr(Ledger, "listing", timed)
    monkeypatch.setattr(deliveries, "SUBMIT_GRACE_SECONDS", 300)
    backend.arrays[0].children[6:] = ["waiting"] * 3
    status = job.status()
    # Five ended in the hundred seconds after the first.
    assert (status.items_a_second, status.seconds_left) == (0.05, 60)


def test_retry_of_a_cancelled_retry_points_to_resume():
    target, backend, job = submitted()
    backend.run(target, job.id, fail_items=[1])
    job.retry()
    job.cancel()
    assert job.retry().note == "failed items of 1 chunk were cancelled while they ran again: resume"
    assert job.resume().items == 1


def test_the_speed_is_that_of_the_records_where_this_machines_clock_is_slow():
    later = time.time() + 3600
    assert speed_of([(later, 5), (later + 10, 20)]) == 2


@pytest.mark.parametrize("spec", [b"{}", b"no JSON", b'{"spec_version": 99}'])
def test_a_spec_that_cannot_be_read_takes_no_other_job_away(spec):
    target, _ = pipeline(max_spec=SPEC_VERSION)
    job = target.submit(COMMAND, uris(10), queue="cpu", name="tiles", chunk_size=3)
    target.store.put("jobs/tiles-00000000/job.json", spec)
    told = []
    assert [row.job for row in target.jobs(log=told.append)] == [job.id]
    assert [text.partition(": ")[0] for text in told] == ["A job is passed over"]
    assert "tiles-00000000" in told[0]
    assert target.submit(COMMAND, uris(10), queue="cpu", name="tiles", chunk_size=3).id == job.id
    for changed in (False, True):
        assert target.submit(COMMAND, uris(11), queue="cpu", name="tiles", changed=changed).id != job.id
    # A damaged one cannot run, so it uses no other job; what a newer version wrote may.
    reason = f"{job.id} is waiting" if spec == b"no JSON" else "tiles-00000000"
    with pytest.raises(TidemillError, match=reason):
        target.housekeeping.removal(job.id)
