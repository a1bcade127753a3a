"""Twelve teams in one account: names, quotas, ranges, and what a submitter of one may do to the others.

The documents are those that the components make, and localcloud's evaluator decides; AWS's own may differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from components.config import parse
from components.services.batch.quotas import ENVIRONMENTS, JOB_QUEUES, needed, shortfalls
from localcloud.aws.iam import ROLE, Query, refusal
from tests.access.stacks import SUFFIX, Arns, of_account
from tests.components.recording import Recorder
from tests.components.stacks import run_program, settings

TEAMS = (
    "audio",
    "climate",
    "docs",
    "genomics",
    "maps",
    "ocean",
    "photo",
    "risk",
    "search",
    "speech",
    "video",
    "vision",
)
PEOPLE = {"submitters": ["arn:aws:iam::123456789012:root"]}


def values_of(team: str) -> dict[str, Any]:
    return settings("vision-dev") | {"tidemill:team": team, "tidemill:access": PEOPLE, "tidemill:data": {}}


@pytest.fixture(scope="module")
def made() -> dict[str, Recorder]:
    return {team: run_program(values_of(team), recorder=Arns()) for team in TEAMS}


def submitter(made: Recorder, team: str) -> list[dict[str, Any]]:
    role = f"{team}-dev-identity-submitter-{SUFFIX}"
    found = [each.document("policy") for each in made.of("iam.RolePolicy") if each.inputs["role"] == role]
    return [*found, *(each.document("policy") for each in made.of("iam.Policy"))]


def calls(team: str) -> Iterator[tuple[str, str]]:
    """What a submitter does to a pipeline, and what it must not do to another's."""
    store = f"arn:aws:s3:::{team}-dev-store-bucket-{SUFFIX}"
    yield "batch:SubmitJob", of_account("batch", f"job-queue/{team}-dev-cpu-queue-{SUFFIX}")
    yield "batch:SubmitJob", of_account("batch", f"job-definition/{team}-dev-cpu-default-{SUFFIX}:1")
    yield "s3:PutObject", f"{store}/jobs/a/job.json"
    yield "s3:GetObject", f"{store}/out/a/0"
    yield "s3:GetObject", f"{store}/pipeline.json"


def may(documents: list[dict[str, Any]], team: str, call: tuple[str, str], tagged: str) -> bool:
    """Whether a submitter of a team may do this, with tags of their own choice."""
    role = of_account("iam", f"role/{team}-dev-identity-submitter-{SUFFIX}", "")
    tags = {"aws:requesttag/tidemill:team": tagged, "aws:requesttag/tidemill:environment": "dev"}
    return refusal(Query(*call, {f"AWS:{role}": ROLE}, tags), documents) is None


def test_names_in_the_cloud_are_each_teams_own(made):
    seen: dict[tuple[str, str], str] = {}
    for team, recorder in made.items():
        for each in recorder.resources:
            if each.kind.startswith(("batch.", "ecr.", "iam.", "s3.", "cloudwatch.", "ec2.LaunchTemplate")):
                assert each.name.startswith(f"{team}-dev-"), each.name
                assert seen.setdefault((each.kind, each.name), team) == team


@pytest.mark.parametrize("team", TEAMS)
def test_a_submitter_of_one_team_reaches_no_other(made, team):
    documents = submitter(made[team], team)
    for other in TEAMS:
        for call in calls(other):
            assert may(documents, team, call, tagged=team) is (other == team), call
            assert other == team or not may(documents, team, call, tagged=other), call


def test_a_name_that_begins_with_anothers_is_another_team():
    long = run_program(values_of("video-dev"), recorder=Arns())
    for call in calls("video"):
        assert not may(submitter(long, "video-dev"), "video-dev", call, tagged="video")
    for call in calls("video-dev"):
        assert may(submitter(long, "video-dev"), "video-dev", call, tagged="video-dev")


def test_the_accounts_quotas_of_batch_bound_how_many_teams_fit():
    config = parse(
        {key.removeprefix("tidemill:"): value for key, value in values_of("audio").items() if "tidemill" in key}
    )
    wanted = {quota: count for quota, count in needed(config).items() if quota in (JOB_QUEUES, ENVIRONMENTS)}
    assert set(wanted) == {JOB_QUEUES, ENVIRONMENTS}
    limits = dict.fromkeys(wanted, 50)
    assert shortfalls(wanted, limits, {quota: count * (len(TEAMS) - 1) for quota, count in wanted.items()}) == []
    full = {quota: 50 - count + 1 for quota, count in wanted.items()}
    assert [each.quota for each in shortfalls(wanted, limits, full)] == list(wanted)
