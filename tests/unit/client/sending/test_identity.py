"""The same job or another one, as docs/identity.md says: by edits of files in any order. Not proved here: that items
run (tests/worker/test_local_run.py, tests/worker/map)."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.client_fakes import pipeline
from tidemill import layout
from tidemill.cli.commands.run import local_pipeline
from tidemill.client import Job, Pipeline
from tidemill.client.items.local_files import Reading
from tidemill.client.sending import identity
from tidemill.client.sending.identity import known_identity

FILES = {
    "sharp.py": "import deeper, spaces.part\nimport numpy\ndef measure(uri): return 1\n",
    "deeper.py": "from kit import tool\n",
    "kit/__init__.py": "",
    "kit/tool.py": "from . import table\n",
    "kit/table.py": "",
    "kit/table.csv": "a,b\n",
    "spaces/part.py": "from . import near\n",
    "spaces/near.py": "",
    "script.py": "import importlib\nimportlib.import_module('deeper')\n",
    "conf.json": "{}",
    "drive.py": "import sharp\n",
    "unrelated.py": "",
    "config.yaml": "",
    "look.ipynb": "{}",
    "kit/look.ipynb": "{}",
    "out/0/result.txt": "",
    "ref/one": "",
    "ref/below/two": "",
}
MODULES = {"deeper.py", "kit/__init__.py", "kit/tool.py", "kit/table.py", "kit/table.csv"}
FUNCTION = {"sharp.py", "spaces/part.py", "spaces/near.py"} | MODULES
SCRIPT = {"script.py", "conf.json"} | MODULES
ITEMS = ["a", "b"]
Send = Callable[[Pipeline], Job]


def of_function(target: Pipeline) -> Job:
    return target.submit(None, ITEMS, function="sharp:measure", name="j", queue=_queue(target))


def of_script(target: Pipeline) -> Job:
    command = [sys.executable, os.path.abspath("script.py"), f"--config={os.path.abspath('conf.json')}", "{input}"]
    return target.submit(command, ITEMS, name="j", inputs={"ref": "ref"})


def of_shell(target: Pipeline) -> Job:
    text = "python3 script.py conf.json > out/0/result.txt; cat $TIDEMILL_INPUT"
    return target.submit(["sh", "-c", text], ITEMS, name="j")


def of_folder(target: Pipeline) -> Job:
    return target.submit(["python3", "script.py", "{uri}"], ITEMS, name="j", code=".", queue=_queue(target))


def of_notebook(target: Pipeline) -> Job:
    return target.submit(["papermill", "look.ipynb", "{uri}"], ITEMS, name="j", code=".", queue="cpu")


def _queue(target: Pipeline) -> str | None:
    return "cpu" if "cpu" in target.descriptor.queues else None


PROGRAMS: dict[str, tuple[Send, bool, set[str]]] = {
    "a function here": (of_function, True, FUNCTION),
    "a function in a cloud": (of_function, False, FUNCTION),
    "a script and an input": (of_script, True, SCRIPT | {"ref/one", "ref/below/two"}),
    "code for a shell": (of_shell, True, SCRIPT),
    "a folder here": (of_folder, True, {name for name in FILES if not name.endswith(".ipynb")}),
    "a folder in a cloud": (of_folder, False, {name for name in FILES if not name.endswith(".ipynb")}),
    "a notebook as a program": (of_notebook, False, FILES.keys() - {"kit/look.ipynb"}),
}


@pytest.fixture
def project(tmp_path, monkeypatch):
    for name, text in FILES.items():
        path = tmp_path / "my project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.chdir(tmp_path / "my project")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "my project"


def opened(tmp_path: Path, local: bool) -> Pipeline:
    return local_pipeline((tmp_path / "store").as_uri(), 1) if local else pipeline(max_spec=6)[0]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", PROGRAMS)
def test_another_job_exactly_where_a_file_differs_that_it_uses(name, seed, project, tmp_path):
    """Each state of the files that count has one job, which comes back when they do."""
    send, local, used = PROGRAMS[name]
    target, chosen = opened(tmp_path, local), random.Random(seed)
    counts = dict.fromkeys(FILES, 0)
    jobs: dict[tuple[int, ...], str] = {}
    for _ in range(25):
        for edited in chosen.sample(sorted(FILES), chosen.randint(1, 2)):
            counts[edited] = chosen.randrange(2)
            mark = f"\n# {counts[edited]}\n" if edited.endswith(".py") else f" {counts[edited]}"
            (project / edited).write_text(FILES[edited] + mark * counts[edited])
        state = tuple(counts[one] for one in sorted(used))
        job = send(target).id
        assert jobs.setdefault(state, job) == job, counts
    assert len(set(jobs.values())) == len(jobs) > 1


def test_what_is_unchanged_is_not_read_again(project, tmp_path, monkeypatch):
    for path in project.rglob("*"):
        # A file that was just written is not trusted to stay.
        os.utime(path, (1e9, 1e9))
    of_script(opened(tmp_path, True))
    read: list[str] = []
    monkeypatch.setattr(Reading, "sha256", lambda self: read.append(self._file.path))
    of_script(opened(tmp_path, True))
    assert read == []
    (project / "ref" / "one").write_text("x")
    of_script(opened(tmp_path, True))
    assert [os.path.basename(path) for path in read] == ["one"]


@pytest.mark.parametrize("changed", ["kit/table.csv", "ref/one"])
def test_a_job_of_an_earlier_version_goes_on_until_its_program_or_an_input_changes(changed, project, tmp_path):
    target = opened(tmp_path, True)
    job = of_script(target)
    # An earlier version named it without its files, and wrote none of them down.
    marks = known_identity(target.store, job.id)
    assert marks is not None
    draft = job.spec.model_copy(update={"code": None})
    old = next(identity._ids(draft, marks, None))
    target.store.put(layout.spec(old), job.spec.model_copy(update={"job": old}).model_dump_json().encode())
    (tmp_path / "store" / layout.spec(job.id)).unlink()
    (tmp_path / "store" / layout.manifest(old)).mkdir(parents=True)
    for file in (tmp_path / "store" / layout.manifest(job.id)).iterdir():
        (tmp_path / "store" / layout.manifest(old) / file.name).write_bytes(file.read_bytes())
    assert of_script(target).id == old
    (project / changed).write_text("later")
    assert of_script(target).id != old


def test_two_names_for_one_folder_of_an_input_are_told_by_content(project, tmp_path):
    target = opened(tmp_path, True)
    (project / "ref" / "link").symlink_to("one")
    first = of_script(target).id
    (project / "ref" / "one").write_text("other")
    assert of_script(target).id != first
