"""A personal secret on the clouds of this machine: from the stack file to a program, and a search for its value.

localcloud does not evaluate the policy of a secret on AWS, and its people on GCP are service accounts, which may not be
the one submitter: the project's owner takes their place. tests/access has what each identity may do.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar
from unittest.mock import patch

import pytest

from localcloud.cloud import Cloud, GcpCloud
from tests.e2e.gcp import DATA, TIME_FACTOR, GcpTeam, Objects
from tests.e2e.team import Team, assume, client, team_up
from tests.engine.google import Google
from tests.harness import Project

CANARY = "canary-7d20be51"
PROGRAM = """
echo "said $HF_TOKEN"
echo "cried $HF_TOKEN" >&2
printf %s "$HF_TOKEN" | sha256sum > "$TIDEMILL_OUTPUT/digest"
test "$TIDEMILL_INDEX" = 0
"""
ADA = "arn:aws:iam::123456789012:user/ada"
AnyTeam = TypeVar("AnyTeam", Team, GcpTeam)


def check_only_programs_have_it(team: AnyTeam, everything: Callable[[AnyTeam, str], str]) -> None:
    """Set a secret, run a job with it, and search `everything` that anybody could read of the job for the value."""
    Path("token").write_text(f"{CANARY}\n")
    team.tidemill("secret", "set", "HF_TOKEN", "--from-file", "token")
    words = ["--queue", "cpu", "--name", "told", "--attempts", "1", "--secret", "HF_TOKEN", "a", "b", "--json"]
    job = json.loads(team.tidemill("submit", *words, "--shell", "--", PROGRAM))["job"]
    team.tidemill("wait", job, ok=(1,))
    first, second = team.results(job)
    assert (first["status"], second["status"]) == ("succeeded", "failed")
    assert "cried ***" in second["error"]
    assert team.read(f"{first['output']}digest").decode().split()[0] == hashlib.sha256(CANARY.encode()).hexdigest()
    kept = everything(team, job)
    assert "said ***" in kept
    assert CANARY not in kept


def printed(team: Team | GcpTeam, job: str) -> Iterator[str]:
    """What commands print of a job, lines included."""
    for verb in ("results", "failures", "status", "report", "logs", "explain"):
        yield team.tidemill(verb, job, *([] if verb == "report" else ["--json"]), ok=(0, 1))


def everything(team: Team, job: str) -> str:
    """What anybody could read of a job: objects, requests, definitions, lines, and what commands print."""
    env = team.cloud.env
    batch, logs, s3 = (client(env, service) for service in ("batch", "logs", "s3"))
    said = [s3.get_object(Bucket=team.bucket, Key=name)["Body"].read().decode("latin-1") for name in team.names("")]
    queue = batch.describe_job_queues()["jobQueues"][0]["jobQueueArn"]
    jobs = batch.list_jobs(jobQueue=queue, filters=[{"name": "JOB_NAME", "values": ["*"]}])["jobSummaryList"]
    assert jobs
    said.append(repr(batch.describe_jobs(jobs=[each["jobId"] for each in jobs])))
    said.append(repr(batch.describe_job_definitions()))
    for group in logs.describe_log_groups()["logGroups"]:
        said.append(repr(logs.filter_log_events(logGroupName=group["logGroupName"])["events"]))
    return "\n".join([*said, *printed(team, job)])


def test_a_job_has_the_value_and_nothing_that_is_kept_does(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Cloud(tmp_path_factory.mktemp("localcloud")) as cloud:
        iam = client(cloud.env, "iam")
        iam.create_user(UserName="ada")
        key = iam.create_access_key(UserName="ada")["AccessKey"]
        own = {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}
        ada = {name: value for name, value in cloud.env.items() if name != "AWS_SESSION_TOKEN"} | own
        settings = {"tidemill:access": {"submitters": [ADA], "personal_secrets": True}, "tidemill:allow": ["purge"]}
        with patch("tests.e2e.team.assume", lambda _, role: assume(ada, role)):
            team = team_up(cloud, tmp_path_factory.mktemp("demo-aws"), settings=settings)
        check_only_programs_have_it(team, everything)
        assert json.loads(team.tidemill("secret", "list", "--json"))["secrets"] == ["HF_TOKEN"]
        team.tidemill("secret", "rm", "HF_TOKEN")
        team.project.destroy().ok()
        assert client(cloud.env, "secretsmanager").list_secrets()["SecretList"] == []


def everything_on_gcp(team: GcpTeam, job: str) -> str:
    """The same on GCP: objects, machines with their user data, and what commands print, lines included."""
    bucket = team.person["TIDEMILL_PIPELINE"].removeprefix("gs://").partition("/")[0]
    found = team.google.call("storage", "GET", f"storage/v1/b/{bucket}/o")["items"]
    said = [team.objects.get(bucket, each["name"]).decode("latin-1") for each in found]
    said.append(repr(team.machines()))
    return "\n".join([*said, *printed(team, job)])


def test_a_machine_on_gcp_gives_the_value_to_programs_alone(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with GcpCloud(tmp_path_factory.mktemp("localcloud-gcp"), time_factor=TIME_FACTOR) as cloud:
        google = Google(cloud)
        google.make_bucket(DATA)
        project = Project(tmp_path_factory.mktemp("demo-gcp"), cloud.env, "demo-gcp")
        with project.config() as config:
            config["tidemill:access"] = {"submitters": ["user:ada@example.com"], "personal_secrets": True}
            config["tidemill:allow"] = ["purge"]
        project.up().ok()
        cloud.control("compute/settings", environment={"TIDEMILL_IDLE_SECONDS": "5"})
        person = {**cloud.env, "TIDEMILL_PIPELINE": project.outputs()["pipeline_uri"]}
        team = GcpTeam(google, Objects(google), project, person)
        check_only_programs_have_it(team, everything_on_gcp)
        project.destroy().ok()
        assert "secrets" not in (google.call("secretmanager", "GET", "v1/projects/{project}/secrets") or {})
