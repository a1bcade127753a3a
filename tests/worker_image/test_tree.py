"""The worker's tree in roots that lack everything. What it cannot prove: other kernels, architectures and container
runtimes, and the images of real teams."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.worker_image.roots import START, Root, run_chunk
from tidemill.descriptor import WorkerExit

pytestmark = pytest.mark.namespaces

DOCUMENTED = {
    "TIDEMILL_CACHE", "TIDEMILL_INDEX", "TIDEMILL_INPUT", "TIDEMILL_OUTPUT", "TIDEMILL_OUTPUT_URI",
    "TIDEMILL_PORT_BASE", "TIDEMILL_URI",
}  # fmt: skip
OTHERS = {
    "LC_ALL": "de_DE.UTF-8",
    "LD_LIBRARY_PATH": "/opt/cuda/lib",
    "PYTHONHOME": "/opt/conda",
    "PYTHONPATH": "/app",
    "PYTHONSTARTUP": "/app/start.py",
    "PATH": "/bin",
}
"""What images set, and what would break or change a Python that heeds it."""

FUNCTION = """
import json, os, sys

def look(output):
    with open("/proc/self/maps") as maps:
        libraries = sorted({line.split()[-1] for line in maps if "/tidemill/" in line})
    found = {
        "prefix": sys.prefix,
        "locale": os.environ["LC_ALL"],
        "ours": [path for path in sys.path if path.startswith("/tidemill")],
        "libraries": libraries,
    }
    with open(os.path.join(output, "found.json"), "w") as file:
        json.dump(found, file)
"""


def seen(job) -> list[dict]:
    return [json.loads(job.outputs(outcome)["seen.json"]) for outcome in job.outcomes()]


@pytest.mark.parametrize("user", [0, 1000])
@pytest.mark.parametrize("readonly", [True, False])
class TestAStaticProgramAndNothingElse:
    def test_its_items_run(self, container, program, team, user, readonly):
        root = container(user, readonly)
        shutil.copy(program, root.folder / "program")
        job, _, done = run_chunk(root, team, ["/program", "{input}", "{output}"])
        assert done.returncode == WorkerExit.DONE, done.stdout + done.stderr
        assert [outcome.status for outcome in job.outcomes()] == ["succeeded"] * 2
        assert [job.outputs(outcome)["copy"] for outcome in job.outcomes()] == [b"item 0", b"item 1"]
        assert [each["user"] for each in seen(job)] == [user] * 2
        assert done.stderr == ""


@pytest.mark.parametrize("others", [{}, OTHERS], ids=["bare", "image"])
def test_a_program_sees_the_containers_environment(container, program, team, others):
    root = container()
    shutil.copy(program, root.folder / "program")
    job, given, done = run_chunk(root, team, ["/program", "{input}", "{output}"], **others)
    assert done.returncode == WorkerExit.DONE, done.stdout + done.stderr
    for each in seen(job):
        environment = dict(line.split("=", 1) for line in each["environment"])
        ours = {name for name in environment if name.startswith("TIDEMILL_")}
        theirs = {name: value for name, value in given.items() if not name.startswith("TIDEMILL_")}
        assert {name: value for name, value in environment.items() if name not in ours} == theirs
        assert ours <= DOCUMENTED
        assert not [value for value in environment.values() if "/tidemill" in value]


@pytest.mark.parametrize("user", [0, 1000])
def test_nothing_at_all(container, team, user):
    """There is no program to run, and the worker reports that."""
    job, _, done = run_chunk(container(user), team, ["python3", "-c", "print(1)"])
    assert done.returncode == WorkerExit.DONE, done.stdout + done.stderr
    assert [(outcome.reason, outcome.error) for outcome in job.outcomes()] == [
        ("start", "python3 did not start: No such file or directory")
    ] * 2


def test_a_function_runs_in_the_images_own_python(container, team):
    root = container()
    system = [Path("/usr"), Path("/lib"), Path("/lib64"), Path("/bin"), Path(sys.base_prefix)]
    root.shown = {**root.shown, **{str(each): each.resolve() for each in system if each.exists()}}
    (team.root / "app").mkdir()
    (team.root / "app" / "work.py").write_text(FUNCTION)
    item = team.root / "items" / "0"
    item.write_text("item")
    job = team.job([str(item)], None, function="work:look")
    path = f"{sys.base_prefix}/bin:/usr/bin:/bin"
    environment = job.environment(PATH=path, PYTHONPATH=str(team.root / "app"), LC_ALL="POSIX")
    done = root.run(START, environment)
    assert done.returncode == WorkerExit.DONE, done.stdout + done.stderr
    (outcome,) = job.outcomes()
    assert outcome.status == "succeeded", outcome.error
    found = json.loads(job.outputs(outcome)["found.json"])
    assert found == {"prefix": sys.base_prefix, "locale": "POSIX", "ours": [], "libraries": []}


class TestTheEntry:
    def test_it_copies_itself_whole(self, container, built, tmp_path):
        target = tmp_path / "volume"
        target.mkdir()
        root = container()
        root.binds = {**root.binds, "/volume": target}
        for _ in range(2):  # the second finds it there
            done = root.run(["/tidemill/tidemill-worker", "copy", "/volume/worker"], {})
            assert done.returncode == 0, done.stderr
        copied = {path.relative_to(target / "worker") for path in (target / "worker").rglob("*")}
        assert copied == {path.relative_to(built.tree) for path in built.tree.rglob("*")} | {
            path.relative_to(target / "worker") for path in [target / "worker" / ".lock"]
        }
        shown = Root(tmp_path / "root", {}, {"/tidemill": target / "worker"})
        done = shown.run(START, {})
        assert done.returncode == WorkerExit.STOPPED
        assert "TIDEMILL_STORE" in done.stdout

    def test_what_was_cut_off_is_copied_again(self, container, built, tmp_path):
        target = tmp_path / "volume" / "worker"
        target.mkdir(parents=True)
        (target / "lib").mkdir()
        (target / "lib" / "loader").write_text("half")
        root = container()
        root.binds = {"/volume": tmp_path / "volume"}
        assert root.run(["/tidemill/tidemill-worker", "copy", "/volume/worker"], {}).returncode == 0
        assert (target / "lib/loader").read_bytes() == (built.tree / "lib/loader").read_bytes()

    def test_a_folder_that_cannot_be_written(self, container):
        done = container().run(["/tidemill/tidemill-worker", "copy", "/nowhere"], {})
        assert done.returncode == 1
        assert done.stderr == "tidemill-worker: mkdir /nowhere: read-only file system\n"
