"""Removals of jobs, in memory and in a folder. What this cannot prove: a store that refuses
(tests/e2e/test_denied.py, tests/localcloud/gcp/test_storage.py), and a run that works on a job (tests/worker)."""

import json
import os
import time
from pathlib import Path

import pytest

from tests.unit.client_fakes import pipeline, uris
from tidemill import layout
from tidemill.client import Pipeline
from tidemill.client.housekeeping import job_folders
from tidemill.client.rounds import deliveries
from tidemill.descriptor import SPEC_VERSION
from tidemill.errors import CallerError, DamagedError, StoreMissingError
from tidemill.ledger.removal_mark import mark_removed
from tidemill.store import Store

COMMAND = ["python3", "features.py", "{uri}", "{output}"]
DAY = 86_400


@pytest.fixture(params=["memory", "folder"])
def made(request, tmp_path, monkeypatch):
    """A pipeline and its queue. A folder is emptied by other code than an object store."""
    monkeypatch.setattr(deliveries, "SUBMIT_GRACE_SECONDS", -1)
    return pipeline("memory://" if request.param == "memory" else tmp_path.as_uri(), max_spec=SPEC_VERSION)


def finished(made, name="tiles", items=3, **options):
    """A job with records, outputs, state and a note of the reconciler."""
    target, backend = made
    job = target.submit(COMMAND, uris(items), queue="cpu", name=name, **options)
    backend.run(target, job.id)
    for name_ in (f"{layout.out(job.id)}/0/a.1/file", layout.snapshot(job.id, 0, 1), layout.held(job.id)):
        target.store.put(name_, b"x" * 100)
    return job


def left_of(store, job):
    return sorted(name for name in store.list("") if job in name)


def test_nothing_of_a_job_is_left_and_everything_of_others(made):
    target, _ = made
    gone, stays = finished(made), finished(made, "other")
    target.store.put(layout.uploaded("0" * 64, "a.jpg"), b"shared")
    before = left_of(target.store, stays.id)
    removal = target.housekeeping.removal(gone.id)
    (row,) = removal.jobs
    names = left_of(target.store, gone.id)
    # The journal's entry and the note of the reconciler are no part of the job's folders.
    assert (row.state, row.items, row.objects, row.kept) == ("succeeded", 3, len(names) - 2, None)
    assert row.bytes == removal.bytes == sum(target.store.size(name) or 0 for name in names) - 100
    assert left_of(target.store, gone.id) == names
    removal.carry_out()
    assert left_of(target.store, gone.id) == []
    assert left_of(target.store, stays.id) == before
    assert target.store.exists(layout.uploaded("0" * 64, "a.jpg"))
    assert [job.job for job in target.jobs()] == [stays.id]


def test_the_same_submit_makes_the_job_anew(made):
    target, _ = made
    job = finished(made)
    target.housekeeping.removal("tiles").carry_out()
    again = target.submit(COMMAND, uris(3), queue="cpu", name="tiles")
    assert again.id == job.id
    assert again.progress().remaining == 3


class InterruptedHereError(BaseException):
    pass


def interrupted(monkeypatch, at, removal):
    """Carry a removal out until its `at`-th change of the store; says whether it came so far."""
    left = [at]

    def then_stop(change):
        def change_unless_over(*given, **options):
            if not left[0]:
                raise InterruptedHereError
            left[0] -= 1
            return change(*given, **options)

        return change_unless_over

    with monkeypatch.context() as patch:
        patch.setattr(Store, "put", then_stop(Store.put))
        patch.setattr(Store, "delete", then_stop(Store.delete))
        patch.setattr(job_folders, "remove", then_stop(job_folders.remove))
        try:
            removal.carry_out()
        except InterruptedHereError:
            return True
    return False


def test_interrupted_at_any_change_it_is_no_whole_job_and_the_same_removal_finishes(made, monkeypatch):
    target, _ = made
    other = finished(made, "other")
    at = -1
    for at in range(100):
        job = finished(made, f"tiles{at}")
        if not interrupted(monkeypatch, at, target.housekeeping.removal(job.id)):
            break
        if at > 1:
            with pytest.raises(CallerError, match="There is no job"):
                target.job(job.id)
            assert [each.job for each in target.jobs()] == [other.id]
        else:
            assert target.job(job.id).progress().finished
        # At the last change but one, nothing is left that could be finished.
        if left_of(target.store, job.id):
            target.housekeeping.removal(job.id).carry_out()
        assert left_of(target.store, job.id) == []
    assert at > 4


def test_a_removal_of_two_that_is_interrupted_at_any_change_is_finished_by_the_same_one(made, monkeypatch):
    target, _ = made
    for at in range(100):
        jobs = [finished(made, f"{name}{at}").id for name in ("first", "second")]
        if not interrupted(monkeypatch, at, target.housekeeping.removal(*jobs)):
            break
        if any(left_of(target.store, job) for job in jobs):
            target.housekeeping.removal(*jobs).carry_out()
        assert [left_of(target.store, job) for job in jobs] == [[], []]
    assert target.jobs() == []


def test_clean_finishes_what_a_removal_has_left_and_a_submit_of_it_says_so(made, monkeypatch):
    target, _ = made
    job = finished(made)
    assert interrupted(monkeypatch, 2, target.housekeeping.removal(job.id))
    with pytest.raises(StoreMissingError, match=f"{job.id} is being removed. `tidemill rm {job.id}` finishes that"):
        target.submit(COMMAND, uris(3), queue="cpu", name="tiles")
    removal = target.housekeeping.cleanup()
    assert [(row.job, row.state) for row in removal.jobs] == [(job.id, "removing")]
    removal.carry_out()
    assert left_of(target.store, job.id) == []


def test_a_job_that_has_not_ended_is_refused_with_the_command_that_ends_it(made):
    target, backend = made
    done, waits = finished(made), target.submit(COMMAND, uris(2), queue="cpu", name="waits")
    before = sorted(target.store.list(""))
    with pytest.raises(CallerError) as refused:
        target.housekeeping.removal(done.id, waits.id)
    assert (refused.value.what, refused.value.value) == ("job", waits.id)
    assert refused.value.fix == f"`tidemill cancel {waits.id}` ends it."
    assert sorted(target.store.list("")) == before
    waits.cancel()
    assert [row.state for row in target.housekeeping.removal(waits.id).jobs] == ["cancelled"]
    # A child that has not heard of it still writes.
    backend.arrays[-1].children = ["running"]
    with pytest.raises(CallerError, match="is running"):
        target.housekeeping.removal(waits.id)


def check_used(made, used, **options):
    """A job that another one with these options uses stays as long as that does."""
    target, backend = made
    user = target.submit(COMMAND, queue="cpu", name="user", **options)
    with pytest.raises(CallerError) as refused:
        target.housekeeping.removal(used.id)
    assert refused.value.fix == f"`tidemill cancel {user.id}` ends that."
    backend.run(target, user.id)
    with pytest.raises(CallerError) as refused:
        target.housekeeping.removal(used.id)
    assert refused.value.fix == f"`tidemill rm {used.id} {user.id}` removes both."
    both = target.housekeeping.removal(used.id, user.id)
    assert [row.job for row in both.jobs] == [user.id, used.id]
    both.carry_out()
    assert target.jobs() == []


def test_a_job_stays_that_another_one_runs_after_or_reads(made):
    check_used(made, finished(made), items=uris(3), after=["tiles"])
    check_used(made, finished(made, "masks"), items="job://masks/output")


def test_a_job_stays_whose_outcomes_another_one_shares(made):
    target, backend = made
    first = finished(made)
    second = target.submit(COMMAND, uris(4), queue="cpu", name="tiles", changed=True)
    backend.run(target, second.id)
    assert second.status().origins == {first.id: 3}
    with pytest.raises(CallerError) as refused:
        target.housekeeping.removal(first.id)
    assert refused.value.fix == f"`tidemill rm {first.id} {second.id}` removes both."
    target.housekeeping.removal(second.id).carry_out()
    assert len(list(first.results())) == 3
    target.housekeeping.removal(first.id).carry_out()
    assert target.jobs() == []


def test_a_job_stays_whose_state_another_one_begins_with(made):
    target, backend = made
    used = finished(made)
    user = target.submit(COMMAND, uris(3), queue="cpu", name="user", state=True)
    # The submit itself would ask for state that a worker has saved.
    spec = json.loads(target.store.get(layout.spec(user.id)))
    spec["state"]["from_job"] = used.id
    target.store.put(layout.spec(user.id), json.dumps(spec).encode())
    backend.run(target, user.id)
    with pytest.raises(CallerError, match=f"{user.id} uses what {used.id} has left"):
        target.housekeeping.removal(used.id)


def test_a_job_stays_whose_user_was_sent_by_a_wrong_clock(made):
    """The user itself, and another job beside it."""
    target, backend = made
    used, other = finished(made), finished(made, "other")
    user = target.submit(COMMAND, uris(3), queue="cpu", name="user", after=["tiles"])
    backend.run(target, user.id)
    for job in (user, other):
        spec = json.loads(target.store.get(layout.spec(job.id))) | {"created_at": "1970-01-02T00:00:00Z"}
        target.store.put(layout.spec(job.id), json.dumps(spec).encode())
    with pytest.raises(CallerError, match=f"{user.id} uses what {used.id} has left"):
        target.housekeeping.removal(used.id)
    target.housekeeping.removal(user.id, used.id).carry_out()
    assert [job.job for job in target.jobs()] == [other.id]


def test_a_job_stays_that_is_used_since_the_removal_was_planned(made):
    """The user has the id of a job that this removal has removed before."""
    target, backend = made
    used = finished(made)
    user = target.submit(COMMAND, uris(3), queue="cpu", name="user", after=["tiles"])
    backend.run(target, user.id)
    removal = target.housekeeping.removal(user.id, used.id)

    def send_again(job):
        if job == user.id:
            assert target.submit(COMMAND, uris(3), queue="cpu", name="user", after=["tiles"]).id == user.id

    with pytest.raises(CallerError, match=f"{user.id} uses what {used.id} has left"):
        removal.carry_out(send_again)
    assert {job.job for job in target.jobs()} == {used.id, user.id}


@pytest.mark.parametrize("made", ["folder"], indirect=True)
def test_a_job_stays_whose_folder_is_an_input(made):
    used = finished(made)
    check_used(made, used, items=uris(3), inputs={"model": f"{used.output}/0"})


@pytest.mark.parametrize("made", ["folder"], indirect=True)
def test_outputs_elsewhere_stay_and_are_named(made, tmp_path):
    target, _ = made
    elsewhere = (tmp_path / "elsewhere").as_uri()
    job = finished(made, output=elsewhere)
    assert [row.elsewhere for row in target.housekeeping.removal(job.id).jobs] == [elsewhere]


def test_a_damaged_job_can_be_removed(made):
    target, _ = made
    job = finished(made)
    for name in list(target.store.list(layout.manifest(job.id))):
        target.store.put(name, b"?")
    removal = target.housekeeping.removal(job.id)
    assert [row.state for row in removal.jobs] == ["damaged"]
    removal.carry_out()
    assert left_of(target.store, job.id) == []


@pytest.mark.parametrize("data", [b'{"removed": {"by": "ada", "at": ""}}', b"[" * 100_000], ids=["mark", "deep"])
def test_a_mark_that_another_submitter_has_forged_removes_nothing(made, data):
    target, _ = made
    job = finished(made)
    before = left_of(target.store, job.id)
    target.store.put(layout.spec(job.id), data)
    # Whoever may write a spec may not write there.
    assert not layout.REMOVALS.startswith((layout.JOBS, layout.OUT, layout.STATE, layout.UPLOADS, layout.FLEET))
    if data.startswith(b"{"):
        assert target.housekeeping.cleanup().jobs == []
        with pytest.raises(CallerError, match="no removal has begun"):
            target.housekeeping.removal(job.id)
    else:
        with pytest.raises(DamagedError):
            target.housekeeping.removal(job.id)
    assert left_of(target.store, job.id) == before


def test_a_name_that_no_job_has_and_no_names_at_all(made):
    target, _ = made
    with pytest.raises(CallerError, match="There is no job 'tiles'"):
        target.housekeeping.removal("tiles")
    assert target.housekeeping.removal().jobs == []


def test_the_mark_is_no_spec_and_a_damaged_spec_no_mark(made):
    target, _ = made
    job = finished(made)
    mark_removed(target.store, job.id, "ada")
    assert json.loads(target.store.get(layout.spec(job.id)))["removed"]["by"] == "ada"
    other = finished(made, "other")
    target.store.put(layout.spec(other.id), b"{")
    with pytest.raises(Exception, match="is damaged"):
        target.job(other.id)


# ---- what is old ----------------------------------------------------------------------------------------------------


def older(store, job, seconds):
    """Let everything of a job in a folder have been written so long ago."""
    root = Path(store.uri.removeprefix("file://"))
    spec = root / layout.spec(job)
    content = json.loads(spec.read_text())
    at = time.time() - seconds
    content["created_at"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
    spec.write_text(json.dumps(content))
    for path in (root / layout.JOBS / job).rglob("*"):
        os.utime(path, (at, at))


@pytest.mark.parametrize("made", ["folder"], indirect=True)
def test_clean_takes_old_jobs_that_no_newer_one_uses(made):
    target, backend = made
    old, young, used, retried = (finished(made, name) for name in ("old", "young", "used", "retried"))
    open_ = target.submit(COMMAND, uris(1), queue="cpu", name="open")
    user = target.submit(COMMAND, uris(1), queue="cpu", name="user", after=[used.id])
    backend.run(target, user.id)
    for job in (old, used, retried, open_):
        older(target.store, job.id, 40 * DAY)
    target.store.put(layout.done(retried.id, 1, 0), b"new")
    removal = target.housekeeping.cleanup("30d")
    kept = {row.job: row.kept for row in removal.jobs}
    assert kept.keys() == {old.id, used.id, open_.id}
    assert kept[old.id] is None
    assert (kept[used.id] or "").startswith(f"{user.id} uses what {used.id} has left.")
    assert (kept[open_.id] or "").startswith(f"{open_.id} is ")
    assert [row.job for row in removal.removed] == [old.id]
    removal.carry_out()
    assert {row.job for row in target.jobs()} == {young.id, used.id, retried.id, open_.id, user.id}
    assert target.housekeeping.cleanup(50 * DAY).jobs == target.housekeeping.cleanup().jobs == []


@pytest.mark.parametrize("given", ["30", "soon", [30]])
def test_an_age_that_is_none_removes_nothing(made, given):
    with pytest.raises(CallerError, match=r"older_than is .*; it must be a time such as 30d"):
        made[0].housekeeping.cleanup(given)


def test_the_public_type_shows_no_site(made):
    target: Pipeline = made[0]
    assert repr(target.housekeeping.removal()) == "Removal(jobs=[], leftovers=[])"


@pytest.mark.parametrize("folder", [layout.OUT, layout.STATE, layout.JOBS])
def test_a_link_in_place_of_a_folder_goes_and_what_it_leads_to_stays(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(deliveries, "SUBMIT_GRACE_SECONDS", -1)
    made = pipeline((tmp_path / "store").as_uri(), max_spec=SPEC_VERSION)
    job, elsewhere = finished(made), tmp_path / "elsewhere"
    path = tmp_path / "store" / folder / job.id
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    (elsewhere / "thesis.tex").write_text("mine")
    made[0].housekeeping.removal(job.id).carry_out()
    assert (elsewhere / "thesis.tex").read_text() == "mine"
    assert left_of(made[0].store, job.id) == []
    assert not os.path.lexists(path)


def test_a_list_of_jobs_is_refused_with_the_call_that_takes_it(made):
    target, _ = made
    jobs: list[str] = ["tiles", "other"]
    with pytest.raises(CallerError) as caught:
        target.housekeeping.removal(jobs)  # pyright: ignore[reportArgumentType]
    assert "removal(*jobs)" in caught.value.fix
