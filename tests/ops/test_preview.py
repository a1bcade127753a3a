"""The command that the preview runs, and where. A script stands in for pulumi here; tests/engine runs the real one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from ops import project
from ops.preview import preview
from ops.project import policy_options
from tests.warm import ran

ROOT = Path(__file__).parents[2]

PULUMI = """#!/bin/sh
echo "$PWD|$PULUMI_BACKEND_URL|$*"
exit "$EXIT"
"""
URN = "urn:pulumi:vision-prod::tidemill::aws:s3/bucket:Bucket::open"
REPOSITORY = "urn:pulumi:vision-prod::tidemill::aws:ecr/repository:Repository::vision-prod-registry-old"
STEP = {"op": "create", "urn": URN, "newState": {"inputs": {}, "stackTrace": [{}], "sourcePosition": "project:///x"}}
SAID = {"policyName": "b", "enforcementLevel": "mandatory", "message": "close it\n", "resourceUrn": URN}
JSON_PULUMI = f"""#!/bin/sh
while [ "$1" != --event-log ]; do shift; done
printf '%s\\n' '{json.dumps({"policyEvent": SAID})}' '{json.dumps({"policyEvent": {**SAID, "policyName": "a"}})}' > "$2"
echo '{json.dumps({"steps": [STEP], "changeSummary": {"create": 1}})}'
exit "$EXIT"
"""
BROKEN_PULUMI = """#!/bin/sh
echo 'error: no stack named vision-prod found' >&2
exit "$EXIT"
"""


def ops(folder: Path, *arguments: str, code: int = 0, pulumi: str = PULUMI) -> subprocess.CompletedProcess:
    script = folder / "pulumi"
    script.write_text(pulumi)
    script.chmod(0o755)
    own = {
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "PULUMI_BACKEND_URL": "s3://team-state",
        "EXIT": str(code),
    }
    return ran([sys.executable, "-m", "ops", *arguments], cwd=ROOT, env={**os.environ, **own})


@pytest.mark.parametrize("code", [0, 1])
def test_on_a_login_it_runs_in_the_repository_with_the_callers_backend_and_the_policy_pack(tmp_path, code):
    done = ops(tmp_path, "preview", "--stack", "vision-prod", "--on", "login", code=code)
    assert done.returncode == code
    where, backend, command = done.stdout.strip().split("|")
    assert (where, backend) == (str(ROOT), "s3://team-state")
    assert command.startswith("preview --stack vision-prod --diff --non-interactive --policy-pack ")
    assert command.split()[5:-2] == policy_options("prod")


def test_a_preview_ends_with_what_matters_and_without_noise(tmp_path):
    stopped = f'resource "{REPOSITORY}" cannot be deleted\\nbecause it is protected. To unprotect the resource, ...'
    events = [
        {"policyEvent": {**SAID, "policyName": "a", "enforcementLevel": "advisory", "message": "rule\\nwhy\\n"}},
        {"policyEvent": SAID},
        {"diagnosticEvent": {"severity": "error", "message": stopped}},
    ]
    log = "".join(f"'{json.dumps(event)}' " for event in events).replace("\\\\n", "\\n")
    noise = "warning: using pulumi-language-python from $PATH at /somewhere"
    colored = noise.replace("warning: ", "\\033[38;5;3mwarning: \\033[0m\\033[0m")
    script = f"""#!/bin/sh
while [ "$1" != --event-log ]; do shift; done
printf '%s\\n' {log} > "$2"
echo 'hundreds of lines'
printf '{colored}\\n'
echo '{noise}' >&2
echo 'warning: something else' >&2
exit "$EXIT"
"""
    done = ops(tmp_path, "preview", "--stack", "vision-prod", "--on", "login", code=1, pulumi=script)
    assert done.returncode == 1
    assert done.stderr == "warning: something else\n"
    *lines, advice = done.stdout.splitlines()
    assert lines == [
        "hundreds of lines",
        "Violations: 1 mandatory, 1 advisory",
        "  mandatory  b  open: close it",
        "  advisory  a  open: why",
    ]
    kept = (
        "vision-prod-registry-old is protected. To keep it and its images, add old to tidemill:registry.repositories;"
    )
    assert advice.startswith(kept)


def test_the_policy_pack_is_configured_by_environment(tmp_path, monkeypatch):
    folder = tmp_path / "environments"
    folder.mkdir()
    monkeypatch.setattr(project, "POLICY", tmp_path)
    pack = ["--policy-pack", str(tmp_path)]
    (folder / "default.json").touch()
    assert policy_options("prod") == [*pack, "--policy-pack-config", str(folder / "default.json")]
    (folder / "prod.json").touch()
    assert policy_options("prod") == [*pack, "--policy-pack-config", str(folder / "prod.json")]


@pytest.mark.parametrize("code", [0, 1])
def test_the_document_holds_the_preview_and_what_the_policy_pack_said(tmp_path, code):
    target = tmp_path / "preview.json"
    arguments = ["preview", "--stack", "vision-prod", "--on", "login", "--json", str(target)]
    done = ops(tmp_path, *arguments, code=code, pulumi=JSON_PULUMI)
    assert done.returncode == code
    assert f"vision-prod: 1 create; 2 policy messages. Written to {target}." in done.stdout
    document = json.loads(target.read_text())
    assert document["version"] == 1
    assert [document[key] for key in ("stack", "cloud", "region", "environment")] == [
        "vision-prod", "aws", "us-west-2", "prod",
    ]  # fmt: skip
    assert document["config"]["queues"]["gpu"]["machines"]["families"] == ["g4dn", "g5", "g6"]
    # Reviewers should not see machine paths.
    assert document["preview"]["steps"] == [{"op": "create", "urn": URN, "newState": {"inputs": {}}}]
    assert document["policies"] == [
        {"rule": rule, "level": "mandatory", "severity": None, "urn": URN, "message": "close it"} for rule in "ab"
    ]
    assert document["errors"] == []
    assert document["exit_code"] == code


def test_several_stacks_go_into_a_folder_and_what_the_engine_refused_is_kept(tmp_path):
    folder = tmp_path / "new" / "previews"
    arguments = ["preview", "--stack", "vision-dev", "--stack", "vision-gcp-prod", "--on", "login"]
    done = ops(tmp_path, *arguments, "--json", str(folder), code=255, pulumi=BROKEN_PULUMI)
    assert done.returncode == 1
    documents = {path.name: json.loads(path.read_text()) for path in folder.iterdir()}
    assert sorted(documents) == ["vision-dev.json", "vision-gcp-prod.json"]
    for document in documents.values():
        assert document["preview"] is None
        assert document["errors"] == ["error: no stack named vision-prod found"]
        assert document["exit_code"] == 255


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["preview"], "--stack"),
        (["preview", "--stack", "vision-dev", "--on", "gcp"], "localcloud"),
        (["preview", "--stack", "vision-dev", "--json", "README.md/x.json"], "--json README.md/x.json"),
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
    done = ran(command, cwd=ROOT, env=environment)
    assert done.returncode == 2
    assert "pulumi is not on PATH" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_an_engine_localcloud_says_what_to_do(tmp_path):
    command = [sys.executable, "-m", "ops", "preview", "--stack", "vision-dev"]
    environment = {**os.environ, "PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    done = ran(command, cwd=ROOT, env=environment)
    assert done.returncode == 1
    assert "Go" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_wrong_stack_file_is_told_before_an_engine_is_asked(tmp_path, monkeypatch):
    wrong = tmp_path / "Pulumi.wrong.yaml"
    wrong.write_text(
        "config:\n  tidemill:team: vision\n  tidemill:environment: dev\n  tidemill:queues: {cpu: {imges: {}}}\n"
    )
    monkeypatch.setattr(project, "STACKS", tmp_path)
    done = CliRunner().invoke(preview, ["--stack", "wrong"])
    assert done.exit_code == 2
    assert "tidemill:queues.cpu.imges" in done.output
    assert "images" in done.output
