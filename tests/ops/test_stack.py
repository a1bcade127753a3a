"""`python -m ops stack`: the file that it writes. tests/engine/test_previews.py shows that it previews."""

import re
import subprocess

import pytest
import yaml
from click.testing import CliRunner

from components.config import StackConfig, from_file, parse
from ops import project
from ops.check import problems
from ops.stack import stack, stack_text

PLACES = {"aws": {"aws:region": "us-west-2"}, "gcp": {"gcp:project": "vision-dev", "gcp:region": "us-central1"}}
# A waiver needs a day to come, a certificate is a company's own, and what sends jobs needs other keys; the other cloud
# has the rest.
LEFT_OUT = {
    "aws": {"waivers", "certificates", "schedules", "arrivals", "topics"},
    "gcp": {"waivers", "certificates", "schedules", "arrivals", "permission_boundary"},
}


@pytest.fixture
def stacks(tmp_path, monkeypatch):
    monkeypatch.setattr(project, "STACKS", tmp_path)
    return tmp_path


def run(*arguments):
    done = CliRunner().invoke(stack, arguments)
    return done.exit_code, done.output


def examples(text):
    """Positions of the lines that are keys behind a #."""
    lines = text.splitlines()
    return [at for at, line in enumerate(lines) if re.match(r"\s+# (tidemill:)?[a-z_]+: \S", line)]


@pytest.mark.parametrize(
    ("cloud", "environment", "name", "keys"),
    [
        ("aws", "dev", "vision-dev", 4),
        ("gcp", "dev", "vision-gcp-dev", 6),
        ("aws", "prod", "vision-prod", 6),
        ("gcp", "prod", "vision-gcp-prod", 8),
    ],
)
def test_it_writes_a_file_that_is_right_and_says_what_to_type_next(stacks, cloud, environment, name, keys):
    code, output = run("--team", "vision", "--env", environment, "--cloud", cloud)
    assert code == 0, output
    path = stacks / f"Pulumi.{name}.yaml"
    assert f"Wrote stacks/{path.name}" in output
    assert f"make preview STACK={name}" in output
    assert problems([path]) == []
    assert from_file(path).cloud == cloud
    assert len(yaml.safe_load(path.read_text())["config"]) == keys
    assert path.read_text().startswith("# yaml-language-server: $schema=schema.json\n")
    assert all(len(line) <= 120 or "sha256" in line for line in path.read_text().splitlines())


def test_production_has_what_the_policies_ask_of_it(stacks):
    run("--team", "vision", "--env", "prod")
    config = from_file(stacks / "Pulumi.vision-prod.yaml")
    assert config.network.create is not None
    assert config.network.create.egress == "nat"
    assert config.budget is not None


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_every_key_behind_a_hash_may_be_set(cloud):
    text = stack_text("vision", "dev", cloud, PLACES[cloud])
    lines = text.splitlines()
    positions = examples(text)
    assert len(positions) > 15
    for at in positions:
        changed = [*lines[:at], lines[at].replace("# ", "", 1), *lines[at + 1 :]]
        keys = yaml.safe_load("\n".join(changed))["config"]
        parse({key.removeprefix("tidemill:"): value for key, value in keys.items() if key.startswith("tidemill:")})


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_every_key_that_the_cloud_has_is_there(cloud):
    text = stack_text("vision", "dev", cloud, PLACES[cloud])
    shown = set(re.findall(r"tidemill:([a-z0-9_]+):", text)) | {"cloud"}
    assert shown == set(StackConfig.model_fields) - LEFT_OUT[cloud]


def test_a_file_that_is_there_is_not_touched(stacks):
    path = stacks / "Pulumi.vision-dev.yaml"
    path.write_text("mine")
    code, output = run("--team", "vision", "--env", "dev")
    assert code == 2
    assert "stacks/Pulumi.vision-dev.yaml exists" in output
    assert path.read_text() == "mine"


def test_a_pipeline_of_another_file_is_not_made_twice(stacks):
    (stacks / "Pulumi.old.yaml").write_text(stack_text("vision", "dev", "aws", PLACES["aws"]))
    code, output = run("--team", "vision", "--env", "dev")
    assert code == 2
    assert "is Pulumi.old.yaml already" in " ".join(output.split())
    assert [path.name for path in stacks.iterdir()] == ["Pulumi.old.yaml"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--team", "Vision", "--env", "dev"], 'tidemill:team: "Vision"'),
        (["--team", "../x", "--env", "dev"], 'tidemill:team: "../x"'),
        (["--team", "vision", "--env", "d ev"], 'tidemill:environment: "d ev"'),
        (["--team", "v" * 32, "--env", "production"], "tidemill:team: "),
        (["--team", "vision", "--env", "dev", "--cloud", "azure"], "'azure' is not one of 'aws', 'gcp'"),
        (["--team", "vision", "--env", "dev", "--region", "oregon"], 'aws:region: "oregon" is not allowed'),
        (["--env", "dev"], "Missing option '--team'"),
    ],
)
def test_what_was_typed_wrong_is_told_and_nothing_is_written(stacks, arguments, says):
    code, output = run(*arguments)
    assert code == 2
    assert says in " ".join(output.split())
    assert list(stacks.iterdir()) == []


def test_make_names_the_clouds_that_there_are():
    command = ["make", "stack", "TEAM=zoo", "ENV=dev", "CLOUD=azure"]
    done = subprocess.run(command, cwd=project.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("CLOUD=azure: ")
