"""The commit that a change is compared with. Real git; the engine is a script."""

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
import yaml
from click.testing import CliRunner

from ops import base_stack, git, project
from ops.preview import preview
from ops.review.document import Base

STACK = "config: {tidemill:team: vision, tidemill:environment: dev}\nencryptionsalt: v1:mine\n"


def run(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=A", "-c", "user.email=a@example.com", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


@pytest.fixture
def checkout(tmp_path, monkeypatch) -> Path:
    """A branch that left main, which has moved on since."""
    folder = tmp_path / "checkout"
    (folder / "stacks").mkdir(parents=True)
    (folder / "stacks" / "Pulumi.vision-dev.yaml").write_text(STACK)
    (folder / "__main__.py").write_text("base\n")
    run(folder, "init", "-q", "-b", "main")
    run(folder, "add", ".")
    run(folder, "commit", "-qm", "base")
    run(folder, "checkout", "-qb", "change")
    (folder / "__main__.py").write_text("change\n")
    run(folder, "commit", "-qam", "change")
    run(folder, "checkout", "-q", "main")
    run(folder, "commit", "-qm", "others", "--allow-empty")
    run(folder, "checkout", "-q", "change")
    monkeypatch.setattr(project, "ROOT", folder)
    return folder


def test_the_base_is_where_the_branch_left_and_its_files_are_laid_out(checkout, tmp_path):
    base = git.base("main")
    assert base.commit == run(checkout, "rev-parse", "change~1")
    assert str(base) == f"main ({base.commit[:9]})"
    assert git.base("HEAD").commit == run(checkout, "rev-parse", "change")
    assert str(git.base(base.commit)) == base.commit
    assert base_stack.lay_out(base, "vision-dev", tmp_path / "one")
    assert (tmp_path / "one" / "__main__.py").read_text() == "base\n"
    settings = yaml.safe_load((tmp_path / "one" / "stacks" / "Pulumi.vision-dev.yaml").read_text())
    assert "encryptionsalt" not in settings, "it belongs to another backend"
    assert not base_stack.lay_out(base, "audio-dev", tmp_path / "two")


def test_a_project_in_a_folder_of_a_larger_checkout_names_its_own_files(tmp_path, monkeypatch):
    folder = tmp_path / "infra" / "tidemill"
    file = folder / "stacks" / "Pulumi.vision-dev.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(STACK)
    run(tmp_path, "init", "-q", "-b", "main")
    run(tmp_path, "add", ".")
    run(tmp_path, "commit", "-qm", "base")
    file.unlink()
    (tmp_path / "app.py").write_text("of another project\n")
    run(tmp_path, "add", ".")
    run(tmp_path, "commit", "-qm", "change")
    (folder / "new.py").write_text("not committed\n")
    monkeypatch.setattr(project, "ROOT", folder)
    base = git.base("HEAD~1")
    assert git.changed(base.commit) == ["stacks/Pulumi.vision-dev.yaml"]
    assert git.differing(base.commit) == ["new.py", "stacks/Pulumi.vision-dev.yaml"]
    assert git.content(base.commit, "stacks/Pulumi.vision-dev.yaml") == STACK


@pytest.mark.parametrize(
    ("ref", "says"),
    [
        ("no-such", "--base no-such: git does not know this commit, branch or tag. In CI, fetch the whole history"),
        ("--output=x", "--base --output=x: git does not know this commit"),
        ("release", "--base release: git does not know this commit. Did you mean origin/release?"),
        ("other", "--base other: it has no commit in common with HEAD. In CI, fetch the whole history"),
    ],
)
def test_a_base_that_cannot_be_used_is_told(checkout, ref, says):
    run(checkout, "update-ref", "refs/remotes/origin/release", "HEAD")
    run(checkout, "update-ref", "refs/heads/other", run(checkout, "commit-tree", "-m", "alone", "HEAD^{tree}"))
    with pytest.raises(click.UsageError, match="^" + says.replace("(", r"\(")):
        git.base(ref)


def test_without_a_checkout_that_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(project, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(click.UsageError, match="--base main: there is no commit to compare with here: not a git repos"):
        git.base("main")


def _lose(checkout: Path, name: str) -> None:
    """Remove an object, as a clone without trees or blobs that cannot fetch them, or a damaged one, lacks it."""
    digest = run(checkout, "rev-parse", name)
    (checkout / ".git" / "objects" / digest[:2] / digest[2:]).unlink()


def test_a_comparison_that_git_cannot_make_is_no_empty_one(checkout):
    """It was: CI then previewed nothing and the review had no guardrails to tell of."""
    base = git.base("main").commit
    _lose(checkout, "main^{tree}")
    for ask in (
        lambda: git.changed(base),
        lambda: git.differing(base),
        lambda: git.extract(base, project.CODE, checkout / "out"),
        lambda: git.content(base, "__main__.py"),
    ):
        with pytest.raises(click.ClickException, match=r"git (diff|ls-tree): "):
            ask()


def test_a_file_that_git_cannot_read_is_not_a_missing_one(checkout):
    base = git.base("main").commit
    assert git.content(base, "no-such") is None
    assert git.content(base, "stacks") is None
    assert git.content(base, "__main__.py") == "base\n"
    _lose(checkout, f"{base}:__main__.py")
    with pytest.raises(click.ClickException, match="git cat-file: "):
        git.content(base, "__main__.py")


def test_names_that_are_not_utf8_are_listed(checkout):
    for name in (b"caf\xe9.txt", b"stacks/new\nline.yaml"):
        Path(os.fsdecode(os.fsencode(checkout) + b"/" + name)).write_text("x\n")
    run(checkout, "add", ".")
    run(checkout, "commit", "-qm", "names")
    (checkout / os.fsdecode(b"n\xe9w")).write_text("x\n")
    changed = ["__main__.py", "caf\N{REPLACEMENT CHARACTER}.txt", "stacks/new\nline.yaml"]
    assert git.changed("main") == changed
    assert git.differing(git.base("main").commit) == [*changed[:2], "n\N{REPLACEMENT CHARACTER}w", changed[2]]


def test_a_git_that_hangs_is_told(checkout, monkeypatch, tmp_path):
    script = tmp_path / "git"
    script.write_text("#!/bin/sh\nexec sleep 20\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(git, "_TIMEOUT_SECONDS", 0.2)
    with pytest.raises(click.ClickException, match=r"git rev-parse did not end within 0.2 s\."):
        git.changed("main")


def test_an_account_is_what_it_is_compared_with_on_a_login():
    done = CliRunner().invoke(preview, ["--stack", "vision-dev", "--on", "login", "--base", "main"])
    assert done.exit_code == 2
    assert "--base is for localcloud; --on login compares with your account." in done.output


@pytest.mark.parametrize(
    ("now", "says"),
    [
        ({}, r"vision-dev: the base v1 does not come up .*: tidemill:queues: wrong\. Name another commit with --base"),
        ({"tidemill:cloud": "gcp"}, "vision-dev: it is on aws in v1 and on gcp now. A stack cannot move; make another"),
    ],
)
def test_a_base_that_does_not_come_up_is_told(tmp_path, monkeypatch, now, says):
    monkeypatch.setenv("CI", "true")
    script = tmp_path / "pulumi"
    script.write_text("#!/bin/sh\necho 'error: update failed'\necho 'error: tidemill:queues: wrong' >&2\nexit 255\n")
    script.chmod(0o755)
    for name, more in (("base", {}), ("now", now)):
        (tmp_path / name / "stacks").mkdir(parents=True)
        settings = {"config": {"tidemill:team": "vision", **more}, "encryptionsalt": "v1:x"}
        project.write_settings(tmp_path / name / "stacks" / "Pulumi.vision-dev.yaml", settings)
    cloud = SimpleNamespace(env={"PATH": f"{tmp_path}:/bin:/usr/bin"})
    with pytest.raises(click.ClickException, match=says):
        base_stack.bring_up(Base(ref="v1", commit="v1"), "vision-dev", tmp_path / "base", tmp_path / "now", cloud)  # type: ignore[arg-type]


def test_what_a_stack_file_names_and_others_own():
    named = {
        "read": ["gs://raw/x/", "gs://raw"],
        "secret": "projects/p/secrets/token",
        "key": "projects/p/locations/us/keyRings/r/cryptoKeys/k",
        "network": {"network": "projects/p/global/networks/n", "subnetwork": "projects/p/regions/r/subnetworks/s"},
        "zones": 3,
    }
    assert base_stack.foreign(named) == {
        "storage/projects/_/buckets/raw",
        "secretmanager/projects/p/secrets/token",
        "cloudkms/projects/p/locations/us/keyRings/r/cryptoKeys/k",
        "compute/projects/p/global/networks/n",
        "compute/projects/p/regions/r/subnetworks/s",
    }
