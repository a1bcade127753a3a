"""Rules that every workflow keeps. Only GitHub shows how it runs them; its linters are in `make lint`."""

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from localcloud.engine import VERSION
from ops.__main__ import main
from tidemill.cli.app import app as tidemill

ROOT = Path(__file__).resolve().parents[3]
TO_COPY = sorted((ROOT / "examples" / "github").glob("*.yml"))
WORKFLOWS = [*sorted((ROOT / ".github" / "workflows").glob("*.yml")), *TO_COPY]
FILES = [*WORKFLOWS, *sorted((ROOT / ".github" / "actions").glob("*/action.yml"))]
PINNED = re.compile(r"uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")


def load(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text())


def steps(path: Path) -> list[dict[str, Any]]:
    content = load(path)
    if "runs" in content:
        return content["runs"]["steps"]
    return [step for job in content["jobs"].values() for step in job["steps"]]


def by_name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", FILES, ids=by_name)
def test_every_action_is_pinned_and_no_expression_is_run(path):
    used = [line.strip().removeprefix("- ") for line in path.read_text().splitlines() if "uses: " in line]
    assert [line for line in used if not line.startswith("uses: ./") and not PINNED.fullmatch(line)] == []
    for step in steps(path):
        assert "${{" not in step.get("run", ""), step
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False
    assert "secrets." not in path.read_text(), "whoever logs in does so with GitHub's own token"


@pytest.mark.parametrize("path", WORKFLOWS, ids=by_name)
def test_every_job_says_what_it_may_and_how_long(path):
    content = load(path)
    assert content["permissions"] == {}
    assert content["concurrency"]
    for name, job in content["jobs"].items():
        assert 0 < job["timeout-minutes"] <= 300, name
        assert job["permissions"], name
        assert "write-all" not in str(job["permissions"])
    (triggers,) = (value for key, value in content.items() if key is True)  # YAML reads `on` so
    assert not {"pull_request_target", "workflow_run"} & set(triggers), "others' code would get our permissions"


def test_an_action_has_one_version_everywhere():
    versions: dict[str, set[str]] = {}
    for path in FILES:
        for found in re.finditer(r"uses: ([\w.-]+/[\w./-]+)@(\S+ # \S+)", path.read_text()):
            versions.setdefault(found[1], set()).add(found[2])
    assert {name: sorted(some) for name, some in versions.items() if len(some) > 1} == {}


def test_ci_runs_the_engine_that_localcloud_builds():
    (pulumi,) = [step for path in FILES for step in steps(path) if "pulumi-version" in step.get("with", {})]
    assert pulumi["with"]["pulumi-version"] == VERSION.removeprefix("v")


def commands() -> list[list[str]]:
    """What workflows type of `python -m ops`, word by word, up to what the shell does with it."""
    found = []
    for path in FILES:
        for step in steps(path):
            for typed in re.findall(r"python -m ops ([^\n;|)]+)", step.get("run", "")):
                found.append(shlex.split(re.sub(r'"\$\{\w+\[@\]\}"|\$\(.*', "", typed)))
    return found


CONTEXT = click.Context(main)
COMMANDS = {name: main.get_command(CONTEXT, name) for name in main.list_commands(CONTEXT)}


@pytest.mark.parametrize("typed", commands(), ids=" ".join)
def test_what_a_workflow_types_is_a_command_with_these_options(typed):
    command = COMMANDS[typed[0]]
    if isinstance(command, click.Group):
        command = command.get_command(CONTEXT, typed[1])
    assert command
    known = {option for each in command.params if isinstance(each, click.Option) for option in each.opts}
    assert {word for word in typed[1:] if word.startswith("--")} <= known


def tidemill_commands() -> list[list[str]]:
    """What the workflows to copy type of `tidemill`, without its program."""
    typed = [line for path in TO_COPY for step in steps(path) for line in step.get("run", "").splitlines()]
    return [shlex.split(line.partition(" -- ")[0]) for line in typed if line.strip().startswith("tidemill ")]


@pytest.mark.parametrize("typed", tidemill_commands(), ids=lambda typed: typed[1])
def test_what_a_workflow_to_copy_types_is_a_command_of_tidemill(typed):
    command = tidemill.get_command(click.Context(tidemill), typed[1])
    assert command
    known = {option for each in command.params if isinstance(each, click.Option) for option in each.opts}
    assert {word for word in typed[2:] if word.startswith("--")} <= known


def test_a_workflow_to_copy_submits_waits_and_keeps_its_login_out_of_the_code():
    (path,) = TO_COPY
    (job,) = load(path)["jobs"].values()
    assert job["permissions"] == {"contents": "read", "id-token": "write"}
    assert [typed[1] for typed in tidemill_commands()] == ["submit", "wait", "cancel", "status"]
    (checkout,) = [step for step in steps(path) if "checkout@" in step.get("uses", "")]
    assert job["defaults"]["run"]["working-directory"] == checkout["with"]["path"], "--code . is not the workspace"
    (login,) = [step for step in steps(path) if "aws-actions/" in step.get("uses", "")]
    assert int(login["with"]["role-duration-seconds"]) > job["timeout-minutes"] * 60


def test_untrusted_code_runs_in_no_job_that_may_ask_for_a_token():
    """A fork gets none; Dependabot's branches are of this repository, and install what nobody has looked at."""
    found = [
        job["if"]
        for path in WORKFLOWS
        for job in load(path)["jobs"].values()
        if "\n  pull_request:" in path.read_text() and "id-token" in job["permissions"]
    ]
    assert len(found) == 1
    assert "github.event.pull_request.user.login != 'dependabot[bot]'" in found[0]
    assert "github.event.pull_request.head.repo.full_name == github.repository" in found[0]
    assert "||" not in found[0]


def test_what_deploys_waits_for_its_environment():
    """Who has to approve is a setting on GitHub; the role's trust is what makes it hold."""
    writers = [
        job
        for path in WORKFLOWS
        for job in load(path)["jobs"].values()
        for step in job["steps"]
        if step.get("with", {}).get("identity") == "${{ matrix.login.deploy }}"
    ]
    assert [job["environment"] for job in writers] == ["${{ matrix.environment }}"]


def test_no_line_of_an_errors_text_keeps_the_comment_from_a_pull_request(tmp_path):
    job = load(ROOT / ".github/workflows/preview.yml")["jobs"]["review"]
    (script,) = (step["run"] for step in job["steps"] if step.get("name") == "Comment")
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "$@"\n')
    python.chmod(0o755)
    none = "## Tidemill: this change affects no stack\n"
    for text, expected in ((none, True), (f"## Tidemill: the preview failed\n\n```text\n{none}```\n", False)):
        (tmp_path / "review.md").write_text(text)
        called, env = ["bash", "-eu", "-c", script], {**os.environ, "PULL": "1"}
        said = subprocess.check_output(called, cwd=tmp_path, env=env, timeout=60)
        assert (b"--only-edit" in said) is expected
