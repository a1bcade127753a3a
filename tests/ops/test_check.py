"""`python -m ops check` on stack files. The wrong values themselves are in tests/unit/bad_stack_configs.yaml."""

import pytest
from click.testing import CliRunner

from ops import project
from ops.check import check

GOOD = """\
config:
  aws:region: us-west-2
  tidemill:team: vision
  tidemill:environment: dev
  tidemill:queues: {cpu: {images: {default: "registry://preprocess:1"}}}
"""


@pytest.fixture
def stacks(tmp_path, monkeypatch):
    monkeypatch.setattr(project, "STACKS", tmp_path)
    (tmp_path / "Pulumi.vision-dev.yaml").write_text(GOOD)
    return tmp_path


def run(*arguments):
    done = CliRunner().invoke(check, arguments)
    return done.exit_code, done.output


def test_the_committed_stacks_are_right():
    assert run() == (0, "11 stack files are right.\n")


def test_one_stack_is_named(stacks):
    (stacks / "Pulumi.wrong.yaml").write_text("config: [")
    assert run("vision-dev") == (0, "Pulumi.vision-dev.yaml is right.\n")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (GOOD.replace("cpu:", "CPU:"), "tidemill:queues.CPU: "),
        (GOOD.replace("  aws:region: us-west-2\n", ""), "config: 'aws:region' is a required property"),
        (GOOD.replace("us-west-2", "us-west-2a"), "aws:region: 'us-west-2a' does not match"),
        (GOOD.replace("us-west-2", "2"), "aws:region: 2 is not of type 'string'"),
        (GOOD + "  tidemill:team: other\n", "the key 'tidemill:team' twice"),
        (GOOD + "  tidemill:cloud: gcp\n", "'gcp:project' is a required property"),
        ("config:\n", "tidemill:team: nothing"),
    ],
)
def test_what_is_wrong_is_one_line_and_exit_code_2(stacks, content, says):
    (stacks / "Pulumi.vision-dev.yaml").write_text(content)
    code, output = run("vision-dev")
    assert code == 2
    (line,) = output.splitlines()
    assert line.startswith("Pulumi.vision-dev.yaml: ")
    assert says in line


def test_two_files_of_one_pipeline_are_told_and_other_regions_are_not(stacks):
    (stacks / "Pulumi.vision-two.yaml").write_text(GOOD)
    (stacks / "Pulumi.vision-eu.yaml").write_text(GOOD.replace("us-west-2", "eu-west-1"))
    code, output = run()
    assert code == 2
    assert output == (
        "Pulumi.vision-two.yaml: tidemill:team: the pipeline vision-dev in us-west-2 is Pulumi.vision-dev.yaml already."
        " Allowed: a team and environment once a region. Rename one of them, or remove the file.\n"
    )


def test_a_stack_that_is_not_there_is_the_callers_mistake(stacks):
    code, output = run("vision-prd")
    assert code == 2
    assert "there is no stacks/Pulumi.vision-prd.yaml. Did you mean vision-dev? Stacks: vision-dev." in output
