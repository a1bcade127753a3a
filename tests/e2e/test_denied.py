"""Everything that the stack's policies do not allow is denied.

localcloud's evaluator decides, from the policies that the stack produced; AWS's own may differ where ours knows less.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from tests.e2e.team import Team, advice, assume, await_that, client

DEFINITION = {
    "jobDefinitionName": "mine",
    "type": "container",
    "containerProperties": {
        "image": "busybox",
        "command": ["true"],
        "resourceRequirements": [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "64"}],
        "volumes": [{"name": "host", "host": {"sourcePath": "/"}}],
    },
}

# A job that tries forbidden calls and prints the names of those that succeeded.
ATTEMPTS = """
import os, obstore
from obstore.store import S3Store
def store(bucket):
    endpoint = os.environ["AWS_ENDPOINT_URL"]
    return S3Store(bucket, region="us-west-2", endpoint=endpoint, client_options={{"allow_http": True}})
def attempt(name, action):
    try:
        action()
    except Exception as error:
        print(name, "denied" if "403" in str(error) or "AccessDenied" in str(error) else repr(error), flush=True)
    else:
        print(name, "allowed", flush=True)
home = store("{bucket}")
attempt("write pipeline.json", lambda: obstore.put(home, "pipeline.json", b"x"))
attempt("read another team", lambda: obstore.get(store("{other}"), "secret.txt").bytes())
attempt("write into jobs", lambda: obstore.put(home, "jobs/{marker}", b"x"))
"""


def denied(error: ClientError) -> bool:
    return error.response["Error"]["Code"] in ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation")


def test_a_submitter_cannot_register_a_job_definition(team: Team) -> None:
    with pytest.raises(ClientError) as refused:
        client(team.person, "batch").register_job_definition(**DEFINITION)
    assert denied(refused.value)


@pytest.mark.parametrize(
    ("service", "operation", "arguments"),
    [
        ("s3", "put_object", {"Bucket": "{bucket}", "Key": "pipeline.json", "Body": b"x"}),
        ("s3", "delete_object", {"Bucket": "{bucket}", "Key": "pipeline.json"}),
        ("batch", "delete_job_queue", {"jobQueue": "{queue}"}),
        ("batch", "update_job_queue", {"jobQueue": "{queue}", "state": "DISABLED"}),
        ("iam", "list_roles", {}),
        ("ec2", "describe_instances", {}),
    ],
)
def test_a_submitter_may_submit_and_nothing_else(team: Team, service: str, operation: str, arguments: dict) -> None:
    known = {"bucket": team.bucket, "queue": team.project.descriptor()["queues"]["cpu"]["aws"]["job_queue"]}
    filled = {key: value.format(**known) if isinstance(value, str) else value for key, value in arguments.items()}
    with pytest.raises(ClientError) as refused:
        getattr(client(team.person, service), operation)(**filled)
    assert denied(refused.value)


def test_advice_is_live_with_the_stacks_grant_and_says_what_is_missing_without(team: Team, tmp_path: Path) -> None:
    """The figures are localcloud's: whether AWS's scores are right, it cannot tell."""
    said = advice(team, tmp_path / "with")
    assert {shape["score"]["source"] for shape in said["shapes"] if shape["market"] == "spot"} == {SCORES}
    assert not [note for note in said["notes"] if "denied" in note]
    iam = client(team.cloud.env, "iam")
    role = team.outputs["submitter_role_arn"].rpartition("/")[2]
    attached = iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"]
    (grant,) = [each["PolicyArn"] for each in attached if "-submitter-advise-" in each["PolicyName"]]
    iam.detach_role_policy(RoleName=role, PolicyArn=grant)
    try:
        without = advice(team, tmp_path / "without")
    finally:
        iam.attach_role_policy(RoleName=role, PolicyArn=grant)
    assert {shape["score"] for shape in without["shapes"]} == {None}
    assert all(shape["price"] for shape in without["shapes"])  # of the tables
    assert [note for note in without["notes"] if note.startswith(SCORES) and "advise: true" in note]


SCORES = "ec2:GetSpotPlacementScores"


def test_a_job_reaches_its_own_store_and_no_other(team: Team, tmp_path: Path) -> None:
    s3 = client(team.cloud.env, "s3")
    s3.create_bucket(Bucket="another-team", CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    s3.put_object(Bucket="another-team", Key="secret.txt", Body=b"theirs")
    program = ATTEMPTS.format(bucket=team.bucket, other="another-team", marker="probe")
    items, _ = team.put_items("denied", 1, tmp_path)
    job = team.submit("denied", items, sys.executable, "-c", program)
    team.tidemill("wait", job)
    # The last lines follow the record.
    said = await_that(lambda: (lines := team.lines(job, 0))[2:] and lines, "a line of each attempt has arrived")
    assert said == ["write pipeline.json denied", "read another team denied", "write into jobs allowed"]


def test_a_job_reads_a_public_bucket_without_a_grant_and_no_other_bucket(team: Team, tmp_path: Path) -> None:
    s3 = client(team.cloud.env, "s3")
    for bucket in ("open-data", "their-own"):
        s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        s3.put_object(Bucket=bucket, Key="scenes/1", Body=b"theirs\n")
    s3.put_public_access_block(Bucket="open-data", PublicAccessBlockConfiguration={"RestrictPublicBuckets": False})
    statement = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::open-data/*"}
    s3.put_bucket_policy(Bucket="open-data", Policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    for bucket in ("open-data", "their-own"):
        team.cloud.control("foreign", bucket=bucket)
    items, program = tmp_path / "items.txt", ("cp", "{input}", "{output}")
    items.write_text("s3://open-data/scenes/1\n")
    job = team.submit("public", items, *program)
    team.tidemill("wait", job)
    (result,) = team.results(job)
    assert team.read(f"{result['output']}1") == b"theirs\n"
    refused = [call["principal"] for call in team.cloud.control("denied") if ":open-data/scenes/1" in call["resource"]]
    assert team.outputs["job_role_arn"].rpartition("/")[2] in refused
    items.write_text("s3://their-own/scenes/1\n")
    told = team.mistaken("submit", "--queue", "cpu", "--items", str(items), "--", *program)
    assert "s3://their-own/scenes/1" in told
    assert "tidemill:data.read" in told


def test_a_submitter_removes_no_job_and_the_stacks_owner_does(team: Team, tmp_path: Path) -> None:
    items, _ = team.put_items("removed", 1, tmp_path)
    job = team.submit("removed", items, "/bin/sh", "-c", "echo > $TIDEMILL_OUTPUT/x")
    team.tidemill("wait", job)
    # The end of its child in the queue follows the record.
    await_that(lambda: not team.look(job).chunks.running, "the queue knows that it has ended")
    before = team.names("")
    told = team.refused("rm", job, "--yes")
    assert f"{job} stays, because this login may not delete" in told
    assert "stack's owner" in told
    assert team.names("") == before
    owner = replace(team, person=team.cloud.env | {"TIDEMILL_PIPELINE": team.outputs["pipeline_uri"]})
    assert owner.tidemill("rm", job, "--yes").splitlines()[-1] == f"removed {job}"
    assert [name for name in team.names("") if job in name] == []
    assert f"There is no job '{job}'" in team._typed(["status", job])[2]


def test_the_job_role_reads_no_secret(team: Team) -> None:
    deployer = client(team.cloud.env, "secretsmanager")
    arn = deployer.create_secret(Name="somebodys", SecretString="hidden")["ARN"]
    credentials = job_credentials(team, team.outputs["job_role_arn"])
    with pytest.raises(ClientError) as refused:
        client(credentials, "secretsmanager").get_secret_value(SecretId=arn)
    assert denied(refused.value)


def test_the_instance_role_does_not_read_the_job_store(team: Team) -> None:
    credentials = job_credentials(team, team.outputs["instance_role_arn"])
    for key in ("pipeline.json", "jobs/probe"):
        with pytest.raises(ClientError) as refused:
            client(credentials, "s3").get_object(Bucket=team.bucket, Key=key)
        assert denied(refused.value), key


def job_credentials(team: Team, role: str) -> dict[str, str]:
    """An environment with a role's rights. Only its service may assume the role, so localcloud provides the session."""
    session = team.cloud.control("credentials", role=role)
    return {
        **team.cloud.env,
        "AWS_ACCESS_KEY_ID": session["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": session["SecretAccessKey"],
        "AWS_SESSION_TOKEN": session["Token"],
    }


def test_nobody_but_its_service_assumes_the_job_role(team: Team) -> None:
    for role in ("job_role_arn", "instance_role_arn", "execution_role_arn"):
        with pytest.raises(ClientError) as refused:
            assume(team.person, team.outputs[role])
        assert denied(refused.value)
