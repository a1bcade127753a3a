"""Facts of real states, and the cause that `explain` has to name; docs/explain.md is the specification. The states of
the clouds are those of their documentation. What this cannot prove: that the clouds say what they document."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.unit.client.watch.test_explain import NOW, OLD, World, aws, environments, job, ran
from tests.unit.client_fakes import outcome
from tidemill import layout
from tidemill.explain.facts import Facts, FleetFacts
from tidemill.explain.judge import explain
from tidemill.fleet import GroupReport, ScalerNote
from tidemill.ledger.digest import RanOn, RunFacts, digest_of
from tidemill.ledger.records import Header, Record
from tidemill.services.batch.model import Environment, Try
from tidemill.services.pubsub.model import GcpFacts, PubSubQueue

WANTS = Environment("ce-1", "ENABLED", "VALID", "", "spot", 64, 512)
TAKEN = Try(None, "", "Host EC2 (instance i-0123456789abcdef0) terminated.", "c", OLD + 50)
FAILED = Try(1, "", "Essential container in task exited", "c", OLD + 50)


@pytest.fixture
def world() -> World:
    return World()


def headline(facts: Facts) -> tuple[str, str]:
    found = explain(facts).headline
    return found.kind, found.code


# ---- failures that are over -----------------------------------------------------------------------------------------


def test_a_retry_is_not_blamed_for_what_it_repeats(world: World) -> None:
    world.commit(range(10), "exit")
    world.job.retry()
    assert world.codes() == ["L1"]
    # It fails again: now the code that runs is to blame.
    for chunk in range(3):
        bad = [replace(outcome(n, "u", True), error="no") for n in range(10 * chunk, 10 * chunk + 10)]
        world.ledger.chunk(1, chunk).commit("b", bad, run=ran())
    assert world.headline() == "act L3"


def test_a_retry_is_not_blamed_for_programs_that_did_not_start_before(world: World) -> None:
    world.ledger.start_failed(0, "no matching distribution for torch==9")
    world.commit(range(10), "start")
    assert world.headline() == "well L11"
    world.job.retry()
    assert world.codes() == ["L1"]


def test_one_item_that_ran_out_of_memory_stops_no_job(world: World) -> None:
    world.commit([0], "memory", failed=1)
    assert world.headline() == "act L4"  # of few outcomes each counts
    world.commit(range(1, 9))
    assert world.headline() == "well L10"


def test_a_store_that_answers_again_is_no_trouble(world: World) -> None:
    def attempt(name: str) -> Any:
        marker = world.ledger.chunk(0, 0).marker(name, 1, {})
        marker._marker["started_at"] = f"2026-11-23T07:0{ord(name) - 96}:00.000+00:00"
        return marker

    attempt("a").ended("store")
    assert world.headline(700) == "act L7"
    attempt("b").write([1])
    assert world.headline(700) == "turn L13"
    attempt("b").ended("store")
    attempt("c").write([1])
    assert world.headline(700) == "act L7"


# ---- what is lost ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["lost", "running"])
@pytest.mark.parametrize(
    ("tries", "last", "code"),
    [
        pytest.param([TAKEN] * 3, None, "L9", id="taken-away-too-often"),
        pytest.param([TAKEN] * 3, OLD + 100, "L9", id="taken-away-and-others-went-on"),
        pytest.param([FAILED] * 3, None, "A13", id="failed"),
        pytest.param([FAILED] * 3, OLD + 100, "A13", id="failed-and-others-went-on"),
        pytest.param([FAILED], OLD + 100, "A13", id="failed-once"),
        pytest.param([replace(FAILED, stopped=OLD - 50)], None, "L9", id="failed-in-an-earlier-round"),
        pytest.param([], None, "L9", id="nothing-known"),
    ],
)
def test_lost_chunks_need_action(state: str, tries: list[Try], last: float | None, code: str) -> None:
    ours = job(state=state, lost=1, lost_reason="its last attempt failed", waiting=0, active=3, last=last)
    assert headline(Facts(NOW, ours, aws(tries=tries))) == ("act", code)


def test_containers_that_ended_before_others_went_on_are_history_where_nothing_is_lost() -> None:
    ours = job(waiting=5, active=3, last=NOW - 10)
    assert headline(Facts(NOW, ours, aws(tries=[FAILED] * 3))) == ("well", "L10")


# ---- the end of a job -----------------------------------------------------------------------------------------------


def test_a_chunk_is_compared_with_the_time_of_others_and_not_with_that_of_their_slots(world: World) -> None:
    """Ten slots side by side: a chunk whose items take 1,000 s together takes 100 s."""
    began = datetime.now(UTC) - timedelta(seconds=500)
    for chunk in range(9):
        ran = [replace(outcome(n, "u", False), wall_seconds=100.0) for n in range(10 * chunk, 10 * chunk + 10)]
        facts = RunFacts(began.isoformat(), RanOn(), 10, 1000.0, 0.0, 0.0, 1000.0, 10)
        ended = (began + timedelta(seconds=100)).isoformat()
        header = Header(chunk, "a", 0, "w", 10, 0, ended, {}, digest_of(ran, facts))
        world.target.store.put(layout.done(world.job.id, 0, chunk), Record(header, ran).encode())
        world.backend.arrays[0].children[chunk] = "succeeded"
    world.ledger.chunk(0, 9).marker("a", 1, {}).write([97])
    world.running(9)
    assert "L5" not in world.codes(390)
    assert world.headline(410) == "act L5"


# ---- AWS Batch's reasons --------------------------------------------------------------------------------------------


REASONS = """
A6 CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - Service cannot fulfill the capacity requested for instance type [c7i.large]
A4 MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE - CE(s) associated with the job queue cannot meet the requirement
A5 MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - The requirement is higher than that can be met by the CE(s)
A7 ACTION_REQUIRED - CE(s) associated with the job queue are invalid.
A18 MISCONFIGURATION:SERVICE_ROLE_PERMISSIONS - Batch service role has a permission issue.
A18 UNDETERMINED - Batch job is blocked, root cause is undetermined.
"""


@pytest.mark.parametrize("line", REASONS.strip().splitlines())
def test_every_documented_reason_of_batch_is_named(line: str) -> None:
    """https://docs.aws.amazon.com/batch/latest/userguide/job_stuck_in_runnable.html"""
    code, _, reason = line.partition(" ")
    facts = Facts(NOW, job(), aws(reasons=[reason], **environments(WANTS)))
    assert code in [cause.code for cause in explain(facts).causes]
    young = replace(facts, job=job(began=NOW - 60))
    assert explain(young).exit_code == 0


# ---- Google's status details ----------------------------------------------------------------------------------------


def fleet(*notes: str, ours: dict[str, Any] | None = None, **told: Any) -> Facts:
    """A queue on GCP whose autoscaler says so, and whose job waits for more than an hour unless `ours` says else."""
    group = GroupReport(target=4, running=4, notes=[ScalerNote(each, "in Google's words") for each in notes])
    report = FleetFacts(report_at=NOW - 30, groups=[("spot", group)], **told)
    return Facts(NOW, job(**(ours or {})), GcpFacts(PubSubQueue("t", "s", True, "t")), report)


NOTES = """
G10 ALL_INSTANCES_UNHEALTHY
G17 BACKEND_SERVICE_DOES_NOT_EXIST
G5 CAPPED_AT_MAX_NUM_REPLICAS
G4 CUSTOM_METRIC_DATA_POINTS_TOO_SPARSE
G4 CUSTOM_METRIC_INVALID
L13 MIN_EQUALS_MAX
G4 MISSING_CUSTOM_METRIC_DATA_POINTS
G3 MODE_OFF
L13 MODE_ONLY_SCALE_OUT
L13 MODE_ONLY_UP
G7 NOT_ENOUGH_QUOTA_AVAILABLE
G6 REGION_RESOURCE_STOCKOUT
G17 SCALING_TARGET_DOES_NOT_EXIST
G17 UNKNOWN
G6 ZONE_RESOURCE_STOCKOUT
"""


@pytest.mark.parametrize("line", NOTES.strip().splitlines())
def test_every_documented_status_of_an_autoscaler_is_named(line: str) -> None:
    """https://cloud.google.com/compute/docs/reference/rest/v1/regionAutoscalers"""
    code, _, note = line.partition(" ")
    assert headline(fleet(note))[1] == code
    working = {"active": 20, "last": NOW - 20}
    # Of a job that progresses, somebody's switch alone needs somebody.
    assert headline(fleet(note, ours=working)) == (("act", "G3") if code == "G3" else ("well", "L10"))


def test_broken_machines_need_action_only_where_no_other_works() -> None:
    broken = {"errors": ["no driver"], "broken": 2}
    assert headline(fleet(**broken)) == ("act", "G9")
    assert headline(fleet(ours={"began": NOW - 60}, **broken)) == ("act", "G9")
    assert headline(fleet(ours={"active": 20, "last": NOW - 20}, **broken)) == ("well", "L10")
    assert headline(fleet(ours={"active": 0, "last": NOW - 700}, **broken)) == ("act", "G9")
