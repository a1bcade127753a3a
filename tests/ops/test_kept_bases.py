"""States of bases in the user's cache folder. tests/engine/test_review.py compares reviews with and without one."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

from ops import base_stack, git, kept_bases, project
from ops.kept_bases import KeptBase
from ops.review.document import Base
from tests.ops.test_git import checkout, run  # noqa: F401

KEPT = KeptBase('{"deployment": {}}', {"storage/projects/_/buckets/b": {"name": "b"}, "x": None})
NAME = 64 * "a"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tidemill" / "bases"


def test_what_is_kept_is_read_again_and_only_its_user_may(folder):
    assert kept_bases.read(NAME) is None
    kept_bases.write(NAME, KEPT)
    assert kept_bases.read(NAME) == KEPT
    assert (folder.stat().st_mode & 0o777, (folder / NAME).stat().st_mode & 0o777) == (0o700, 0o600)
    assert [each.name for each in folder.iterdir()] == [NAME]


@pytest.mark.parametrize("keep", [0, 1, 60, 70, -1])
def test_a_damaged_one_is_not_trusted(folder, keep):
    kept_bases.write(NAME, KEPT)
    (folder / NAME).write_bytes((folder / NAME).read_bytes()[:keep])
    assert kept_bases.read(NAME) is None
    kept_bases.write(NAME, KEPT)
    assert kept_bases.read(NAME) == KEPT


def test_a_changed_byte_another_name_and_another_writer_are_not_trusted(folder):
    kept_bases.write(NAME, KEPT)
    whole = (folder / NAME).read_bytes()
    for place in range(len(whole)):
        (folder / NAME).write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert kept_bases.read(NAME) is None, place
    (folder / NAME).write_bytes(whole)
    (folder / NAME).rename(folder / "other")
    assert kept_bases.read("other") is None
    (folder / NAME).write_bytes(whole)
    assert kept_bases.read(NAME) == KEPT
    (folder / NAME).chmod(0o620)
    assert kept_bases.read(NAME) is None


def test_what_was_used_longest_ago_makes_room(folder, monkeypatch):
    for age, name in enumerate("abc"):
        kept_bases.write(name, KEPT)
        os.utime(folder / name, (age, age))
    assert kept_bases.read("a") == KEPT, "which uses it"
    monkeypatch.setattr(kept_bases, "_MOST_BYTES", 3 * (folder / "a").stat().st_size)
    kept_bases.write("d", KEPT)
    assert sorted(each.name for each in folder.iterdir()) == ["a", "c", "d"]


def test_reviews_at_once_do_not_disturb_each_other(monkeypatch):
    monkeypatch.setattr(kept_bases, "_MOST_BYTES", 1000)

    def turn(number: int) -> bool:
        name = str(number % 7)
        kept_bases.write(name, KEPT)
        return kept_bases.read(name) in (None, KEPT)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(turn, range(300)))


def test_a_cache_that_cannot_be_written_stops_nothing(folder):
    folder.parent.mkdir(parents=True)
    folder.write_text("no folder")
    kept_bases.write(NAME, KEPT)
    assert kept_bases.read(NAME) is None


def test_a_user_without_a_home_has_no_cache(monkeypatch):
    """As in a container that runs as a user of no name."""
    monkeypatch.delenv("XDG_CACHE_HOME")

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    kept_bases.write(NAME, KEPT)
    assert kept_bases.read(NAME) is None


@pytest.mark.parametrize(("value", "used"), [(None, True), ("", True), ("false", True), ("true", False), ("1", False)])
def test_ci_neither_reads_nor_writes_one(monkeypatch, value, used):
    monkeypatch.delenv("CI", raising=False)
    if value is not None:
        monkeypatch.setenv("CI", value)
    assert kept_bases.used() is used


def test_the_key_follows_all_that_decides_the_state(checkout, monkeypatch, tmp_path):  # noqa: F811
    def key(commit: str = "change~1", stack: str = "vision-dev") -> str:
        return kept_bases.key(Base(ref=commit, commit=git.base(commit).commit), stack)

    keys = [key(), key("change"), key(stack="vision-prod")]
    run(checkout, "switch", "-q", "change")
    (checkout / "docs.md").write_text("nothing that a program reads\n")
    run(checkout, "add", ".")
    run(checkout, "commit", "-qm", "docs")
    assert key("change") == keys[1], "other files decide nothing"
    (checkout / "stacks" / "Pulumi.vision-dev.yaml").write_text("config: {tidemill:team: other}\n")
    run(checkout, "commit", "-qam", "stack")
    keys.append(key("change"))
    (checkout / "bootstrap").mkdir()
    for text in ("config: {tidemill-bootstrap:cloud: aws}\n", "config: {tidemill-bootstrap:cloud: gcp}\n"):
        (checkout / "bootstrap" / "Pulumi.account.yaml").write_text(text)
        run(checkout, "add", ".")
        run(checkout, "commit", "-qm", "account")
        keys.append(key("change", "bootstrap/account"))
    for part, value in (("sys.version", "3.99"), ("_engine", lambda: "v9"), ("_VERSION", "0")):
        with monkeypatch.context() as patched:
            patched.setattr(f"ops.kept_bases.{part}", value)
            keys.append(key())
    tool = tmp_path / "here" / "localcloud"
    tool.mkdir(parents=True)
    for name in kept_bases._TOOLS[1:]:
        file = tmp_path / "here" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("")
    monkeypatch.setattr(kept_bases, "_HERE", tmp_path / "here")
    for text in ("one", "two"):
        (tool / "cloud.py").write_text(text)
        keys.append(key())
    monkeypatch.setattr("importlib.metadata.distributions", list)
    keys.append(key())
    assert len({*keys}) == len(keys)


def test_a_commit_that_git_does_not_have_has_no_key():
    assert project.ROOT.is_dir()
    with pytest.raises(click.ClickException, match="git ls-tree: Not a valid object name nothing"):
        kept_bases.key(Base(ref="nothing", commit="nothing"), "vision-dev")


def test_what_python_writes_meanwhile_does_not_change_the_key(checkout, monkeypatch, tmp_path):  # noqa: F811
    """Another review that starts writes `serve.cpython-311.pyc.139`, and puts it in place a moment later."""
    base = Base(ref="change~1", commit=git.base("change~1").commit)
    monkeypatch.setattr(kept_bases, "_HERE", tmp_path / "here")
    monkeypatch.setattr(kept_bases, "_TOOLS", ("localcloud",))
    compiled = tmp_path / "here" / "localcloud" / "__pycache__"
    compiled.mkdir(parents=True)
    (compiled.parent / "serve.py").write_text("")
    before = kept_bases.key(base, "vision-dev")
    (compiled / "serve.cpython-311.pyc.139").write_text("half")
    assert kept_bases.key(base, "vision-dev") == before


ENGINE = """#!/bin/sh
echo "$1 $2" >> {log}
case "$1 $2" in
  "up "*) ;;
  "stack export") {export} ;;
  "stack import") {take} ;;
esac
"""
"""Commands of the engine, of which a fault takes one."""
STATE = '{"deployment": {"resources": [{"urn": "urn:one", "protect": true}]}}'


@pytest.fixture
def engine(tmp_path, monkeypatch):
    """Brings a base up by an engine that does as told, and returns the engine's commands."""
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(kept_bases, "key", lambda *_: NAME)
    monkeypatch.setattr(base_stack, "_same_place", lambda *_: None)

    def up(export: str = f"echo '{STATE}'", take: str = "true") -> list[str]:
        log, script = tmp_path / "log", tmp_path / "pulumi"
        log.write_text("")
        script.write_text(ENGINE.format(log=log, export=export, take=take))
        script.chmod(0o755)
        cloud = SimpleNamespace(env={"PATH": f"{tmp_path}:/bin:/usr/bin"}, url="http://127.0.0.1:7")
        base = Base(ref="v1", commit="v1")
        try:
            assert base_stack.bring_up(base, "vision-dev", tmp_path, tmp_path, cloud) == {"urn:one"}  # type: ignore[arg-type]
        finally:
            told[:] = log.read_text().splitlines()
        return told

    told: list[str] = []
    return up


def test_a_base_that_came_up_is_not_brought_up_again(engine):
    assert engine() == ["up --yes", "stack export", "stack import"]
    assert engine() == ["stack import"]


@pytest.mark.parametrize(
    "fault",
    [
        {"export": "echo 'error: no space left on device' >&2; exit 255"},
        {"export": 'echo \'{"deployment": {"reso\'; exit 1'},
        {"take": "echo 'error: bad state' >&2; exit 255"},
    ],
    ids=["no export", "half an export", "no import"],
)
def test_a_state_that_the_engine_did_not_tell_or_take_is_not_kept(engine, folder, fault):
    """It was, and every later review of the base then ended with a traceback."""
    with pytest.raises(click.ClickException, match=r"vision-dev: the engine does not (tell|take) the state of v1"):
        engine(**fault)
    assert not list(folder.glob("*"))
    assert engine() == ["up --yes", "stack export", "stack import"]


def test_a_tool_that_changes_while_the_base_comes_up_decides_the_next_key(engine, folder, monkeypatch):
    """The state is of the tool that began."""
    names = iter(["before", "after"])
    monkeypatch.setattr(kept_bases, "key", lambda *_: next(names))
    engine()
    assert [each.name for each in folder.iterdir()] == ["before"]
