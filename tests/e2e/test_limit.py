"""A job's own workers end it at its limit and tell that, with the rights that the stack gives them. This does not show
what a real cloud would have billed until then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.e2e.team import ONCALL, Team, await_that, client

ITEMS = 16
"""Each has a worker of its own, and to start one takes half a second of CPU time."""


def test_a_job_that_nobody_watches_ends_at_its_limit(team: Team, tmp_path: Path) -> None:
    """An item takes half a second or more and a second costs a dollar: of at least 8 dollars the job gets two."""
    channel = subscribed(team)
    items, _ = team.put_items("limit", ITEMS, tmp_path)
    options = ("--queue", "cpu", "--name", "limit", "--items", str(items), "--chunk-size", "1", "--json")
    money = ("--notify", "oncall", "--max-usd", "2", "--usd-per-item-hour", "3600")
    job = json.loads(team.tidemill("submit", *options, *money, "--", "sh", "-c", "sleep 0.5"))["job"]

    def ended() -> bool:
        children = team.cloud.control("batch/children")["children"]
        return not [child for child in children if child["status"] in ("RUNNABLE", "STARTING", "RUNNING")]

    def told() -> list[dict[str, Any]]:
        assert not (refused := team.refusals(job)), refused
        return received(team, channel)

    # No one has asked for the status, so it was a worker.
    [message] = await_that(told, "the end is told")
    assert message["Subject"] == f"{job} was cancelled"
    assert message["Message"].startswith(f"{job} was cancelled at its cost limit: ")
    assert message["MessageAttributes"]["id"]["Value"] == f"{job}/r0"
    await_that(lambda: team.look(job).state == "cancelled", "the job has ended")
    await_that(ended, "no child of the job is left")
    status = team.status(job)
    assert status["note"].startswith("stopped: max_usd: about ")
    # What was at work at the limit is spent too, more of it on a busy machine; what had not begun is not.
    assert status["spent"]["max_usd"] == 2 <= status["spent"]["usd"]
    assert 0 < status["succeeded"] < ITEMS
    assert status["failed"] == 0
    # Noted by the first of sixteen workers, with their rights.
    assert status["first_item_seconds"] is not None
    # The record of it follows the message.
    await_that(lambda: team.status(job)["told"] == "oncall was told", "the store knows that it was told")
    assert received(team, channel) == [message], "once"
    team.tidemill("resume", job, ok=(2,))


def subscribed(team: Team) -> str:
    """Make a queue that gets what the team's topic is told; returns the queue's URL."""
    sns, sqs = client(team.cloud.env, "sns"), client(team.cloud.env, "sqs")
    url = sqs.create_queue(QueueName="oncall")["QueueUrl"]
    sns.subscribe(TopicArn=ONCALL, Protocol="sqs", Endpoint=ONCALL.replace(":sns:", ":sqs:"))
    return url


def received(team: Team, url: str) -> list[dict[str, Any]]:
    """Every message so far."""
    sqs = client(team.cloud.env, "sqs")
    found = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=0)
    return [json.loads(each["Body"]) for each in found.get("Messages", [])]
