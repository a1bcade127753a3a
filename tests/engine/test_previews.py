"""First previews of stacks: nothing exists, and most values are unknown. A cloud may still refuse them.

Other modules preview demo-aws, vision-dev and vision-prod; tests/policy/test_own_stacks.py judges every stack without
the engine.
"""

from collections import Counter

import pytest
from click.testing import CliRunner

import ops.project
from ops.stack import stack as stack_command
from tests.harness import Project

STACKS = ("genomics-prod", "speech-prod")


@pytest.mark.parametrize("stack", STACKS)
def test_an_empty_account_previews_with_the_policy_pack(new_project, stack):
    previews(new_project(stack))


def test_the_file_of_a_new_team_previews_in_production(new_project, monkeypatch, tmp_path):
    monkeypatch.setattr(ops.project, "STACKS", tmp_path)
    written = CliRunner().invoke(stack_command, ["--team", "audio", "--env", "prod"])
    assert written.exit_code == 0, written.output
    previews(new_project("audio-prod"))


def previews(project: Project) -> None:
    run = project.preview("--diff").ok()
    # The dated table lacks the price of some types, and our stacks have no recipient of alarms.
    allowed = {"aws-batch-compute-environment-price-known", "aws-cloudwatch-metric-alarm-exists"}
    assert {name for name, _ in run.violations} <= allowed
    assert {step.op for step in run.steps} == {"create"}
    kinds = Counter(step.kind.rpartition(":")[2] for step in run.steps)
    queues = kinds["JobQueue"]
    assert queues >= 1
    assert kinds["SchedulingPolicy"] >= 1
    assert kinds["ComputeEnvironment"] >= queues
    assert kinds["JobDefinition"] >= queues
    assert project.resources() == []


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("tidemill:quues", {"cpu": {}}, ["tidemill:quues", "queues", "Did you mean"]),
        ("tidemill:logs", {"retention_days": 10}, ["tidemill:logs.retention_days", "1, 3, 5"]),
    ],
)
def test_a_wrong_config_key_is_one_clean_line_and_nothing_is_created(new_project, key, value, says):
    project = new_project("demo-aws")
    with project.config() as config:
        config[key] = value
    run = project.up().refused()
    (error,) = (message for message in run.errors if key in message)
    assert "\n" not in error.strip()
    for words in says:
        assert words in error
    assert "Traceback" not in run.text
    assert run.steps == []
    assert project.resources() == []


def test_a_rung_that_drains_before_it_was_there_is_refused_in_the_preview(new_project):
    project = new_project("demo-aws")
    with project.config() as config:
        rung = {"market": "spot", "max_cpus": 8}
        config["tidemill:queues"]["cpu"]["capacity"] = [rung | {"name": "new"}, rung | {"drain": True}]
    run = project.preview()
    assert run.code != 0
    assert "Remove the rung with `drain: true`" in run.text


def test_a_machine_image_that_is_not_there_is_refused_in_the_preview(new_project):
    project = new_project("demo-aws")
    with project.config() as config:
        config["tidemill:queues"]["cpu"]["machines"] |= {"image": "ami-0123456789abcdef0"}
    run = project.preview()
    assert run.code != 0
    assert (
        'tidemill:queues.cpu.machines.image: "ami-0123456789abcdef0" is not allowed. Allowed: an image of this region '
        "that this account may use. Copy it here or share it."
    ) in run.text


def test_an_override_reaches_its_resource_and_the_policy_pack(new_project):
    """The rest of a merged mapping stays, what is not known yet too."""
    project = new_project("demo-aws")
    name = "demo-local-cpu"
    with project.config() as config:
        config["tidemill:overrides"] = {
            f"{name}-spot": {"computeResources": {"bidPercentage": 60}},
            f"{name}-machines": {"metadataOptions": {"httpTokens": "optional"}},
        }
    run = project.preview().refused()
    assert {rule for rule, _ in run.violations} == {"aws-ec2-launch-template-imdsv2"}
    events = [event["resourcePreEvent"]["metadata"] for event in run.events if "resourcePreEvent" in event]
    (made,) = [each["new"]["inputs"] for each in events if each["urn"].endswith(f"ComputeEnvironment::{name}-spot")]
    compute = made["computeResources"]
    assert (compute["bidPercentage"], compute["maxVcpus"]) == (60, 8)
    assert {"launchTemplate", "subnets", "instanceRole"} <= set(compute)
