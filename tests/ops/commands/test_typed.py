"""What people type at `python -m ops`: mistyped commands, paths of stack files, a Python without our packages."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from ops.__main__ import main
from ops.project import ROOT


def run(*arguments):
    done = CliRunner().invoke(main, arguments)
    return done.exit_code, done.output


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        (["chekc"], "Unknown command 'chekc'. Did you mean 'check'? Commands: advise, affected,"),
        (["prices", "shwo"], "Did you mean 'show'? Commands: coverage, refresh, set, show."),
        (["queue", "delete", "--stack", "vision-dev", "cpu"], "Unknown command 'delete'. Commands: add, remove, set."),
        (["check", "shared/nosuch"], "--stack shared/nosuch: there is no shared/Pulumi.nosuch.yaml. Stacks:"),
        (["stack", "--team", "a", "--env", "dev", "--project", "p"], "only stacks on GCP have a project"),
    ],
)
def test_a_mistake_is_answered_with_what_there_is(typed, says):
    code, output = run(*typed)
    assert code == 2
    assert says in " ".join(output.split())


@pytest.mark.parametrize(
    "typed",
    [
        ["vision-dev"],
        ["--stack", "vision-dev"],
        ["stacks/Pulumi.vision-dev.yaml"],
        [str(ROOT / "stacks" / "Pulumi.vision-dev.yaml"), "--stack", "vision-dev"],
    ],
)
def test_a_stack_is_named_by_its_name_or_by_its_file(typed):
    assert run("check", *typed) == (0, "Pulumi.vision-dev.yaml is valid.\n")


def test_a_file_beside_the_stacks_names_its_folder():
    code, output = run("check", "shared/Pulumi.prod.yaml")
    assert code == 2
    assert "--stack shared/prod: there is no shared/Pulumi.prod.yaml" in output


def test_a_python_without_the_packages_says_which_one_has_them(tmp_path):
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); import ops"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "make .venv/.aws" in done.stderr
    assert "Traceback" not in done.stderr
