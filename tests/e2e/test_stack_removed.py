"""A stack that is given up while a job of it runs: nothing goes unsaid, and nothing before two steps have allowed it.

This does not show how long a cloud takes to end machines of a stack that is gone.
"""

from __future__ import annotations

from pathlib import Path

from localcloud.cloud import Cloud
from tests.e2e.team import await_that, team_up
from tests.gate import Gate

PEOPLE = {"tidemill:access": {"submitters": ["arn:aws:iam::123456789012:root"]}}


def test_destroy_stops_until_purge_is_said_and_the_person_with_the_job_is_told(tmp_path: Path, held: Gate) -> None:
    (tmp_path / "project").mkdir()
    with Cloud(tmp_path / "localcloud", reclaim_seconds=60) as cloud:
        team = team_up(cloud, tmp_path / "project", settings=PEOPLE)
        items, _ = team.put_items("left", 2, tmp_path)
        job = team.submit("left", items, "sh", "-c", held.wait, chunk_size=1)
        await_that(lambda: team.look(job).chunks.running == 2, "both items run")
        there = team.project.resources()

        assert "tidemill:allow: [purge]" in team.project.destroy().refused().text
        assert len(team.project.resources()) == len(there), "nothing is half gone"
        assert team.look(job).chunks.running == 2, "the job runs on"

        with team.project.config() as config:
            config["tidemill:allow"] = ["purge"]
        told = team.project.run("preview").ok().text + team.project.up().ok().text
        assert told.count("ends the jobs that run") >= 2, "before and while protection is lifted"
        assert team.look(job).chunks.running == 2, "the job runs on"

        team.project.destroy().ok()
        assert team.project.resources() == []
        for words in (("status", job), ("wait", job), ("results", job), ("cancel", job), ("jobs",)):
            assert "was destroyed, its jobs" in team.refused(*words)
        children = cloud.control("batch/children")["children"]
        assert {each["status"] for each in children} == {"FAILED"}, "no machine works for a stack that is gone"
