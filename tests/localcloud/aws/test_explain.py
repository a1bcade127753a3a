"""Why a job does not progress, on localcloud's Batch: one test per cause. What this cannot prove: that AWS words and
places its reasons like this (docs/first-account.md), or how late it is with them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from localcloud.aws.batch import scheduler
from localcloud.aws.mended import gaps
from tests.localcloud.aws.batch.account import REGION, account
from tests.localcloud.aws.team import Team
from tests.localcloud.waiting import until
from tidemill.client import Job
from tidemill.client.rounds import deliveries
from tidemill.client.watch.explain import read_facts
from tidemill.client.watch.observation import observe
from tidemill.explain import Explanation
from tidemill.explain.judge import explain
from tidemill.services.batch.facts import MOST_REQUESTS

NO_IMAGE = f"123456789012.dkr.ecr.{REGION}.amazonaws.com/none@sha256:{'0' * 64}"
LATER = 700.0
MUCH_LATER = 4000.0


def look(job: Job, later: float = 0.0) -> Explanation:
    """The explanation of a job as if so many seconds had passed since it was looked at."""
    facts = read_facts(observe(job._watched.site, job._watched.ledger, job.spec, consumption=False))
    return explain(replace(facts, now=facts.now + later))


def headline(job: Job, later: float = 0.0) -> str:
    return f"{(found := look(job, later)).kind} {found.headline.code}"


def waits(team: Team, job: Job, words: str) -> None:
    """Until Batch gives a reason for a wait."""
    until(lambda: any(words in cause.text for cause in look(job).causes))


@pytest.fixture(scope="module")
def team() -> Iterator[Team]:
    with pytest.MonkeyPatch.context() as patch, account(namespaces=False, submit_rate=1000) as cloud:
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{cloud.port}")
        yield Team(cloud)


@pytest.fixture
def settings(team: Team) -> Iterator[Any]:
    """Change the cloud's settings for a test."""
    yield lambda **given: team.cloud.api.control["settings"](given)
    team.cloud.api.control["settings"]({"stockout": (), "joins": True, "unpullable": ()})


def disabled(team: Team) -> str:
    """A queue whose one environment starts nothing."""
    environment = team.environment()
    made = team.queue(environment)
    team.cloud.batch.update_compute_environment(computeEnvironment=environment, state="DISABLED")
    until(lambda: team.cloud.status_of(environment) == "VALID")
    return made


# ---- the queue -------------------------------------------------------------------------------------------------------


def test_a_queue_that_is_disabled_or_gone(team: Team) -> None:
    made = team.queue()
    job = team.submit(made, "sleep", "600", cpus=64)
    team.cloud.batch.update_job_queue(jobQueue=made, state="DISABLED")
    assert headline(job) == "act A1"
    until(lambda: team.cloud.queue_status(made) == "VALID")
    team.cloud.batch.delete_job_queue(jobQueue=made)
    until(lambda: team.cloud.queue_status(made) in ("DELETING", None))
    found = look(job)
    assert "A1" in [cause.code for cause in found.causes]
    assert found.exit_code == 1


def test_a_queue_that_is_invalid(team: Team) -> None:
    made = team.queue()
    job = team.submit(made, "sleep", "600", cpus=64)
    detail = team.cloud.api._queues.queues[made].detail
    detail |= {"status": "INVALID", "statusReason": "no role"}
    found = look(job, LATER)
    assert "A2" in [cause.code for cause in found.causes if cause.kind == "act"]
    assert "no role" in next(cause.text for cause in found.causes if cause.code == "A2")


def test_no_environment_may_start_machines(team: Team) -> None:
    job = team.submit(disabled(team), "true")
    assert headline(job) == "act A3"
    assert "--state ENABLED" in look(job).headline.do


# ---- machines --------------------------------------------------------------------------------------------------------


def test_a_container_that_is_larger_than_the_queues_limit(team: Team) -> None:
    """Configuration alone tells, and Batch's own reason is quoted."""
    job = team.submit(team.queue(team.environment(instanceTypes=["c6i.4xlarge"])), "true", cpus=16)
    waits(team, job, "COMPUTE_ENVIRONMENT_MAX_RESOURCE")
    assert headline(job) == "never A4"


def test_a_container_that_fits_no_machine_type(team: Team) -> None:
    """Batch shows the same reason while it scales from zero, so it does not count at once."""
    job = team.submit(team.queue(team.environment(maxvCpus=128)), "true", cpus=64)
    waits(team, job, "JOB_RESOURCE_REQUIREMENT")
    found = look(job)
    assert [(cause.kind, cause.code) for cause in found.causes] == [("well", "L1"), ("turn", "A5")]
    assert "it may pass" in found.causes[1].text
    assert headline(job, LATER) == "never A5"


def test_a_shortage_is_a_matter_of_patience_for_an_hour(team: Team, settings: Any) -> None:
    settings(stockout=("c6i.xlarge",))
    job = team.submit(team.queue(), "true")
    waits(team, job, "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY")
    assert headline(job, LATER) == "turn A6"
    assert headline(job, MUCH_LATER) == "act A6"


def test_environments_that_batch_calls_invalid(team: Team, settings: Any) -> None:
    settings(stockout=("c6i.xlarge",))
    environment = team.environment()
    job = team.submit(team.queue(environment), "true")
    team.cloud.api._environments.all[environment].detail["status"] = "INVALID"
    waits(team, job, "ACTION_REQUIRED")
    assert [cause.code for cause in look(job, LATER).causes][:2] == ["A3", "A7"]


def test_a_full_queue_and_others_ahead(team: Team, settings: Any) -> None:
    made = team.queue(team.environment(maxvCpus=8))
    team.busy(made)
    settings(stockout=("c6i.xlarge",))
    team.cloud.run(made, team.cloud.definition("sleep", "600"), shareIdentifier="bob", size=3)
    job = team.submit(made, "true")
    found = until(lambda: (seen := look(job, LATER)).headline.code == "A9" and seen)
    assert (found.kind, "bob uses 4 of 4 vCPUs" in found.headline.text) == ("turn", True)
    team.cloud.batch.update_compute_environment(
        computeEnvironment=environment_of(team, made), computeResources={"maxvCpus": 4}
    )
    assert headline(job, LATER) == "turn A8"
    assert "A9" in [cause.code for cause in look(job, LATER).causes]


def environment_of(team: Team, made: str) -> str:
    return team.cloud.batch.describe_job_queues(jobQueues=[made])["jobQueues"][0]["computeEnvironmentOrder"][0][
        "computeEnvironment"
    ]


def test_a_quota_that_keeps_machines_away(team: Team, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings(joins=False)
    monkeypatch.setitem(gaps.VCPU_QUOTAS, "L-34B43A08", 2.0)
    job = team.submit(team.queue(), "sleep", "600")
    found = look(job).headline
    assert (found.kind, found.code) == ("act", "A10")
    assert "--quota-code L-34B43A08" in found.do


def test_machines_that_never_join(team: Team, settings: Any) -> None:
    settings(joins=False)
    job = team.submit(team.queue(team.environment(maxvCpus=128)), "true")
    until(lambda: "A11" in [cause.code for cause in look(job).causes])
    assert headline(job) == "well L1"
    assert headline(job, LATER) == "act A11"


def test_a_rung_that_is_off_does_not_stop_the_others(team: Team, settings: Any) -> None:
    settings(joins=False)
    first, second = (team.environment(maxvCpus=128) for _ in range(2))
    job = team.submit(team.queue(first, second), "true")
    team.cloud.batch.update_compute_environment(computeEnvironment=first, state="DISABLED")
    assert headline(job) == "turn A16"


def test_a_reason_that_is_not_known_is_not_dropped(team: Team, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings(stockout=("c6i.xlarge",))
    job = team.submit(team.queue(), "true")
    waits(team, job, "CAPACITY")
    with monkeypatch.context() as patch:
        patch.setattr(scheduler, "SHORT", "UNDETERMINED - Batch job is blocked, root cause is undetermined")
        waits(team, job, "UNDETERMINED")
        found = look(job, LATER).headline
    assert (found.kind, found.code) == ("act", "A18")
    assert "root cause is undetermined" in found.text


# ---- containers ------------------------------------------------------------------------------------------------------


def test_images_that_cannot_be_pulled(team: Team, settings: Any) -> None:
    settings(unpullable=(NO_IMAGE,))
    job = team.submit(team.queue(), "true", image=NO_IMAGE)
    found = until(lambda: (seen := look(job)).headline.code == "A12" and seen.kind == "act" and seen)
    assert "CannotPullContainerError" in found.headline.text


@pytest.mark.parametrize(("exit_code", "code"), [(127, "A13"), (72, "A14"), (71, "L7")])
def test_containers_that_end_without_a_record(team: Team, exit_code: int, code: str) -> None:
    job = team.submit(team.queue(), "sh", "-c", f"exit {exit_code}")
    found = until(lambda: (seen := look(job)).kind == "act" and seen).headline
    assert found.code == code
    assert f"exit code {exit_code}" in found.text


# ---- ended -----------------------------------------------------------------------------------------------------------


def test_batch_gives_up_what_waits_for_too_long(team: Team, settings: Any) -> None:
    settings(stockout=("c6i.xlarge",))
    reason = "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY"
    action = {"state": "RUNNABLE", "action": "CANCEL", "maxTimeSeconds": 1, "reason": reason}
    job = team.submit(team.queue(jobStateTimeLimitActions=[action]), "true")
    found = until(lambda: (seen := look(job)).headline.code == "A15" and seen)
    assert (found.kind, reason in found.headline.text) == ("act", True)


def test_batch_forgets_what_has_ended(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    job = team.submit(team.queue(), "true")
    until(lambda: team.cloud.job(look_id(job))["status"] == "SUCCEEDED")
    assert headline(job) == "act L9"
    team.cloud.api.control["forget"]({})
    monkeypatch.setattr(deliveries, "SUBMIT_GRACE_SECONDS", -1)
    assert headline(job) == "act A17"


# ---- denied ----------------------------------------------------------------------------------------------------------

ACTIONS = {
    "batch.DescribeJobQueues": "batch:DescribeJobQueues",
    "batch.DescribeComputeEnvironments": "batch:DescribeComputeEnvironments",
    "batch.GetJobQueueSnapshot": "batch:GetJobQueueSnapshot",
    "batch.ListJobs": "batch:ListJobs",
    "batch.DescribeJobs": "batch:DescribeJobs",
    "service-quotas.GetServiceQuota": "servicequotas:GetServiceQuota",
    "sts.GetCallerIdentity": "",
}


def denied(**_: Any) -> tuple[Any, dict[str, Any]]:
    error = {"Code": "AccessDeniedException", "Message": "User bob is not authorized"}
    return SimpleNamespace(status_code=403, headers={}), {"Error": error, "ResponseMetadata": {}}


@pytest.mark.parametrize("operation", ACTIONS)
def test_what_is_denied_is_unknown_and_nothing_is_guessed(team: Team, operation: str, settings: Any) -> None:
    settings(stockout=("c6i.xlarge",))
    job = team.submit(team.queue(), "true")
    seen = observe(job._watched.site, job._watched.ledger, job.spec, consumption=False)
    team.session.events.register(f"before-call.{operation}", denied)
    try:
        facts = read_facts(seen)
    finally:
        team.session.events.unregister(f"before-call.{operation}", denied)
    found = explain(replace(facts, now=facts.now + LATER))
    assert {each.what for each in found.unknown} == ({ACTIONS[operation]} - {""})
    assert all(each.command == "pulumi stack output | grep submitter" for each in found.unknown)
    assert found.headline.code in ("A6", "L13")


def test_the_calls_of_one_look_are_few(team: Team, settings: Any) -> None:
    """The most that there can be: children that wait and children that have failed."""
    settings(stockout=("c6i.xlarge",))
    job = team.submit(team.queue(), "sh", "-c", "exit 127", chunks=3)
    seen = observe(job._watched.site, job._watched.ledger, job.spec, consumption=False)
    array = replace(seen.known[0], states={"waiting": 2, "failed": 1})
    calls: list[str] = []
    count = lambda model, **_: calls.append(model.name)  # noqa: E731
    team.session.events.register("before-call", count)
    try:
        began = time.process_time()
        read_facts(replace(seen, known=[array]))
        took = time.process_time() - began
    finally:
        team.session.events.unregister("before-call", count)
    assert len(calls) <= MOST_REQUESTS
    assert took < 3


# ---- well ------------------------------------------------------------------------------------------------------------


def test_a_healthy_cold_start_asks_for_nobody(team: Team) -> None:
    """Every look from the submit to the first container, although Batch shows a reason meanwhile."""
    job = team.submit(team.queue(team.environment(maxvCpus=128)), "sleep", "600")
    looks = [look(job)]
    while not team.cloud.job(look_id(job))["arrayProperties"]["statusSummary"]["RUNNING"]:
        looks.append(look(job))
        assert len(looks) < 1000
    looks.append(look(job))
    assert {found.kind for found in looks} <= {"well", "turn"}
    assert looks[0].headline.code == "L1"
    assert headline(job, LATER) == "turn L13"
    job.cancel("over")
    assert headline(job) == "act L9"


def look_id(job: Job) -> str:
    return observe(job._watched.site, job._watched.ledger, job.spec, consumption=False).known[0].id
