"""The components as a package, by the real engine: its schema, and a program that makes a pipeline through the plugin.

The program is Python and knows nothing of our components: it sends what the SDK of any language sends. What starts the
plugin's Python is localcloud's stand-in for the vendor's language host.
"""

from __future__ import annotations

import json
import re
import subprocess
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.engine.inventory import inventory
from tests.harness import ROOT, Project

PLUGIN = ROOT / "plugin"
FIXTURE = Path(__file__).parent / "fixtures" / "demo-aws.state.json"

PROGRAM = """
    import json
    import pulumi


    class Pipeline(pulumi.ComponentResource):
        descriptorUri: pulumi.Output[str]
        exports: pulumi.Output[dict]

        def __init__(self, name, config):
            inputs = {"config": config, "descriptorUri": None, "exports": None}
            super().__init__("tidemill:index:Pipeline", name, inputs, None, remote=True)


    pipeline = Pipeline("demo-local", json.loads(pulumi.Config("another").require("pipeline")))
    pulumi.export("uri", pipeline.descriptorUri)
    pulumi.export("policy", pipeline.exports["submitter_policy_arn"])
"""


def camel(value: Any) -> Any:
    """A stack file's keys as other languages have them."""
    if isinstance(value, dict):
        return {re.sub("_(.)", lambda match: match[1].upper(), key): camel(inner) for key, inner in value.items()}
    return [camel(inner) for inner in value] if isinstance(value, list) else value


STACK = yaml.safe_load((ROOT / "stacks" / "Pulumi.demo-aws.yaml").read_text())["config"]
CONFIG = camel({key.partition(":")[2]: value for key, value in STACK.items() if key.startswith("tidemill:")})
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


def urns(state: dict) -> set[tuple[str, str]]:
    """(chain of types, name) of what is in a state, without project, stack and providers, and without the guard's name,
    which says what is allowed."""
    found = {tuple(resource["urn"].split("::")[2:4]) for resource in state["deployment"]["resources"]}
    return {(types, name.partition(" (")[0]) for types, name in found if not types.startswith("pulumi:")}


def test_the_engine_reads_and_binds_the_packages_schema(cloud):
    command = ["pulumi", "package", "get-schema", str(PLUGIN)]
    run = subprocess.run(
        command, env=cloud.env, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, check=False
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
        ({"queues": {"cpu": QUEUE | {"scratchGib": 4}}}, "tidemill:queues.cpu.scratch_gib has a problem: 4 is refused"),
    ],
)
def test_a_wrong_config_ends_in_one_error_without_a_traceback(project, change, said):
    configure(project, **change)
    run = project.run("preview", events=True).refused()
    configure(project)
    assert [said in error for error in run.errors] == [True], run.text
    assert "Traceback" not in run.text


def test_another_programs_pipeline_is_the_same_as_ours(project):
    assert {step.op for step in project.up().ok().steps} == {"create"}
    assert urns(project.export()) == urns(json.loads(FIXTURE.read_text()))


def test_its_outputs_come_back(project):
    outputs = project.outputs()
    assert outputs["uri"].startswith("s3://demo-local-store-bucket-")
    assert outputs["uri"].endswith("/pipeline.json")
    assert outputs["policy"].startswith("arn:aws:iam::")


def test_a_second_up_changes_nothing(project):
    assert project.up("--expect-no-changes").ok().plan == []


def test_destroy_leaves_nothing(project, cloud, before):
    project.destroy().ok()
    assert project.resources() == []
    assert inventory(cloud.env) == before
