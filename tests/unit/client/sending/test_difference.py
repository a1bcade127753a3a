"""The line that says why a submit is another job than an earlier one of its name."""

from __future__ import annotations

import json

import pytest

from tests.unit.client_fakes import pipeline
from tidemill import layout
from tidemill.cli.commands.run import local_pipeline


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "project" / "sharp.py").write_text("import near\ndef f(uri):\n    return 1\n")
    (tmp_path / "project" / "near.py").write_text("")
    return tmp_path / "project"


class Sender:
    """Sends jobs of one name, and keeps what was said of them."""

    def __init__(self, target):
        self.target, self.said, self.jobs = target, [], []

    def send(self, command=None, items=("a", "b"), **settings):
        said: list[str] = []
        self.jobs.append(self.target.submit(command, items, name="sharp", log=said.append, **settings))
        lines = [line for line in said if " differs from " in line or " also the name " in line]
        assert len(lines) <= 1
        return lines[0] if lines else None

    def line(self, why, command="tidemill run --job"):
        before, now = self.jobs[-2:]
        return f"{now.id} differs from {before.id}: {why}; `{command} {before.id}"


@pytest.fixture
def here(folder, tmp_path):
    return Sender(local_pipeline((tmp_path / "store").as_uri(), 1))


def test_files_of_a_function_are_named_with_their_lines(here, folder):
    assert here.send(function="sharp:f") is None
    assert here.send(function="sharp:f") is None
    (folder / "sharp.py").write_text("import near, more\ndef f(uri):\n    # why\n    return 1\n")
    (folder / "more.py").write_text("")
    assert here.send(function="sharp:f").startswith(here.line("sharp.py (2 lines), more.py (new)"))
    (folder / "sharp.py").write_text("def f(uri):\n    return 1\n")
    assert here.send(function="sharp:f").startswith(here.line("sharp.py (2 lines), more.py (gone), near.py (gone)"))


def test_files_and_inputs_of_a_command_are_named_as_they_are_typed(here, folder):
    (folder / "ref.txt").write_text("1")
    typed = {"command": ["python3", "sharp.py", "{uri}"], "inputs": {"ref": "ref.txt"}}
    here.send(**typed)
    (folder / "near.py").write_text("1")
    (folder / "ref.txt").write_text("2")
    assert here.send(**typed).startswith(here.line("near.py, input ref"))


def test_settings_are_named_by_their_keywords(here):
    here.send(["true", "{uri}"])
    line = here.send(["true", "{uri}", "x"], attempts=5, env={"A": "1"}, chunk_size=1)
    assert line.startswith(here.line("`chunk_size=1` (none there), `attempts=5` (3 there), command, env"))
    line = here.send(["true", "{uri}", "x"], ["a"], attempts=5, env={"A": "1"}, chunk_size=1, cpus=0.5, timeout="2h")
    said = "items (1, 2 there), `timeout_seconds=7200` (3600 there), `cpus=0.5` (1 there)"
    assert line.startswith(here.line(said))
    line = here.send(["true"], ["b"], tags={"a": "b"})
    assert line.startswith(here.line("items, no chunk_size (1 there), `attempts=3` (5 there), command and 3 more"))


def test_a_job_that_is_sent_again_by_force_differs_in_nothing(here):
    here.send(["true", "{uri}"])
    first = here.jobs[0].id
    assert here.send(["true", "{uri}"], force=True) == (
        f"sharp is also the name of {first}; from now on it means {here.jobs[1].id}."
    )


def test_a_function_by_value_is_named(folder):
    target = Sender(pipeline(max_spec=6)[0])

    def made(more):
        def measure(uri):
            return more

        return measure

    target.send(function=made(1), queue="cpu")
    line = target.send(function=made(2), queue="cpu")
    assert line == target.line("measure", "tidemill wait") + "` goes on with that one."


def test_a_job_of_an_earlier_version_is_compared_by_its_spec(here, folder, tmp_path):
    here.send(function="sharp:f")
    (tmp_path / "store" / layout.identity(here.jobs[0].id)).unlink()
    (folder / "near.py").write_text("1")
    assert here.send(function="sharp:f").startswith(here.line("code"))


@pytest.mark.parametrize("damage", ["package", "names"])
def test_what_another_person_wrote_into_a_job_harms_nobody(here, folder, tmp_path, damage):
    here.send(function="sharp:f")
    first = here.jobs[0]
    if damage == "package":
        (tmp_path / "store" / layout.code(first.id, first.spec.code)).write_bytes(b"\x28\xb5\x2f\xfd no zstandard")
    else:
        marks = {"items": "x", "files": {"\x1b[2J\nsharp.py": "0", "../../etc/passwd": "1"}}
        (tmp_path / "store" / layout.identity(first.id)).write_text(json.dumps(marks))
    (folder / "sharp.py").write_text("def f(uri):\n    return 2\n")
    line = here.send(function="sharp:f")
    assert line.isprintable()
    assert "sharp.py" in line


def test_lines_of_a_large_change_are_not_counted_and_those_of_a_large_file_are(here, folder):
    many = ["    0,"] * 2000
    text = "\n".join(["a = [", *many, "    1,", *many, "]", "def f(uri):", "    return 1"])
    (folder / "sharp.py").write_text(text)
    here.send(function="sharp:f")
    (folder / "sharp.py").write_text(text.replace("    1,", "    2,"))
    assert here.send(function="sharp:f").startswith(here.line("sharp.py (1 line)"))
    (folder / "sharp.py").write_text(text.replace("    0,", "    3,"))
    assert here.send(function="sharp:f").startswith(here.line("sharp.py"))
