"""First previews of every stack: nothing exists, most values are unknown. Not what the cloud would accept."""

from collections import Counter

import pytest

STACKS = ("demo-aws", "vision-dev", "vision-prod")


@pytest.mark.parametrize("stack", STACKS)
def test_an_empty_account_previews_with_the_policy_pack(new_project, stack):
    project = new_project(stack)
    run = project.preview("--diff").ok()
    # The dated table does not know the price of every type.
    assert {name for name, _ in run.violations} <= {"aws-batch-compute-environment-price-known"}
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
