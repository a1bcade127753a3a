"""Jobs: each thing that moto's Batch gets wrong, retries, limits. This does not prove that AWS answers the same."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.aws.batch.jobs import Attempt
from localcloud.aws.batch.scheduler import retries
from tests.gate import gate
from tests.localcloud.aws.batch.account import Account, account
from tests.localcloud.waiting import SECONDS, until

INDEX = "$AWS_BATCH_JOB_ARRAY_INDEX"


@pytest.fixture(scope="module")
def cloud() -> Iterator[Account]:
    with account(submit_rate=1000, time_scale=0.01) as made:
        yield made


@pytest.fixture(scope="module")
def queue(cloud: Account) -> str:
    return cloud.queue()


@pytest.fixture(scope="module")
def stuck(cloud: Account) -> str:
    """A queue on which nothing ever starts."""
    environment = cloud.environment()
    queue = cloud.queue(environment)
    cloud.batch.update_compute_environment(computeEnvironment=environment, state="DISABLED")
    return queue


def sh(cloud: Account, script: str, **more: Any) -> str:
    return cloud.definition("sh", "-c", script, **more)


def container(job: dict[str, Any]) -> dict[str, Any]:
    return job["container"]


def test_children_have_ids_arns_indices_and_their_own_fate(cloud: Account, queue: str) -> None:
    definition = sh(
        cloud, f"echo child {INDEX} of $AWS_BATCH_JOB_ID attempt $AWS_BATCH_JOB_ATTEMPT; exit $(({INDEX} % 2))"
    )
    with cloud.still():
        parent = cloud.run(queue, definition, size=4, tags={"team": "vision"})
        assert cloud.job(f"{parent}:3")["tags"] == {"team": "vision"}
        assert cloud.job(parent)["status"] in ("SUBMITTED", "PENDING"), "nothing succeeds by being submitted"
    done = cloud.ended(parent)
    assert done["status"] == "FAILED", "one failed child fails the parent"
    assert done["arrayProperties"]["size"] == 4
    assert done["arrayProperties"]["statusSummary"] == {
        "SUBMITTED": 0, "PENDING": 0, "RUNNABLE": 0, "STARTING": 0, "RUNNING": 0, "SUCCEEDED": 2, "FAILED": 2,
    }  # fmt: skip
    for index in range(4):
        child = cloud.job(f"{parent}:{index}")
        assert child["jobArn"] == f"{done['jobArn']}:{index}"
        assert child["arrayProperties"] == {"index": index}
        assert child["status"] == ("FAILED" if index % 2 else "SUCCEEDED")
        assert container(child)["exitCode"] == index % 2
        assert cloud.lines(f"{parent}:{index}") == [f"child {index} of {parent}:{index} attempt 1"]


def test_a_parent_is_pending_while_children_run(cloud: Account, queue: str) -> None:
    with gate() as held:
        parent = cloud.run(queue, sh(cloud, held.wait), size=3)
        until(lambda: cloud.job(parent)["arrayProperties"]["statusSummary"]["RUNNING"])
        assert cloud.job(parent)["status"] == "PENDING"
    assert cloud.ended(parent)["status"] == "SUCCEEDED"


def test_lists_and_pages(cloud: Account, queue: str) -> None:
    parent = cloud.run(queue, sh(cloud, f"exit $(({INDEX} == 1))"), size=5, name="Listed")
    plain = cloud.run(queue, sh(cloud, "exit 4"), name="listed-plain")
    cloud.ended(parent)
    cloud.ended(plain)
    batch = cloud.batch
    assert batch.list_jobs(arrayJobId=parent)["jobSummaryList"] == [], "no status means RUNNING"
    page = batch.list_jobs(arrayJobId=parent, jobStatus="SUCCEEDED", maxResults=3)
    assert len(page["jobSummaryList"]) == 3
    rest = batch.list_jobs(arrayJobId=parent, jobStatus="SUCCEEDED", maxResults=3, nextToken=page["nextToken"])
    assert "nextToken" not in rest
    rows = page["jobSummaryList"] + rest["jobSummaryList"]
    assert [row["arrayProperties"]["index"] for row in rows] == [0, 2, 3, 4]
    assert {row["container"]["exitCode"] for row in rows} == {0}
    named = [{"name": "JOB_NAME", "values": ["LISTED*"]}]
    found = batch.list_jobs(jobQueue=queue, filters=named)["jobSummaryList"]
    assert {row["jobId"] for row in found} == {parent, plain}, "parents only, any status, any case"
    assert [row["arrayProperties"]["size"] for row in found if row["jobId"] == parent] == [5]
    exact = [{"name": "JOB_NAME", "values": ["listed"]}]
    assert [row["jobId"] for row in batch.list_jobs(jobQueue=queue, filters=exact)["jobSummaryList"]] == [parent]
    failed = batch.list_jobs(jobQueue=queue, jobStatus="FAILED")["jobSummaryList"]
    assert {parent, plain} <= {row["jobId"] for row in failed}
    with pytest.raises(ClientError, match="not a filter"):
        batch.list_jobs(jobQueue=queue, filters=[{"name": "COLOUR", "values": ["red"]}])


def test_describe_keeps_the_order_and_skips_what_it_does_not_know(cloud: Account, queue: str) -> None:
    parent = cloud.run(queue, sh(cloud, "true"), size=3)
    cloud.ended(parent)
    wanted = [f"{parent}:2", parent, "unknown", f"{parent}:0", f"{parent}:3"]
    assert [job["jobId"] for job in cloud.batch.describe_jobs(jobs=wanted)["jobs"]] == [
        f"{parent}:2",
        parent,
        f"{parent}:0",
    ]
    by_arn = cloud.batch.describe_jobs(jobs=[cloud.job(f"{parent}:1")["jobArn"]])["jobs"]
    assert by_arn[0]["jobId"] == f"{parent}:1"


def test_overrides_reach_the_child_and_describe_does_not_grow(cloud: Account, queue: str) -> None:
    definition = sh(cloud, "false", environment=[{"name": "A", "value": "1"}, {"name": "B", "value": "2"}])
    override = {
        "command": ["sh", "-c", "echo $A $B $C"],
        "environment": [{"name": "B", "value": "x"}, {"name": "C", "value": "y"}],
        "resourceRequirements": [{"type": "VCPU", "value": "2"}],
    }
    job = cloud.run(queue, definition, containerOverrides=override)
    assert cloud.ended(job)["status"] == "SUCCEEDED"
    assert cloud.lines(job) == ["1 x y"]
    described = [container(cloud.job(job)) for _ in range(3)]
    assert described[0] == described[2]
    assert described[0]["environment"] == [
        {"name": "A", "value": "1"}, {"name": "B", "value": "x"}, {"name": "C", "value": "y"},
    ]  # fmt: skip
    assert {"type": "VCPU", "value": "2"} in described[0]["resourceRequirements"]


@pytest.mark.parametrize("size", [0, 1, 10_001])
def test_array_sizes_that_are_refused(cloud: Account, queue: str, size: int) -> None:
    with pytest.raises(ClientError, match="must be 2 to 10000"):
        cloud.batch.submit_job(
            jobName="j", jobQueue=queue, jobDefinition=sh(cloud, "true"), arrayProperties={"size": size}
        )


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"dependsOn": [{"jobId": "a"}]}, "Job a not found"),
        ({"dependsOn": [{"type": "SEQUENTIAL"}]}, "does not emulate a dependency with a type"),
        ({"dependsOn": [{"jobId": "a"}] * 21}, "at most 20"),
        ({"nodeOverrides": {"numNodes": 1}}, "does not emulate nodeOverrides"),
        ({"jobName": "a b"}, "must be 1 to 128"),
        ({"jobDefinition": "none"}, "not found or is not active"),
        ({"jobQueue": "none"}, "does not exist"),
        ({"tags": {"a": "b" * 200}, "containerOverrides": {"command": ["x" * 30_000] * 2}}, "larger than 30 KiB"),
    ],
)
def test_submits_that_are_refused(cloud: Account, queue: str, more: dict[str, Any], message: str) -> None:
    with pytest.raises(ClientError, match=message):
        cloud.batch.submit_job(**({"jobName": "j", "jobQueue": queue, "jobDefinition": sh(cloud, "true")} | more))


def test_a_job_waits_for_its_dependencies_and_fails_with_them(cloud: Account, queue: str) -> None:
    """Children of an array are counted as PENDING until every job that it depends on has succeeded."""
    with gate() as held:
        first = cloud.run(queue, sh(cloud, held.wait), size=2)
        broken = cloud.run(queue, sh(cloud, "[ $AWS_BATCH_JOB_ARRAY_INDEX = 0 ]"), size=2)
        second = cloud.run(queue, sh(cloud, "true"), size=2, dependsOn=[{"jobId": first}])
        third = cloud.run(queue, sh(cloud, "true"), dependsOn=[{"jobId": second}, {"jobId": broken}])
        assert cloud.job(second)["arrayProperties"]["statusSummary"]["RUNNABLE"] == 0
        assert cloud.job(second)["dependsOn"] == [{"jobId": first}]
    assert cloud.ended(second)["status"] == "SUCCEEDED"
    assert cloud.ended(second)["createdAt"] <= cloud.job(first)["stoppedAt"]
    done = cloud.ended(third)
    assert (done["status"], done["statusReason"]) == ("FAILED", "Dependent Job failed")
    late = cloud.run(queue, sh(cloud, "true"), dependsOn=[{"jobId": first}])
    assert cloud.ended(late)["status"] == "SUCCEEDED"


def test_a_disabled_queue_takes_nothing_and_finishes_what_it_has(cloud: Account) -> None:
    queue = cloud.queue()
    job = cloud.run(queue, sh(cloud, "sleep 0.5"))
    cloud.batch.update_job_queue(jobQueue=queue, state="DISABLED")
    with pytest.raises(ClientError, match="is DISABLED"):
        cloud.run(queue, sh(cloud, "true"))
    assert cloud.ended(job)["status"] == "SUCCEEDED"


def test_terminate_of_a_parent_ends_every_child(cloud: Account, queue: str) -> None:
    parent = cloud.run(queue, sh(cloud, "exec sleep 600"), size=20)
    until(lambda: cloud.job(parent)["arrayProperties"]["statusSummary"]["RUNNING"])
    cloud.batch.terminate_job(jobId=parent, reason="enough")
    done = cloud.ended(parent)
    assert (done["status"], done["statusReason"], done["isTerminated"]) == ("FAILED", "enough", True)
    child = cloud.job(f"{parent}:19")
    assert (child["status"], child["statusReason"], child["attempts"]) == ("FAILED", "enough", [])


def test_cancel_ends_what_waits_and_leaves_what_runs(cloud: Account, queue: str, stuck: str) -> None:
    with gate() as held:
        running = cloud.run(queue, sh(cloud, held.wait))
        cloud.becomes(running, "RUNNING")
        cloud.batch.cancel_job(jobId=running, reason="no")
    assert cloud.ended(running)["status"] == "SUCCEEDED"
    waiting = cloud.run(stuck, sh(cloud, "true"))
    cloud.becomes(waiting, "RUNNABLE")
    cloud.batch.cancel_job(jobId=waiting, reason="no")
    done = cloud.job(waiting)
    assert (done["status"], done["statusReason"], done["isCancelled"]) == ("FAILED", "no", True)


def test_retries_and_what_describe_tells_of_attempts(cloud: Account, queue: str) -> None:
    definition = sh(
        cloud, "echo $AWS_BATCH_JOB_ATTEMPT; [ $AWS_BATCH_JOB_ATTEMPT = 3 ]", more={"retryStrategy": {"attempts": 4}}
    )
    done = cloud.ended(cloud.run(queue, definition))
    assert done["status"] == "SUCCEEDED"
    assert done["retryStrategy"] == {"attempts": 4}
    exits = [each["container"]["exitCode"] for each in done["attempts"]]
    assert exits == [1, 1, 0]
    assert done["attempts"][0]["statusReason"] == "Essential container in task exited"
    assert done["attempts"][0]["startedAt"] <= done["attempts"][0]["stoppedAt"] <= done["attempts"][1]["startedAt"]


def test_a_retry_goes_to_the_front(cloud: Account) -> None:
    one = cloud.queue(cloud.environment(instanceTypes=["c6i.large"], maxvCpus=2))
    more = {"retryStrategy": {"attempts": 2}}
    first = cloud.run(one, sh(cloud, "sleep 0.2; [ $AWS_BATCH_JOB_ATTEMPT = 2 ]", cpus=2, more=more))
    second = cloud.run(one, sh(cloud, "true", cpus=2))
    assert cloud.ended(second)["startedAt"] >= cloud.ended(first)["attempts"][1]["startedAt"]


RULES = [
    {"action": "RETRY", "onStatusReason": "Host EC2*"},
    {"action": "RETRY", "onExitCode": "70"},
    {"action": "EXIT", "onExitCode": "7*", "onReason": "*"},
    {"action": "EXIT", "onReason": "Cannot*"},
]


@pytest.mark.parametrize(
    ("attempts", "code", "reason", "status_reason", "again"),
    [
        (1, None, None, "Host EC2 (instance i-1) terminated.", True),
        (10, None, None, "Host EC2 (instance i-1) terminated.", False),
        (1, 70, None, "Essential container in task exited", True),
        (1, 72, None, "Essential container in task exited", False),
        (1, 1, None, "Essential container in task exited", True),
        (1, None, "CannotStartContainerError: x", "Task failed to start", False),
        (1, None, None, "Task failed to start", True),
    ],
)
def test_evaluate_on_exit(attempts: int, code: int | None, reason: str | None, status_reason: str, again: bool) -> None:
    attempt = Attempt("", "", None, exit_code=code, reason=reason, status_reason=status_reason)
    assert retries({"attempts": 10, "evaluateOnExit": RULES}, attempts, attempt) is again


def test_a_time_limit_is_not_retried() -> None:
    """It has begun to run four seconds after its start, and it may take its time to end."""
    with account(time_scale=1 / 15, stop_seconds=SECONDS) as cloud:
        ends_at_its_limit(cloud, cloud.queue())


def ends_at_its_limit(cloud: Account, queue: str) -> None:
    more = {"timeout": {"attemptDurationSeconds": 60}, "retryStrategy": {"attempts": 3}}
    job = cloud.run(queue, sh(cloud, "trap 'echo term; exit 9' TERM; while :; do sleep 0.05; done", more=more))
    done = cloud.ended(job)
    assert (done["status"], len(done["attempts"])) == ("FAILED", 1)
    assert done["statusReason"] == "Job attempt duration exceeded timeout"
    assert done["timeout"] == {"attemptDurationSeconds": 60}
    assert container(done)["exitCode"] == 9
    assert cloud.lines(job) == ["term"]


def test_sigkill_follows_sigterm(cloud: Account, queue: str) -> None:
    job = cloud.run(queue, sh(cloud, "trap '' TERM; while :; do sleep 0.05; done"))
    cloud.becomes(job, "RUNNING")
    cloud.batch.terminate_job(jobId=job, reason="enough")
    assert container(cloud.ended(job))["exitCode"] == 137


def test_fair_share_is_round_robin(cloud: Account) -> None:
    environment = cloud.environment(instanceTypes=["c6i.large"], maxvCpus=2)
    fair = cloud.queue(environment, fair=True)
    cloud.batch.update_compute_environment(computeEnvironment=environment, state="DISABLED")
    until(lambda: cloud.status_of(environment) == "VALID")
    definition = sh(cloud, "true", cpus=2)
    crowd = cloud.run(fair, definition, size=6, shareIdentifier="crowd")
    single = cloud.run(fair, definition, shareIdentifier="single")
    cloud.becomes(single, "RUNNABLE")
    cloud.batch.update_compute_environment(computeEnvironment=environment, state="ENABLED")
    done = cloud.ended(single)
    cloud.ended(crowd)
    before = [n for n in range(6) if cloud.job(f"{crowd}:{n}")["startedAt"] < done["startedAt"]]
    assert len(before) <= 1


def test_an_item_that_fits_no_machine_says_so(cloud: Account, queue: str) -> None:
    job = cloud.run(queue, sh(cloud, "true", cpus=64))
    reason = until(lambda: cloud.job(job).get("statusReason"))
    assert str(reason).startswith("MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT")
    assert cloud.job(job)["status"] == "RUNNABLE"
    cloud.batch.terminate_job(jobId=job, reason="never")


def test_state_time_limit_actions_cancel_the_head(cloud: Account) -> None:
    action = {
        "state": "RUNNABLE", "action": "CANCEL", "maxTimeSeconds": 60,
        "reason": "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT",
    }  # fmt: skip
    queue = cloud.queue(jobStateTimeLimitActions=[action | {"maxTimeSeconds": 600}])
    job = cloud.run(queue, sh(cloud, "true", cpus=64))
    with account(time_scale=0.0005, submit_rate=1000) as quick:
        queue = quick.queue(jobStateTimeLimitActions=[action | {"maxTimeSeconds": 600}])
        assert quick.ended(quick.run(queue, sh(quick, "true", cpus=64)))["isCancelled"]
    assert cloud.job(job)["status"] == "RUNNABLE"
    cloud.batch.terminate_job(jobId=job, reason="never")


def test_finished_jobs_are_forgotten_when_told(cloud: Account, queue: str, stuck: str) -> None:
    done, waiting = cloud.run(queue, sh(cloud, "true")), cloud.run(stuck, sh(cloud, "true"))
    cloud.ended(done)
    assert cloud.api.control["forget"]({})["forgotten"] >= 1
    assert [job["jobId"] for job in cloud.batch.describe_jobs(jobs=[done, waiting])["jobs"]] == [waiting]


def test_ten_thousand_children_cost_no_thread_and_little_time(cloud: Account, stuck: str) -> None:
    threads, start = threading.active_count(), time.process_time()
    parent = cloud.run(stuck, sh(cloud, "true"), size=10_000)
    until(lambda: cloud.job(parent)["arrayProperties"]["statusSummary"]["RUNNABLE"] == 10_000)
    rows, token = 0, {}
    while True:
        page = cloud.batch.list_jobs(arrayJobId=parent, jobStatus="RUNNABLE", **token)
        rows += len(page["jobSummaryList"])
        if "nextToken" not in page:
            break
        token = {"nextToken": page["nextToken"]}
    assert rows == 10_000
    cloud.batch.terminate_job(jobId=parent, reason="enough")
    assert cloud.ended(parent)["arrayProperties"]["statusSummary"]["FAILED"] == 10_000
    assert threading.active_count() <= threads + 20
    assert time.process_time() - start < 60


def test_submit_is_throttled_at_its_rate() -> None:
    """At a low rate, because a busy machine does not make fifty calls per second."""
    with account(submit_rate=1) as cloud:
        queue = cloud.queue()
        definition = cloud.definition("true", cpus=64)
        codes = [submit(cloud, queue, definition) for _ in range(10)]
        assert not codes[0]
        assert set(codes) == {"", "TooManyRequestsException 429"}


def submit(cloud: Account, queue: str, definition: str) -> str:
    """The error of one SubmitJob, empty if there is none."""
    try:
        cloud.run(queue, definition)
    except ClientError as error:
        answer = error.response
        return f"{answer['Error']['Code']} {answer['ResponseMetadata']['HTTPStatusCode']}"
    return ""


def test_deleting_a_queue_ends_its_jobs(cloud: Account) -> None:
    queue = cloud.queue()
    job = cloud.run(queue, sh(cloud, "exec sleep 60"))
    cloud.becomes(job, "RUNNING")
    cloud.batch.update_job_queue(jobQueue=queue, state="DISABLED")
    until(lambda: cloud.queue_status(queue) == "VALID")
    with cloud.still():
        cloud.batch.delete_job_queue(jobQueue=queue)
        assert cloud.queue_status(queue) == "DELETING"
    assert cloud.ended(job)["statusReason"] == "The job queue was deleted."
    until(lambda: cloud.queue_status(queue) is None)
