"""Drift reports. A script stands in for pulumi; tests/engine/test_bootstrap.py lets the engine detect drift."""

import json
from collections.abc import Sequence

import pytest
from click.testing import CliRunner

from ops.additions import Addition
from ops.ci.github import GitHub
from ops.drift import drift
from ops.engine_messages import advice

LOGS = (
    "urn:pulumi:vision-prod::tidemill::tidemill:index:Pipeline$aws:cloudwatch/logGroup:LogGroup::vision-prod-logs-group"
)
BUCKET = "urn:pulumi:vision-prod::tidemill::tidemill:index:Pipeline$aws:s3/bucket:Bucket::vision-prod-store-bucket"
SECRET = {"retentionInDays": 90, "password": "hunter2"}
UPDATE = {"op": "update", "urn": LOGS, "detailedDiff": {"retentionInDays": {}}, "oldState": {"outputs": SECRET}}
CREATE = {"op": "create", "urn": BUCKET, "newState": {"inputs": SECRET}}
STILL = [{"op": op, "urn": BUCKET} for op in ("same", "read", "refresh")]
ENDED = {
    "policyName": "aws-s3-bucket-waiver",
    "enforcementLevel": "mandatory",
    "message": "the waiver\nended",
    "resourceUrn": BUCKET,
}


def test_a_stack_that_the_backend_lacks_is_told_with_what_to_do():
    for said in ("error: no stack named 'vision-prod' found", "error: no stack named vision-prod found"):
        assert advice([said]) == [
            "The backend has no vision-prod: log in to the right one, or make it (docs/teams.md)."
        ]
    assert advice(["error: no such bucket"]) == []


@pytest.mark.parametrize(
    ("home", "name", "key"),
    [
        ("bootstrap", "tidemill-state-bucket", "purge"),
        ("bootstrap", "tidemill-replica-bucket", "purge_replica"),
        ("shared", "shared-prod-registry-key", "purge"),
    ],
)
def test_a_stack_beside_the_teams_is_told_its_own_key(home, name, key):
    urn = f"urn:pulumi:account::tidemill-{home}::tidemill:index:X$aws:s3/bucket:Bucket::{name}"
    (told,) = advice([f'resource "{urn}" cannot be deleted because it is protected'])
    assert f"set tidemill-{home}:{key} to true and run `pulumi up`" in told
    assert "tidemill:allow" not in told


class Recorded(GitHub):
    """Keeps what it is asked, in place of GitHub."""

    calls: list[tuple[str, str]]

    def __init__(self) -> None:
        self.calls = []

    def open_issue(self, title: str, body: str, label: str = "") -> str:
        self.calls.append(("open", title))
        return "https://example.com/1"

    def close_issue(self, title: str, reason: str, label: str = "") -> str | None:
        self.calls.append(("close", title))
        return None


@pytest.fixture
def run(tmp_path, monkeypatch):
    def run(steps: list | None, *arguments: str, code: int = 0, said: dict | None = None, diagnostics: Sequence = ()):
        out = "" if steps is None else json.dumps({"steps": steps, "diagnostics": diagnostics})
        (tmp_path / "out").write_text(out)
        (tmp_path / "said").write_text(json.dumps({"policyEvent": said}) + "\n" if said else "")
        script = tmp_path / "pulumi"
        script.write_text(
            f'#!/bin/sh\ntest "$2" != export || {{ echo "{{}}"; exit; }}\necho "$*" > {tmp_path}/called\n'
            f'while [ "$1" != --event-log ]; do shift; done\ncp {tmp_path}/said "$2"\n'
            f'cat {tmp_path}/out; test {code} = 0 || echo "error: no such stack" >&2; exit {code}\n'
        )
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        return CliRunner().invoke(drift, ["--stack", "vision-prod", *arguments])

    return run


def test_what_differs_is_told_by_property_and_without_values(run, tmp_path):
    done = run([UPDATE, CREATE, *STILL])
    assert done.exit_code == 1
    rows = [line for line in done.output.splitlines() if line.startswith("| ")][1:]
    assert rows == [
        "| update | `vision-prod-logs-group` | `aws:cloudwatch/logGroup:LogGroup` | `retentionInDays` |",
        "| create | `vision-prod-store-bucket` | `aws:s3/bucket:Bucket` |  |",
    ]
    assert "hunter2" not in done.output
    assert "90" not in done.output
    assert "--refresh" in (tmp_path / "called").read_text()


def test_a_stack_that_is_what_its_code_says_is_clean(run):
    done = run(STILL)
    assert (done.exit_code, done.output) == (0, "There is no drift.\n")


def test_what_somebody_added_is_drift_although_the_engine_sees_none(run, monkeypatch):
    added = [Addition("vision-prod-identity-job", "the inline policy everything | `x`")]
    monkeypatch.setattr("ops.drift.additions", lambda stack, config: added)
    done = run(STILL)
    assert done.exit_code == 1
    assert "- `vision-prod-identity-job`: " in done.output
    assert "the inline policy everything" in done.output


def test_a_policy_that_is_violated_since_is_drift(run):
    done = run(STILL, code=1, said=ENDED)
    assert done.exit_code == 1
    assert "- `aws-s3-bucket-waiver`: the waiver ended" in done.output


@pytest.mark.parametrize("steps", [None, STILL])
def test_what_cannot_be_told_is_neither_drift_nor_clean(run, monkeypatch, steps):
    github = Recorded()
    monkeypatch.setattr(GitHub, "of_environment", lambda environment: github)
    done = run(steps, "--issue", code=255)
    assert done.exit_code == 1
    assert github.calls == []
    assert "Error: " in done.output


def test_what_protection_keeps_from_being_told_says_what_to_do(run):
    message = f'error: resource "{BUCKET}" cannot be deleted\nbecause it is protected. To unprotect ...'
    done = run(STILL, code=255, diagnostics=[{"severity": "error", "message": message}])
    assert done.exit_code == 1
    assert "vision-prod-store-bucket is protected. To give it up, set tidemill:allow: [purge]" in done.output


def test_an_issue_is_opened_by_drift_and_closed_without(run, monkeypatch):
    github = Recorded()
    monkeypatch.setattr(GitHub, "of_environment", lambda environment: github)
    assert run([UPDATE], "--issue").exit_code == 0, "the issue says it"
    assert run(STILL, "--issue").exit_code == 0
    assert github.calls == [("open", "Drift: vision-prod"), ("close", "Drift: vision-prod")]


def test_the_callers_mistakes_are_told_before_anything_runs(run, monkeypatch, tmp_path):
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    monkeypatch.setenv("GITHUB_REPOSITORY", "team/infra")
    done = run(STILL, "--issue")
    assert done.exit_code == 2
    assert "GITHUB_TOKEN is not set" in done.output
    assert not (tmp_path / "called").exists()
