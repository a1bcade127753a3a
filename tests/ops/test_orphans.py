"""Stacks whose file goes: in `affected`, the preview, the review and the backend. Real git; a script is the engine."""

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from ops import affected, orphans, project
from ops.ci.github import GitHub
from ops.preview import preview
from ops.review.build import build
from ops.review.command import review
from ops.review.document import parse

TINY = "config:\n  tidemill:team: tiny\n  tidemill:environment: dev\n  aws:region: us-west-2\n"
WEE = (Path(__file__).parents[2] / "stacks" / "Pulumi.vision-dev.yaml").read_text()
HOME = {"backend_url": "s3://state?region=us-west-2", "preview": "reader", "deploy": {"dev": "writer"}}


def git(folder: Path, *arguments: str) -> None:
    command = ["git", "-c", "user.name=A", "-c", "user.email=a@example.com", *arguments]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=60)


@pytest.fixture
def renamed(tmp_path, monkeypatch) -> Path:
    """A checkout whose last commit renames tiny-dev to vision-dev, with a pulumi that knows tiny-dev's resources."""
    folder = tmp_path / "checkout"
    stacks = folder / "stacks"
    stacks.mkdir(parents=True)
    (stacks / "Pulumi.tiny-dev.yaml").write_text(TINY)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    (stacks / "Pulumi.tiny-dev.yaml").unlink()
    (stacks / "Pulumi.vision-dev.yaml").write_text(WEE)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "rename")
    monkeypatch.setattr(project, "ROOT", folder)
    monkeypatch.setattr(project, "STACKS", stacks)
    monkeypatch.setattr(affected, "ROOT", folder)
    monkeypatch.setattr(affected.stacks, "__defaults__", (stacks,))
    backend(tmp_path, monkeypatch, {"tiny-dev": 51, "vision-dev": 42, "destroyed-dev": 0})
    return folder


def backend(folder: Path, monkeypatch, stacks: dict[str, int], prefix: str = "") -> None:
    rows = [{"name": prefix + name, "current": False, "resourceCount": count} for name, count in stacks.items()]
    (folder / "rows").write_text(json.dumps(rows))
    script = folder / "pulumi"
    script.write_text(f"#!/bin/sh\ncat {folder}/rows\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_a_renamed_stack_is_affected_under_its_old_name_too(renamed, monkeypatch):
    monkeypatch.setenv("CI_VARIABLES", json.dumps({"TIDEMILL_AWS_DEV": json.dumps(HOME)}))
    done = CliRunner().invoke(affected.affected, ["--base", "HEAD~1", "--json"])
    assert done.exit_code == 0, done.output
    rows = {row["stack"]: row for row in json.loads(done.output)}
    assert {name: row["removed"] for name, row in rows.items()} == {"tiny-dev": True, "vision-dev": False}
    assert (rows["tiny-dev"]["region"], rows["tiny-dev"]["login"]["preview"]) == ("us-west-2", "reader")
    told = CliRunner().invoke(affected.affected, ["--base", "HEAD~1"]).output
    assert "tiny-dev\tstacks/Pulumi.tiny-dev.yaml is removed" in told


@pytest.mark.parametrize(
    ("text", "cloud"), [("config: [", "aws"), ("[]", "aws"), ("config: {tidemill:cloud: gcp}", "gcp")]
)
def test_a_removed_file_that_was_wrong_is_affected_as_well(renamed, text, cloud):
    (renamed / "stacks" / "Pulumi.odd.yaml").write_text(text)
    git(renamed, "add", ".")
    git(renamed, "commit", "-qm", "odd")
    git(renamed, "rm", "-q", "stacks/Pulumi.odd.yaml")
    git(renamed, "commit", "-qm", "gone")
    [row] = json.loads(CliRunner().invoke(affected.affected, ["--base", "HEAD~1", "--json"]).output)
    assert (row["stack"], row["cloud"], row["removed"]) == ("odd", cloud, True)


@pytest.mark.parametrize(
    ("where", "deployed", "severity", "says"),
    [
        ("login", {"tiny-dev": 51}, "critical", "its 51 resources stay"),
        ("login", {"tiny-dev": 0}, "low", "no resources"),
        ("login", {}, "low", "no resources"),
        ("localcloud", {"tiny-dev": 51}, "critical", "its resources stay"),
    ],
)
def test_the_review_of_a_removed_stack_says_what_stays(  # noqa: PLR0917
    renamed, tmp_path, monkeypatch, where, deployed, severity, says
):
    backend(tmp_path, monkeypatch, deployed, "organization/tidemill/")
    target = tmp_path / "tiny.json"
    options = ["--stack", "tiny-dev", "--on", where, "--base", "HEAD~1", "--json", str(target)]
    done = CliRunner().invoke(preview, options)
    assert done.exit_code == 0, done.output
    [stack] = build([parse(target.read_text(), "tiny")]).stacks
    [finding] = stack.findings
    assert (finding.severity, finding.kind) == (severity, "stack-removed")
    assert says in finding.title


def test_a_review_of_a_removed_stack_is_critical_and_needs_no_engine(renamed):
    done = CliRunner().invoke(review, ["--stack", "tiny-dev", "--base", "HEAD~1"])
    assert done.exit_code == 5, done.output
    assert "nothing manages them" in done.output


def test_a_stack_that_neither_was_nor_is_there_is_a_mistake(renamed):
    done = CliRunner().invoke(review, ["--stack", "tinny-dev", "--base", "HEAD~1"])
    assert done.exit_code == 2
    assert "there is no stacks/Pulumi.tinny-dev.yaml" in done.output


def test_stacks_of_the_backend_without_a_file_are_told(renamed):
    done = CliRunner().invoke(orphans.orphans, [])
    assert done.exit_code == 1
    assert "| `tiny-dev` | 51 |" in done.output
    assert "vision-dev` |" not in done.output
    assert "destroyed-dev" not in done.output
    assert CliRunner().invoke(orphans.orphans, ["--stack", "tiny-dev"]).exit_code == 1
    assert CliRunner().invoke(orphans.orphans, ["--stack", "destroyed-dev"]).exit_code == 0


def test_an_issue_per_backend_is_opened_and_closed(renamed, tmp_path, monkeypatch):
    calls = []

    class Recorded(GitHub):
        def __init__(self) -> None:
            pass

        def open_issue(self, title: str, body: str, label: str = "") -> str:
            calls.append(("open", title))
            return "https://example.com/1"

        def close_issue(self, title: str, reason: str, label: str = "") -> str | None:
            calls.append(("close", title))
            return None

    monkeypatch.setattr(GitHub, "of_environment", lambda environment: Recorded())
    monkeypatch.setenv("PULUMI_BACKEND_URL", "s3://state-1?region=us-west-2")
    assert CliRunner().invoke(orphans.orphans, ["--issue"]).exit_code == 0
    backend(tmp_path, monkeypatch, {"vision-dev": 42})
    assert CliRunner().invoke(orphans.orphans, ["--issue"]).exit_code == 0
    title = "Stacks without a file: state-1"
    assert calls == [("open", title), ("close", title)]


def test_each_backend_is_a_home_once(monkeypatch):
    other = {**HOME, "backend_url": "gs://state", "provider": "pool", "preview": "account"}
    variables = {"TIDEMILL_AWS_DEV": HOME, "TIDEMILL_AWS_PROD": HOME, "TIDEMILL_GCP_DEV": other}
    monkeypatch.setenv("CI_VARIABLES", json.dumps({**{k: json.dumps(v) for k, v in variables.items()}, "OTHER": "x"}))
    done = CliRunner().invoke(orphans.orphans, ["--homes"])
    assert [(row["home"], row["cloud"], row["region"], row["preview"]) for row in json.loads(done.output)] == [
        ("TIDEMILL_AWS_DEV", "aws", "us-west-2", "reader"),
        ("TIDEMILL_GCP_DEV", "gcp", "", "account"),
    ]
    monkeypatch.setenv("CI_VARIABLES", json.dumps({"TIDEMILL_AWS_DEV": "{}"}))
    assert CliRunner().invoke(orphans.orphans, ["--homes"]).exit_code == 2
