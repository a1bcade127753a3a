"""Which command the preview runs where. A script stands for pulumi here; tests/engine runs the real one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from ops.preview import preview

ROOT = Path(__file__).parents[2]

PULUMI = """#!/bin/sh
echo "$PWD|$PULUMI_BACKEND_URL|$*"
exit "$EXIT"
"""


def ops(folder: Path, *arguments: str, code: int = 0) -> subprocess.CompletedProcess:
    script = folder / "pulumi"
    script.write_text(PULUMI)
    script.chmod(0o755)
    own = {
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "PULUMI_BACKEND_URL": "s3://team-state",
        "EXIT": str(code),
    }
    command = [sys.executable, "-m", "ops", *arguments]
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **own},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("code", [0, 1])
def test_on_a_login_it_runs_in_the_repository_with_the_callers_backend_and_the_policy_pack(tmp_path, code):
    done = ops(tmp_path, "preview", "--stack", "vision-prod", "--on", "login", code=code)
    assert done.returncode == code
    where, backend, command = done.stdout.strip().split("|")
    assert (where, backend) == (str(ROOT), "s3://team-state")
    assert command == f"preview --stack vision-prod --diff --non-interactive --policy-pack {ROOT / 'policy'}"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["preview"], "--stack"),
        (["preview", "--stack", "vision-dev", "--on", "gcp"], "localcloud"),
        (["previw"], "previw"),
    ],
)
def test_a_mistake_of_the_caller_exits_2_and_says_which(tmp_path, arguments, says):
    done = ops(tmp_path, *arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_without_pulumi_on_path_it_says_what_to_install(tmp_path):
    command = [sys.executable, "-m", "ops", "preview", "--stack", "vision-dev", "--on", "login"]
    environment = {**os.environ, "PATH": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "pulumi is not on PATH" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_an_engine_localcloud_says_what_to_do(tmp_path):
    command = [sys.executable, "-m", "ops", "preview", "--stack", "vision-dev"]
    environment = {**os.environ, "PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "Go" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_wrong_stack_file_is_told_before_an_engine_is_asked(tmp_path, monkeypatch):
    wrong = tmp_path / "Pulumi.wrong.yaml"
    wrong.write_text(
        "config:\n  tidemill:team: vision\n  tidemill:environment: dev\n  tidemill:queues: {cpu: {imges: {}}}\n"
    )
    monkeypatch.setattr("ops.preview.stack_file", lambda stack: wrong)
    done = CliRunner().invoke(preview, ["--stack", "wrong"])
    assert done.exit_code == 2
    assert "tidemill:queues.cpu.imges" in done.output
    assert "images" in done.output
