"""The commands that a plan and a deploy run. A script stands in for pulumi; tests/engine applies a real plan."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from ops.additions import Addition
from ops.deploy import deploy, plan
from ops.project import policy_options

POLICIES = " ".join(policy_options("prod"))


@pytest.fixture
def pulumi(tmp_path, monkeypatch):
    script = tmp_path / "pulumi"
    script.write_text(
        f'#!/bin/sh\necho "${{*%% --event-log*}}" > {tmp_path}/called\n'
        'test "$2" != export || { echo "{}"; exit; }\nexit "$EXIT"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("EXIT", "0")
    return tmp_path / "called"


def test_a_plan_is_a_preview_under_the_policies_that_is_saved(pulumi, tmp_path):
    done = CliRunner().invoke(plan, ["--stack", "vision-prod", "--out", str(tmp_path / "plan.json")])
    assert done.exit_code == 0, done.output
    saved = f"--save-plan {tmp_path}/plan.json"
    assert pulumi.read_text() == f"preview --stack vision-prod --non-interactive --diff {saved} {POLICIES}\n"


def test_a_plan_tells_what_somebody_added(pulumi, tmp_path, monkeypatch):
    added = [Addition("job", "the inline policy everything")]
    monkeypatch.setattr("ops.deploy.additions", lambda stack, config: added)
    done = CliRunner().invoke(plan, ["--stack", "vision-prod", "--out", str(tmp_path / "plan.json")])
    assert done.exit_code == 0, done.output
    assert "Added by hand, and left by `deploy`: job: the inline policy everything" in done.stderr


def test_a_deploy_keeps_to_the_plan_it_is_given(pulumi, tmp_path):
    (tmp_path / "plan.json").write_text('{"manifest": {}, "resourcePlans": {}}')
    done = CliRunner().invoke(deploy, ["--stack", "vision-prod", "--plan", str(tmp_path / "plan.json")])
    assert done.exit_code == 0, done.output
    options = f"--yes --skip-preview --plan {tmp_path}/plan.json"
    assert pulumi.read_text() == f"up --stack vision-prod --non-interactive {options} {POLICIES}\n"
    assert CliRunner().invoke(deploy, ["--stack", "vision-prod"]).exit_code == 0
    assert pulumi.read_text() == f"up --stack vision-prod --non-interactive --yes {POLICIES}\n", "with its preview"


@pytest.mark.parametrize(
    "urn", ["urn:pulumi:vision-dev::tidemill::a::b", "urn:pulumi:vision-prod::tidemill-shared::a::b"]
)
def test_a_plan_of_another_stack_is_refused_before_the_engine_starts(pulumi, tmp_path, urn):
    (tmp_path / "plan.json").write_text(json.dumps({"resourcePlans": {urn: {}}}))
    done = CliRunner().invoke(deploy, ["--stack", "vision-prod", "--plan", str(tmp_path / "plan.json")])
    assert done.exit_code == 2
    assert f"it is a plan of another stack than vision-prod; it has {urn}" in " ".join(done.output.split())
    assert not pulumi.exists()
    own = {"urn:pulumi:vision-prod::tidemill::a::b": {}}
    (tmp_path / "plan.json").write_text(json.dumps({"resourcePlans": own}))
    assert CliRunner().invoke(deploy, ["--stack", "vision-prod", "--plan", str(tmp_path / "plan.json")]).exit_code == 0


def test_a_plan_that_cannot_be_written_is_told_before_the_preview(pulumi):
    done = CliRunner().invoke(plan, ["--stack", "vision-prod", "--out", "/nonexistent/x/plan.json"])
    assert done.exit_code == 2
    assert "/nonexistent/x is not a folder" in done.output
    assert not pulumi.exists()


def test_what_the_engine_refuses_is_no_success(pulumi, monkeypatch):
    monkeypatch.setenv("EXIT", "255")
    assert CliRunner().invoke(deploy, ["--stack", "vision-prod"]).exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--stack", "vision-prd"], "vision-prd"),
        (["--stack", "vision-prod", "--plan", "no.json"], "no.json"),
        (["--stack", "vision-prod", "--plan", __file__], "it is not a plan"),
    ],
)
def test_a_mistake_of_the_caller_exits_2_before_anything_runs(pulumi, arguments, says):
    done = CliRunner().invoke(deploy, arguments)
    assert done.exit_code == 2
    assert says in done.output
    assert not pulumi.exists()


_SLOW = """#!/bin/sh
test "$1" = up || exit 0
trap 'sleep 1; echo finished > {note}; exit 1' INT
echo begun > {note}
for turn in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 1 & wait $!; done
"""
_DEPLOY = "from ops import processes; from ops.__main__ import main; processes._GRACE_SECONDS = 0.1\n"
_DEPLOY += "main(['deploy', '--stack', 'vision-prod'])"


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_deploy_that_is_stopped_lets_the_engine_finish_its_steps(tmp_path, sent):
    """It was killed ten seconds after Ctrl-C, and at once when CI stopped the job. Not proven: a runner that kills."""
    note = tmp_path / "note"
    (tmp_path / "pulumi").write_text(_SLOW.format(note=note))
    (tmp_path / "pulumi").chmod(0o755)
    env = os.environ | {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    running = subprocess.Popen([sys.executable, "-c", _DEPLOY], env=env, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not note.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    # Its parent may still be on its way back from the start.
    time.sleep(1)
    running.send_signal(sent)
    assert running.wait(60) != 0
    assert note.read_text() == "finished\n"
