"""A job's own workers end it at its limit, with the rights that the stack gives them. This does not show what a real
cloud would have billed until then."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.team import Team, await_that

ITEMS = 40


def test_a_job_that_nobody_watches_ends_at_its_limit(team: Team, tmp_path: Path) -> None:
    """An item takes half a second and a second costs a dollar: of 20 dollars the job gets four."""
    items, _ = team.put_items("limit", ITEMS, tmp_path)
    options = ("--queue", "cpu", "--name", "limit", "--items", str(items), "--chunk-size", "1", "--json")
    money = ("--max-usd", "4", "--usd-per-item-hour", "3600")
    job = json.loads(team.tidemill("submit", *options, *money, "--", "sh", "-c", "sleep 0.5"))["job"]

    def ended() -> bool:
        children = team.cloud.control("batch/children")["children"]
        return not [child for child in children if child["status"] in ("RUNNABLE", "STARTING", "RUNNING")]

    # Asking for the status changes nothing.
    await_that(lambda: team.look(job).state == "cancelled", "the job has ended")
    await_that(ended, "no child of the job is left")
    status = team.status(job)
    assert status["note"].startswith("stopped: max_usd: about ")
    assert status["spent"]["max_usd"] == 4 <= status["spent"]["usd"] < 15
    assert 0 < status["succeeded"] < ITEMS
    assert status["failed"] == 0
    team.tidemill("resume", job, ok=(2,))
