"""Doctor run by a member of a team whose pipeline is up, healthy and broken. AWS's own answers are not shown."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.e2e.team import Team, await_that
from tests.engine.inventory import client


def doctor(team: Team, code: int = 0) -> dict[str, dict[str, Any]]:
    """Findings by check."""
    said = json.loads(team.tidemill("doctor", "--json", ok=(code,)))
    assert said["ok"] == (code == 0)
    return {finding["check"]: finding for finding in said["checks"]}


def queue_state(team: Team, arn: str) -> str:
    found = client(team.cloud.env, "batch").describe_job_queues(jobQueues=[arn])["jobQueues"][0]
    return f"{found['state']} {found['status']}"


@contextmanager
def disabled(team: Team, arn: str) -> Iterator[None]:
    """The queue, disabled by its owner; the commands in the block must enable it."""
    batch = client(team.cloud.env, "batch")
    batch.update_job_queue(jobQueue=arn, state="DISABLED")
    try:
        await_that(lambda: queue_state(team, arn) == "DISABLED VALID", "disabled")
        yield
        await_that(lambda: queue_state(team, arn) == "ENABLED VALID", "enabled")
    finally:
        batch.update_job_queue(jobQueue=arn, state="ENABLED")


def test_a_member_finds_nothing_at_fault(team: Team) -> None:
    found = doctor(team)
    assert [found[check]["verdict"] for check in ("login", "descriptor", "store", "queue cpu", "fleet")] == ["ok"] * 5
    assert found["quota spot standard"]["detail"] == "640 vCPUs in us-west-2, the queues may start 8"
    assert "assumed-role" in found["login"]["detail"]
    assert "a second create refused" in found["store"]["detail"]


def test_the_command_enables_a_disabled_queue(team: Team) -> None:
    arn = team.project.descriptor()["queues"]["cpu"]["aws"]["job_queue"]
    with disabled(team, arn):
        finding = doctor(team, code=3)["queue cpu"]
        assert (finding["verdict"], finding["detail"]) == ("fault", "is disabled: it takes no jobs")
        words = shlex.split(finding["command"])
        assert words[:3] == ["aws", "batch", "update-job-queue"]
        options = dict(zip(words[3::2], words[4::2], strict=True))
        client(team.cloud.env, "batch").update_job_queue(jobQueue=options["--job-queue"], state=options["--state"])
    assert doctor(team)["queue cpu"]["verdict"] == "ok"


def test_a_member_may_see_all_that_explain_looks_at(team: Team) -> None:
    """The emulated cloud evaluates the submitters' policy at each call."""
    job = team.tidemill("submit", "--queue", "cpu", "--name", "why", "a", "--", "sleep", "600").split()[-1]
    try:
        said = json.loads(team.tidemill("explain", job, "--json"))
    finally:
        team.tidemill("cancel", job)
    assert said["kind"] in ("well", "turn")
    assert said["unknown"] == []


def test_a_login_that_is_over_is_told_with_what_to_type(team: Team) -> None:
    person = {**team.person, "AWS_SESSION_TOKEN": "over"}
    stranger = Team(team.cloud, team.project, team.outputs, person)
    finding = doctor(stranger, code=3)["login"]
    assert finding["command"] == "unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN"
