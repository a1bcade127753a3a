"""The components as a package in the real engine: its schema, and a program that makes a pipeline through the plugin.

The program is Python and does not know our components: it sends what the SDK of any language sends. localcloud's
stand-in for the vendor's language host starts the plugin's Python.
"""

from __future__ import annotations

import json
import re
import subprocess
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from components.pipeline import Pipeline, PipelineArgs
from tests.components.recording import run
from tests.engine.inventory import inventory
from tests.harness import ROOT, Project

PLUGIN = ROOT / "plugin"

PROGRAM = """
    import json
    import pulumi


    class Pipeline(pulumi.ComponentResource):
        descriptorUri: pulumi.Output[str]
        securityGroupId: pulumi.Output[str]
        jobQueueArns: pulumi.Output[dict]
        exports: pulumi.Output[dict]

        def __init__(self, name, config):
            outputs = dict.fromkeys(["descriptorUri", "securityGroupId", "jobQueueArns", "exports"])
            inputs = {"config": config, **outputs}
            super().__init__("tidemill:index:Pipeline", name, inputs, None, remote=True)


    pipeline = Pipeline("demo-local", json.loads(pulumi.Config("another").require("pipeline")))
    pulumi.export("uri", pipeline.descriptorUri)
    pulumi.export("group", pipeline.securityGroupId)
    pulumi.export("queue", pipeline.jobQueueArns["cpu"])
    pulumi.export("policies", pipeline.exports["submitter_policy_arns"])
"""


def camel(value: Any) -> Any:
    """A stack file's keys in camel case, as other languages have them."""
    if isinstance(value, dict):
        return {re.sub("_(.)", lambda match: match[1].upper(), key): camel(inner) for key, inner in value.items()}
    return [camel(inner) for inner in value] if isinstance(value, list) else value


STACK = yaml.safe_load((ROOT / "stacks" / "Pulumi.demo-aws.yaml").read_text())["config"]
SETTINGS = {key.partition(":")[2]: value for key, value in STACK.items() if key.startswith("tidemill:")}
CONFIG = camel(SETTINGS)
QUEUE = CONFIG["queues"]["cpu"]


@pytest.fixture(scope="module")
def before(cloud) -> dict[str, list[str]]:
    return inventory(cloud.env)


@pytest.fixture(scope="module")
def project(before, new_project: Callable[..., Project], tmp_path_factory: pytest.TempPathFactory) -> Project:
    source = tmp_path_factory.mktemp("another")
    settings = {
        "name": "another",
        "runtime": "python",
        "plugins": {"providers": [{"name": "tidemill", "path": str(PLUGIN)}]},
    }
    (source / "Pulumi.yaml").write_text(json.dumps(settings))
    (source / "__main__.py").write_text(textwrap.dedent(PROGRAM))
    project = new_project("dev", source)
    configure(project)
    return project


def configure(project: Project, **changes: object) -> None:
    with project.config() as config:
        pipeline = CONFIG | {"allow": ["purge"]} | changes
        config |= {"aws:region": "us-west-2", "another:pipeline": json.dumps(pipeline)}


def ours() -> set[str]:
    """Types and names that our own program makes from the same config, with stand-ins for the engine."""
    args = PipelineArgs(config={**SETTINGS, "allow": ["purge"]})
    recorder = run(lambda: Pipeline("demo-local", args))
    return {made.urn.partition("::tidemill::")[2] for made in recorder.resources}


def test_the_engine_reads_and_binds_the_packages_schema(cloud):
    command = ["pulumi", "package", "get-schema", str(PLUGIN)]
    run = subprocess.run(
        command, env=cloud.env, capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL, check=False
    )
    assert run.returncode == 0, run.stderr
    schema = json.loads(run.stdout)
    assert "tidemill:index:Pipeline" in schema["resources"]
    config = schema["resources"]["tidemill:index:Pipeline"]["inputProperties"]["config"]
    assert config["$ref"] == "#/types/tidemill:index:StackConfig"
    assert "memoryMib" in schema["types"]["tidemill:index:Item"]["properties"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"quues": {}}, "there is no quues here"),
        ({"queues": {"cpu": QUEUE | {"scratchGib": 4}}}, "tidemill:queues.cpu.scratch_gib has a problem: 4"),
    ],
)
def test_a_wrong_config_is_told_once_and_without_a_traceback_of_ours(project, change, said):
    """The calling program may have an open call when the engine ends; Pulumi's SDK then shows its own traceback."""
    configure(project, **change)
    run = project.run("preview", events=True).refused()
    configure(project)
    assert [said in error for error in run.errors].count(True) == 1, run.text
    assert not re.search(r'File ".*/(components|plugin)/', run.text), run.text


def test_another_programs_pipeline_is_the_same_as_ours(project):
    assert {step.op for step in project.up().ok().steps} == {"create"}
    made = {resource["urn"].partition("::another::")[2] for resource in project.export()["deployment"]["resources"]}
    assert {urn for urn in made if not urn.startswith("pulumi:")} == ours()


def test_its_outputs_come_back(project):
    outputs = project.outputs()
    assert outputs["uri"].startswith("s3://demo-local-store-bucket-")
    assert outputs["uri"].endswith("/pipeline.json")
    assert outputs["group"].startswith("sg-")
    assert ":job-queue/demo-local-cpu-queue-" in outputs["queue"]
    assert outputs["policies"][0].startswith("arn:aws:iam::")


def test_a_second_up_changes_nothing(project):
    assert project.up("--expect-no-changes").ok().plan == []


def test_destroy_leaves_nothing(project, cloud, before):
    project.destroy().ok()
    assert project.resources() == []
    assert inventory(cloud.env) == before
