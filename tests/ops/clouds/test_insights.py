"""`python -m ops insights`, against stubs of botocore, which know the requests that Batch takes."""

from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from click.testing import CliRunner

from ops.clouds import aws_insights as command

TAGS = {"tidemill:team": "vision", "tidemill:environment": "prod"}


def environment(name: str, tags: dict[str, str], **more: Any) -> dict[str, Any]:
    arn = f"arn:aws:batch:us-west-2:123456789012:compute-environment/{name}"
    return {"computeEnvironmentName": name, "computeEnvironmentArn": arn, "tags": tags, **more}


@pytest.fixture
def batch(monkeypatch):
    client = boto3.client("batch", "us-west-2", aws_access_key_id="a", aws_secret_access_key="b")
    monkeypatch.setattr(command.boto3, "client", lambda *_, **__: client)
    with Stubber(client) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


def run(*arguments: str):
    return CliRunner().invoke(command.insights, arguments)


def test_it_switches_the_stacks_environments_and_no_other(batch):
    found = [
        environment("cpu", TAGS),
        environment("gpu", TAGS, ecsSettings={"containerInsights": "ENABLED"}),
        environment("theirs", {**TAGS, "tidemill:team": "audio"}),
        environment("stray", {}),
    ]
    batch.add_response("describe_compute_environments", {"computeEnvironments": found}, {})
    asked = {"computeEnvironment": "cpu", "ecsSettings": {"containerInsights": "ENABLED"}}
    batch.add_response("update_compute_environment", {"computeEnvironmentName": "cpu"}, asked)
    result = run("--stack", "vision-prod", "on")
    assert (result.exit_code, result.output) == (0, "cpu: ENABLED\ngpu: ENABLED already\n")


def test_a_stack_that_is_not_up(batch):
    batch.add_response("describe_compute_environments", {"computeEnvironments": []}, {})
    result = run("--stack", "vision-prod", "off")
    assert (result.exit_code, "is it up?" in result.output) == (1, True)


def test_a_refusal_is_a_sentence(batch):
    batch.add_client_error("describe_compute_environments", "AccessDeniedException", "no")
    result = run("--stack", "vision-prod", "on")
    assert (result.exit_code, "AWS refused" in result.output) == (1, True)


@pytest.mark.parametrize("arguments", [("--stack", "vision-gcp-prod", "on"), ("--stack", "vision-prod", "enhanced")])
def test_wrong_arguments(arguments):
    assert run(*arguments).exit_code == 2
