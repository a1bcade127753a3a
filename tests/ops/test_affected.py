"""Which stacks a change can affect. Real git, the repository's own stacks."""

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from ops import git as module
from ops import project
from ops.affected import RULES, Stack, affected, removed, scope, stacks, why
from ops.review.document import Base

ROOT = Path(__file__).parents[2]
KNOWN = [
    Stack("vision-dev", "aws", "dev", "us-west-2", "TIDEMILL_AWS_DEV"),
    Stack("vision-prod", "aws", "prod", "us-west-2", "TIDEMILL_AWS_PROD"),
    Stack("vision-gcp-dev", "gcp", "dev", "us-central1", "TIDEMILL_GCP_DEV"),
]


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=A", "-c", "user.email=a@example.com", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=60).stdout


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("stacks/Pulumi.vision-prod.yaml", ["vision-prod"]),
        ("stacks/Pulumi.gone.yaml", []),
        ("stacks/schema.json", []),
        ("components/aws/store.py", ["vision-dev", "vision-prod"]),
        ("tidemill/machines/data/gcp.json", ["vision-gcp-dev"]),
        ("components/config/models.py", ["vision-dev", "vision-gcp-dev", "vision-prod"]),
        ("tidemill/prices/table.py", ["vision-dev", "vision-gcp-dev", "vision-prod"]),
        ("tidemill/prices/data/aws/us-west-2.json.gz", ["vision-dev", "vision-prod"]),
        ("tidemill/layout.py", ["vision-dev", "vision-gcp-dev", "vision-prod"]),
        ("tidemill/completion.py", ["vision-gcp-dev"]),
        ("requirements.txt", ["vision-dev", "vision-gcp-dev", "vision-prod"]),
        ("policy/rules/a.py", ["vision-dev", "vision-gcp-dev", "vision-prod"]),
        ("tidemill/worker/loop.py", []),
        ("docs/ci.md", []),
        ("tests/unit/store/test_store.py", []),
        ("something/new.py", ["vision-dev", "vision-gcp-dev", "vision-prod"]),
    ],
)
def test_a_path_affects_the_stacks_that_read_it(path, names):
    assert sorted(why([path], KNOWN)) == names


def test_a_module_that_a_program_or_its_policies_load_affects_its_stacks():
    """The engine's own imports, in a process of their own: the table must not depend on somebody's memory."""
    program = (
        "import importlib, pkgutil, sys, components, policy.rules\n"
        "for found in pkgutil.walk_packages(components.__path__, 'components.'):\n"
        "    importlib.import_module(found.name)\n"
        "from policy.rules.common import caps\n"
        "caps.hourly('aws', 'us-west-2', caps.PlannedFleet('', 'spot', 8, ('c6i.large',)))\n"
        "print('\\n'.join(str(module.__file__) for name, module in sys.modules.items()"
        " if name.partition('.')[0] in ('components', 'policy', 'tidemill') and module.__file__))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True, timeout=120
    )
    loaded = [Path(line).relative_to(ROOT).as_posix() for line in done.stdout.split()]
    assert len([path for path in loaded if path.startswith("tidemill/")]) > 9
    assert [path for path in loaded if scope(path) == "none"] == []


def test_each_stack_is_named_once_with_the_first_path_that_affects_it():
    assert why(["docs/ci.md", "components/aws/key.py", "__main__.py"], KNOWN) == {
        "vision-dev": "components/aws/key.py",
        "vision-prod": "components/aws/key.py",
        "vision-gcp-dev": "__main__.py",
    }


def test_every_tracked_file_is_classified_and_every_row_is_used():
    tracked = git(ROOT, "ls-files", "-z").split("\0")[:-1]
    starts = [start for start, _ in RULES]
    first = {
        path: next((s for s in starts if path == s or (s[-1] == "/" and path.startswith(s))), None) for path in tracked
    }
    assert [path for path, start in first.items() if start is None] == []
    planned = {"plugin/", "shared/"}
    assert set(starts) - set(first.values()) <= planned
    assert scope("Pulumi.yaml.orig") == "all", "a file's row is its whole path"


def test_the_repositorys_own_stacks_are_told_with_where_they_live():
    done = CliRunner().invoke(affected, ["--all", "--environment", "prod", "--json"])
    assert done.exit_code == 0, done.output
    found = {row["stack"]: row for row in json.loads(done.output)}
    assert found["vision-prod"] == {
        "stack": "vision-prod",
        "cloud": "aws",
        "environment": "prod",
        "region": "us-west-2",
        "home": "TIDEMILL_AWS_PROD",
        "login": None,
        "removed": False,
    }
    assert found["vision-gcp-prod"]["home"] == "TIDEMILL_GCP_PROD"
    assert "vision-dev" not in found


def test_what_has_changed_is_asked_of_git_since_the_branch_left(tmp_path, monkeypatch):
    git(tmp_path, "init", "-q", "-b", "main")
    for name in ("kept", "moved", "deleted"):
        (tmp_path / name).write_text(f"{name}\n" * 20)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    git(tmp_path, "checkout", "-qb", "change")
    (tmp_path / "moved").rename(tmp_path / "ünder")
    (tmp_path / "deleted").unlink()
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "change")
    git(tmp_path, "checkout", "-q", "main")
    (tmp_path / "kept").write_text("others' work\n")
    git(tmp_path, "commit", "-qam", "others")
    git(tmp_path, "checkout", "-q", "change")
    monkeypatch.setattr(project, "ROOT", tmp_path)
    assert sorted(module.changed("main")) == ["deleted", "moved", "ünder"]
    (tmp_path / "ünder").write_text("not committed\n")
    (tmp_path / "kept").write_text("not committed\n")
    for name in ("previews/a.json", "stacks/Pulumi.new.yaml"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("of nobody yet\n")
    assert sorted(module.changed("main")) == ["deleted", "kept", "moved", "stacks/Pulumi.new.yaml", "ünder"]


ROLE = "arn:aws:iam::123456789012:role/"
HOME = {"backend_url": "s3://state", "provider": "", "preview": f"{ROLE}p", "deploy": {"prod": f"{ROLE}d"}}


def test_a_stack_with_a_known_home_is_told_with_its_login(monkeypatch):
    monkeypatch.setenv("CI_VARIABLES", json.dumps({"TIDEMILL_AWS_PROD": json.dumps(HOME), "OTHER": "text"}))
    done = CliRunner().invoke(affected, ["--all", "--with-login", "--json"])
    assert done.exit_code == 0, done.output
    found = {row["stack"]: row["login"] for row in json.loads(done.stdout)}
    assert "vision-prod" in found
    assert "vision-gcp-prod" not in found
    assert found["vision-prod"] == {
        "backend_url": "s3://state", "provider": "", "preview": f"{ROLE}p", "deploy": f"{ROLE}d"
    }  # fmt: skip


def test_a_variable_that_no_stack_reads_is_told(monkeypatch):
    """A misspelt one leaves its stack to the environment's account."""
    given = {"TIDEMILL_STACK_VISION_PORD": json.dumps(HOME), "TIDEMILL_STACK_VISION_PROD": json.dumps(HOME)}
    monkeypatch.setenv("CI_VARIABLES", json.dumps(given))
    done = CliRunner().invoke(affected, ["--all", "--with-login"])
    assert done.exit_code == 0
    assert "PORD: no stack reads this variable. Did you mean 'TIDEMILL_STACK_VISION_PROD'?" in done.stderr
    assert done.stderr.count("no stack reads") == 1


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ("no json", "it holds the repository's variables, by their names"),
        ('{"TIDEMILL_AWS_PROD": "[]"}', "TIDEMILL_AWS_PROD is [], not a JSON object"),
        ('{"TIDEMILL_AWS_PROD": "{}"}', "TIDEMILL_AWS_PROD: backend_url, preview and deploy are required"),
        (json.dumps({"TIDEMILL_AWS_PROD": json.dumps({**HOME, "deploy": {}})}), "deploy has no 'prod'"),
    ],
)
def test_a_home_that_cannot_be_used_is_told(monkeypatch, variables, says):
    monkeypatch.setenv("CI_VARIABLES", variables)
    done = CliRunner().invoke(affected, ["--all"])
    assert done.exit_code == 2
    assert says in done.output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "--base REF or --all"),
        (["--base", "main", "--all"], "--base REF or --all"),
        (["--all", "--environment", "dve"], "--environment dve: no stack is of it; there are dev, local, prod."),
        (["--base", "no-such-branch"], "--base no-such-branch: git does not know this commit, branch or tag"),
    ],
)
def test_a_mistake_of_the_caller_exits_2_and_says_which(arguments, says):
    done = CliRunner().invoke(affected, arguments)
    assert done.exit_code == 2
    assert says in done.output


def test_no_affected_stack_is_told_beside_an_empty_list():
    done = CliRunner().invoke(affected, ["--base", "HEAD"])
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "No stack is affected.\n")


def test_a_wrong_stack_file_is_told(tmp_path):
    (tmp_path / "Pulumi.wrong.yaml").write_text("config: {tidemill:team: vision, tidemill:environment: dev}\n")
    with pytest.raises(click.UsageError, match=r"Pulumi\.wrong\.yaml: tidemill:queues"):
        stacks(tmp_path)


def test_a_day_that_does_not_exist_ends_nothing(tmp_path, monkeypatch):
    """The engine takes it as text; PyYAML ended with a traceback, for a removed file too."""
    file = tmp_path / "stacks" / "Pulumi.vision-dev.yaml"
    file.parent.mkdir()
    text = (ROOT / "stacks" / file.name).read_text().replace("config:", "config:\n  other:day: 2026-02-30", 1)
    file.write_text(text)
    assert stacks(file.parent)["vision-dev"].region == "us-west-2"
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "base")
    git(tmp_path, "mv", "stacks/Pulumi.vision-dev.yaml", "stacks/Pulumi.Vision-dev.yaml")
    git(tmp_path, "commit", "-qm", "another name, but for its case")
    monkeypatch.setattr(project, "ROOT", tmp_path)
    monkeypatch.setattr("ops.affected.ROOT", tmp_path)
    gone = removed(Base(ref="main~1", commit=git(tmp_path, "rev-parse", "HEAD~1").strip()))
    assert {name: (stack.region, stack.removed) for name, stack in gone.items()} == {"vision-dev": ("us-west-2", True)}
