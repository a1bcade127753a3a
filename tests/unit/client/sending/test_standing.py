"""What of earlier jobs stands for a new one: `changed` and `new`. A test runs the items itself; that workers do the
same is shown in tests/e2e/test_changes.py."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from datetime import timedelta
from pathlib import Path

import pytest

from tests.unit.client.sending.shared_jobs import Bench
from tidemill import layout
from tidemill.client.housekeeping.job_users import JobUsers
from tidemill.client.items import local_files
from tidemill.client.items.local_files import LocalFile
from tidemill.client.upload import versions
from tidemill.errors import CallerError, StoreMissingError
from tidemill.ledger import Ledger
from tidemill.ledger.shared import SharedOutcomes


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(tmp_path)
    made.write(a="1", b="2", c="3", d="4", e="5")
    return made


def values(job):
    return {Path(outcome.uri).name: outcome.value for outcome in job.results()}


def origins(job):
    return job.spec.shared.jobs if job.spec.shared else {}


def users(bench, job):
    """Ids of the jobs that need a job: it cannot be removed before them."""
    found = JobUsers(bench.pipeline.store)
    found.look()
    return found.of(job.id)


def names(bench):
    return [Path(uri).name for uri in bench.ran]


def test_only_a_changed_input_and_a_new_one_run(bench):
    first = bench.job()
    bench.ran.clear()
    bench.write(b="two", f="6")
    job = bench.job(changed=True)
    assert names(bench) == ["b", "f"]
    assert values(job) == {
        name: ["1", text, ""] for name, text in zip("abcdef", ["1", "two", "3", "4", "5", "6"], strict=True)
    }
    assert [outcome.index for outcome in job.results()] == list(range(6))
    assert origins(job) == {first.id: 4}
    status = job.status()
    assert (status.state, status.succeeded, status.shared, status.origins) == ("succeeded", 6, 4, {first.id: 4})
    assert job.summary().succeeded == 6
    assert job.summary().attempts == 2
    assert {o.uri[-1]: o.origin for o in job.results()}["c"] == f"{first.id}/2"
    assert any(f"6 items: 4 of {first.id}, 2 of this job" in words for words in bench.said)
    assert users(bench, first) == [job.id]


def test_a_touched_file_has_not_changed(bench):
    first = bench.job()
    os.utime(bench.paths()[0])
    again = bench.job(changed=True)
    assert again.id == first.id


def test_changed_code_and_changed_settings_run_all_again(bench):
    bench.job()
    (bench.code / "w.py").write_text("2")
    bench.ran.clear()
    job = bench.job(changed=True)
    assert names(bench) == list("abcde")
    assert origins(job) == {}
    assert "5 items: no outcome of an earlier job stands, so all of them run." in bench.said
    bench.ran.clear()
    job = bench.job(changed=True, env={"SCALE": "7"})
    assert names(bench) == list("abcde")
    assert values(job)["a"] == ["2", "1", "7"]


def test_more_memory_and_attempts_run_nothing_again_but_failures(bench):
    failed = bench.paths()[1]
    first = bench.job(fails=[failed], memory_mib=512)
    bench.ran.clear()
    job = bench.job(changed=True, memory_mib=1024, attempts=2)
    assert bench.ran == [failed]
    assert origins(job) == {first.id: 4}
    assert job.status().succeeded == 5


def test_code_that_was_there_before_finds_its_outcomes(bench):
    first = bench.job()
    (bench.code / "w.py").write_text("2")
    bench.job(changed=True)
    (bench.code / "w.py").write_text("1")
    bench.write(f="6")
    bench.ran.clear()
    job = bench.job(changed=True)
    assert names(bench) == ["f"]
    assert origins(job) == {first.id: 5}


def test_new_runs_only_what_no_earlier_job_has(bench):
    first = bench.job()
    (bench.code / "w.py").write_text("2")
    bench.write(a="other", f="6")
    bench.ran.clear()
    job = bench.job(new=True)
    assert names(bench) == ["f"]
    assert values(job)["a"] == ["1", "1", ""]
    assert values(job)["f"] == ["2", "6", ""]
    # What it shares was made by other code: no change is missed later.
    bench.ran.clear()
    last = bench.job(changed=True)
    assert names(bench) == list("abcde")
    assert origins(last) == {job.id: 1}
    assert first.id not in origins(last)


def test_a_chain_of_three_leads_to_the_job_that_computed(bench):
    first = bench.job()
    bench.write(f="6")
    second = bench.job(changed=True)
    bench.write(g="7")
    third = bench.job(changed=True)
    assert origins(third) == {first.id: 5, second.id: 1}
    assert [outcome.origin for outcome in third.results()] == [
        *(f"{first.id}/{n}" for n in range(5)),
        f"{second.id}/5",
        None,
    ]
    assert users(bench, first) == sorted([third.id, second.id])
    assert users(bench, second) == [third.id]


def test_items_twice_reordered_and_left_out(bench):
    bench.job()
    a, b, c, *_ = bench.paths()
    bench.ran.clear()
    job = bench.job([c, a, c, b], changed=True)
    assert bench.ran == []
    assert [Path(outcome.uri).name for outcome in job.results()] == ["c", "a", "c", "b"]
    assert job.status().state == "succeeded"
    assert job.status().shared == 4
    bench.ran.clear()
    bench.job([a, *bench.paths()], force=True)
    assert len(bench.ran) == 6


def test_a_list_in_which_nothing_is_left_to_run_is_finished_at_once(bench):
    bench.job()
    job = bench.submit(bench.paths()[:2], changed=True)
    assert job.enqueued == 0
    assert (job.status().state, job.status().succeeded) == ("succeeded", 2)
    assert list(job.values(progress=False)) == [["1", "1", ""], ["1", "2", ""]]
    assert job.wait().succeeded == 2


def test_what_a_killed_job_has_finished_stands(bench):
    job = bench.submit()
    bench.run(job, most=2)
    bench.write(e="five")
    bench.ran.clear()
    second = bench.job(changed=True)
    assert names(bench) == ["c", "d", "e"]
    assert origins(second) == {job.id: 2}
    assert values(second)["e"] == ["1", "five", ""]


def test_an_unchanged_job_goes_on(bench):
    job = bench.submit()
    bench.run(job, most=2)
    again = bench.job(changed=True)
    assert again.id == job.id
    assert sorted(names(bench)) == list("abcde")


def test_an_input_that_changed_while_its_job_went_on_never_stands(bench):
    job = bench.submit()
    bench.run(job, most=2)
    bench.write(a="one")
    bench.job()
    bench.write(a="1")
    bench.ran.clear()
    bench.job(changed=True)
    assert names(bench) == ["a"]


def test_a_retry_of_the_other_job_changes_nothing(bench):
    first = bench.job()
    bench.write(f="6")
    job = bench.job(changed=True)
    (bench.code / "w.py").write_text("9")
    first.retry(items=[0], code=bench.code)
    bench.run(first)
    assert values(first)["a"][0] == "9"
    assert values(job)["a"][0] == "1"


def test_a_retry_of_shared_items_replaces_their_outcomes(bench):
    first = bench.job()
    bench.write(f="6")
    job = bench.job(changed=True)
    bench.write(a="one", b="two")
    bench.ran.clear()
    assert job.retry(items=[0, 1]).items == 2
    assert job.status().again is not None
    assert job.status().progress == (0, 2)
    bench.run(job)
    assert names(bench) == ["a", "b"]
    assert values(job)["a"] == ["1", "one", ""]
    status = job.status()
    assert (status.state, status.succeeded, status.shared) == ("succeeded", 6, 3)
    assert values(first)["a"] == ["1", "1", ""]


def test_a_name_and_one_wish_are_needed(bench):
    with pytest.raises(CallerError, match="name") as error:
        bench.submit(changed=True, name=None)
    assert error.value.what == "changed"
    with pytest.raises(CallerError, match="changed and new"):
        bench.submit(changed=True, new=True)
    with pytest.raises(CallerError, match="changed and force"):
        bench.submit(changed=True, force=True)


def test_what_a_retry_ran_with_other_code_never_stands_for_the_jobs_own(bench):
    first = bench.job()
    (bench.code / "w.py").write_text("9")
    first.retry(items=[0], code=bench.code)
    bench.run(first)
    (bench.code / "w.py").write_text("1")
    assert values(first)["a"][0] == "9"
    bench.ran.clear()
    job = bench.job(changed=True)
    assert names(bench) == []
    assert values(job)["a"] == ["1", "1", ""]
    assert values(first)["a"][0] == "9"


def test_by_force_of_several_the_newest_is_found_whichever_was_removed(bench):
    jobs = [bench.job(force=True) for _ in range(4)]
    assert len({job.id for job in jobs}) == 4
    for gone in (0, 2):
        bench.pipeline.housekeeping.removal(jobs[gone].id).carry_out()
        assert bench.submit().id == jobs[3].id
        assert bench.submit(changed=True).id == jobs[3].id
    newer = bench.job(force=True)
    assert newer.id not in {jobs[1].id, jobs[3].id}
    assert bench.submit().id == newer.id
    bench.pipeline.housekeeping.removal(newer.id).carry_out()
    assert bench.submit().id == jobs[3].id


def test_outcomes_of_a_job_whose_spec_expires_first_are_not_shared(tmp_path):
    bench = Bench(tmp_path, expire_jobs_after_days=30)
    bench.write(a="1", b="2")
    job = bench.submit()
    spec = job.spec.model_copy(update={"created_at": job.spec.created_at - timedelta(days=16)})
    bench.pipeline.store.put(layout.spec(job.id), spec.model_dump_json().encode())
    # Its records are of today.
    bench.run(job)
    bench.write(c="3")
    bench.ran.clear()
    second = bench.job(changed=True)
    assert names(bench) == ["a", "b", "c"]
    assert origins(second) == {}
    assert any("2 of them ran before, but their results expire soon" in words for words in bench.said)


@pytest.mark.parametrize(
    "run",
    [(0, 50, 0, 0), (2**40, 3, 0, 0), (0, 3, 0, 2**64 - 2), (0, 1, 0, 5), (0, 2**24, 0, 0)],
    ids=["longer than the job", "behind it", "past all numbers", "an item that is not there", "long"],
)
def test_a_document_of_another_submitter_that_names_no_items_changes_nothing(bench, run):
    bench.job()
    later, store = bench.job([*bench.paths(), bench.paths()[0]], changed=True), bench.pipeline.store
    shared = Ledger(store, later.id).shared()
    assert shared is not None
    data = SharedOutcomes(shared.sources, struct.pack("<QIIQ", *run)).encode()
    sha256 = hashlib.sha256(data).hexdigest()
    store.put(layout.shared(later.id, sha256), data)
    round_ = layout.round_(later.id, 0)
    store.put(round_, json.dumps({**json.loads(store.get(round_)), "shared": sha256}).encode())
    bench.ran.clear()
    job = bench.job(bench.write(f="6"), changed=True)
    assert names(bench) == ["f"]
    assert [outcome.value[1] for outcome in job.results()] == list("123456")


@pytest.mark.parametrize("gone", ["job.json", "record", "shared", "versions"])
def test_what_is_gone_is_told_and_runs_again(bench, gone):
    """As the rules of a store delete it, one object before the other, or somebody by hand."""
    first = bench.job()
    bench.write(f="6")
    job = bench.job(changed=True)
    store, of_job = bench.pipeline.store, job.spec.shared.document
    names_of = {
        "job.json": [layout.spec(first.id)],
        "record": [layout.done(first.id, 0, 0)],
        "shared": [layout.shared(job.id, of_job)],
        "versions": [layout.versions(job.id)],
    }
    store.delete(names_of[gone])
    if gone in ("job.json", "record"):
        with pytest.raises(StoreMissingError, match=f"item 0 shares the outcome of item 0 of {first.id}, which is not"):
            list(job.results())
        with pytest.raises(StoreMissingError, match="`changed=True`"):
            list(job.values(progress=False))
        with pytest.raises(StoreMissingError, match=first.id):
            job.to_pandas()
    if gone == "record":
        # A retry runs it in the job itself.
        job.retry(items=[0, 1, 2])
        bench.run(job)
        assert len(values(job)) == 6
        return
    last = bench.job(changed=True)
    assert values(last) == {name: ["1", text, ""] for name, text in zip("abcdef", "123456", strict=True)}


def test_damaged_versions_say_nothing_of_what_stands(bench):
    job = bench.job()
    bench.pipeline.store.put(layout.versions(job.id), b"?")
    assert bench.submit().id == job.id
    bench.ran.clear()
    assert values(bench.job(changed=True))["a"] == ["1", "1", ""]
    assert names(bench) == list("abcde")


def test_a_new_content_in_the_same_tick_with_an_old_time_is_read(bench, monkeypatch):
    """A file system whose clock is coarse has one time of change for both writes."""
    path = bench.paths()[0]
    os.utime(path, (1e9, 1e9))
    looked = os.stat(path)
    same = lambda name: LocalFile(name, 1, looked.st_mtime_ns, looked.st_ino, int(looked.st_ctime) * 10**9)  # noqa: E731
    look, seen = versions.look, local_files._seen
    monkeypatch.setattr(versions, "look", lambda name: same(name) if name == path else look(name))
    monkeypatch.setattr(local_files, "_seen", lambda name, status: same(name) if name == path else seen(name, status))
    job = bench.job()
    Path(path).write_text("7")
    again = bench.job(changed=True)
    assert again.id != job.id
    assert values(again)["a"] == ["1", "7", ""]


def test_an_earlier_job_that_claims_more_items_than_it_has_is_passed_over(bench):
    """Another submitter has written its spec: what it claims takes no memory."""
    first, store = bench.job(), bench.pipeline.store
    spec = json.loads(store.get(layout.spec(first.id))) | {"items_total": 10**15}
    store.put(layout.spec(first.id), json.dumps(spec).encode())
    bench.write(f="6")
    assert len(values(bench.job(changed=True))) == 6
    assert any(f"{first.id} is passed over" in said and "claims 1000000000000000" in said for said in bench.said)


@pytest.mark.parametrize("settings", [{"changed": True}, {"force": True}, {}])
def test_the_job_that_is_sent_last_is_the_newest_of_its_name_after_the_clock_went_back(bench, monkeypatch, settings):
    bench.job()
    now = bench.backend.now()
    monkeypatch.setattr(bench.backend, "now", lambda: now - 3600)
    bench.write(a="9")
    last = bench.job(env={"SCALE": "2"}, **settings)
    assert bench.pipeline.job("words").id == last.id
    assert bench.pipeline.jobs()[0].job == last.id


def test_what_expires_soon_is_told_by_the_clock_of_the_store(tmp_path, monkeypatch):
    bench = Bench(tmp_path, expire_jobs_after_days=30)
    bench.write(a="1")
    bench.job()
    now = bench.backend.now()
    monkeypatch.setattr(bench.backend, "now", lambda: now + 16 * 86_400)
    bench.write(b="2")
    bench.ran.clear()
    bench.job(changed=True)
    assert names(bench) == ["a", "b"]
