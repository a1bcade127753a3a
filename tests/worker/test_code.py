"""Shipped code on a machine: a store on disk, an array lease, real workers, pip without a network.

What this cannot prove: that an image's own pip reaches its index from a machine of the cloud.
"""

import fcntl
import io
import json
import os
import subprocess
import sys
import tarfile
import zipfile

import pytest
import zstandard

from tests.stored import submitted
from tests.worker.containers import TeamJob, ran, until
from tidemill import layout
from tidemill.code import pack, upload
from tidemill.descriptor import WorkerExit
from tidemill.ledger.ledger import START_FAILURES
from tidemill.worker.items import code as worker_code

WHEEL = {
    "tinypkg.py": "VALUE = 42\n",
    "tinypkg-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tinypkg\nVersion: 1.0\n",
    "tinypkg-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "tinypkg-1.0.dist-info/entry_points.txt": "[console_scripts]\ntiny = tinypkg:__name__.upper\n",
    "tinypkg-1.0.dist-info/RECORD": "",
}


def ship(team, items, files, *, chunk_size=100, **spec):
    """A job with a folder of code, as `submit` leaves it in the store."""
    folder = team.root / "src"
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
        (folder / name).chmod(0o755 if name.endswith(".sh") else 0o644)
    packed = pack(folder)
    job = submitted(team.store, items, chunk_size, code=packed.sha256, **spec)
    upload(team.store, job.spec.job, packed)
    return TeamJob(**vars(job), team=team)


@pytest.fixture
def wheelhouse(tmp_path):
    folder = tmp_path / "wheels"
    folder.mkdir()
    with zipfile.ZipFile(folder / "tinypkg-1.0-py3-none-any.whl", "w") as wheel:
        for name, text in WHEEL.items():
            wheel.writestr(name, text)
    return f"file://{folder}"


def store_file(job):
    return job.team.root / "store" / layout.code(job.spec.job, job.spec.code)


def cached(team):
    """Folders of code on the machine."""
    return sorted(p for p in (team.scratch / f"code-{os.getuid()}").iterdir() if p.is_dir())


# ---- programs ---------------------------------------------------------------------------------------------------


SHOW = """import json, os, sys
import helper
facts = {"helper": helper.X, "code": os.environ["TIDEMILL_CODE"], "cwd": os.getcwd(), "path": sys.path[0]}
open(sys.argv[1] + "/facts.json", "w").write(json.dumps(facts))
"""


def test_a_command_finds_the_code_and_runs_in_a_folder_of_its_own(team):
    files = {"show.py": SHOW, "helper.py": "X = 7\n"}
    job = ship(team, ["a"], files, command=["python3", "{code}/show.py", "{output}"])
    assert job.run().code == WorkerExit.DONE
    (outcome,) = job.outcomes()
    facts = json.loads(job.outputs(outcome)["facts.json"])
    (home,) = cached(team)
    assert (facts["helper"], facts["code"], facts["path"]) == (7, f"{home}/code", f"{home}/code")
    assert facts["cwd"].endswith("/work")
    assert not facts["cwd"].startswith(str(home))


def test_a_shipped_module_runs_by_its_name_and_a_script_keeps_that_it_can_be_executed(team):
    files = {"go.sh": '#!/bin/sh\nexec python3 -m pack.tool "$1"\n', "pack/tool.py": "import sys; print(sys.argv[1])\n"}
    job = ship(team, ["one", "two"], files, command=["{code}/go.sh", "said-{uri}"], env={"PYTHONPATH": "/kept"})
    ended = job.run()
    assert [outcome.status for outcome in job.outcomes()] == ["succeeded"] * 2
    assert ended.messages(stream="stdout") == ["said-one", "said-two"]


def test_a_function_comes_from_the_code_before_what_lies_in_the_worker_s_folder(team):
    text = "import os, pathlib\ndef here(uri):\n    return [uri, str(pathlib.Path(__file__).parent), os.getcwd()]\n"
    job = ship(team, ["a", "b"], {"tests/__init__.py": "", "tests/worker.py": text}, function="tests.worker:here")
    assert job.run().code == WorkerExit.DONE
    (home,) = cached(team)
    values = [outcome.value for outcome in job.outcomes()]
    assert [value[:2] for value in values if isinstance(value, list)] == [
        ["a", f"{home}/code/tests"],
        ["b", f"{home}/code/tests"],
    ]


def test_a_job_without_code_has_no_trace_of_it(team):
    job = team.job(["a"], ["python3", "-c", "import os, sys; sys.exit('TIDEMILL_CODE' in os.environ)"])
    assert job.run().code == WorkerExit.DONE
    assert [outcome.status for outcome in job.outcomes()] == ["succeeded"]
    assert not (team.scratch / f"code-{os.getuid()}").exists()


# ---- once per machine ---------------------------------------------------------------------------------------------


def test_workers_that_come_at_once_unpack_and_install_once(team, wheelhouse):
    files = {"requirements.txt": "tinypkg==1.0\n", "use.py": "import tinypkg; print(tinypkg.VALUE)\n"}
    spec = {"command": ["python3", "{code}/use.py", "{uri}"], "wheelhouse": wheelhouse}
    job = ship(team, ["a", "b", "c"], files, chunk_size=1, **spec)
    ended = [ran(worker) for worker in [job.start(child) for child in range(3)]]
    assert [one.code for one in ended] == [WorkerExit.DONE] * 3
    said = [message for one in ended for message in one.messages()]
    assert said.count("code unpacked") == 1
    assert said.count("installing requirements.txt") == 1
    assert [message for one in ended for message in one.messages(stream="stdout", attempt=1, chunk=0)] == ["42"]
    (home,) = cached(team)
    (packages,) = (p for p in home.iterdir() if p.is_dir() and p.name != "code")
    assert sorted(p.name for p in packages.iterdir()) == ["site"]
    assert (packages / "site/bin/tiny").is_file()
    in_image = subprocess.run([sys.executable, "-c", "import tinypkg"], check=False, capture_output=True, timeout=60)
    assert in_image.returncode == 1


def test_the_cache_of_the_machine_is_used_where_there_is_one(team, tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    job = ship(team, ["a"], {"a.py": ""}, command=["python3", "{code}/a.py"])
    assert job.run(TIDEMILL_CACHE=str(cache)).code == WorkerExit.DONE
    assert (cache / f"code-{os.getuid()}" / job.spec.code / "code/a.py").is_file()


def test_what_a_killed_worker_left_half_unpacked_is_done_anew(team):
    job = ship(team, ["a"], {"a.py": "print('whole')\n"}, command=["python3", "{code}/a.py"])
    part = team.scratch / f"code-{os.getuid()}" / f"{job.spec.code}.part" / "code"
    part.mkdir(parents=True)
    (part / "a.py").write_text("raise SystemExit(1)\n")
    ended = job.run()
    assert ended.messages(stream="stdout") == ["whole"]
    assert [p.name for p in cached(team)] == [job.spec.code]


def test_a_worker_that_waits_for_another_s_unpacking_stops_when_it_is_told(team):
    job = ship(team, ["a"], {"a.py": ""}, command=["python3", "{code}/a.py"])
    folder = team.scratch / f"code-{os.getuid()}"
    folder.mkdir(parents=True)
    with (folder / f"{job.spec.code}.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        worker = job.start()
        until(lambda: str(lock.name) in opened(worker.pid), "the worker came to the lock")
        worker.terminate()
        assert ran(worker).code == WorkerExit.RECLAIMED
    assert (job.outcomes(), cached(team)) == ([], [])
    assert job.run().code == WorkerExit.DONE


def opened(pid):
    """Files that a process has open."""
    folder, found = f"/proc/{pid}/fd", set()
    for name in os.listdir(folder):
        try:
            found.add(os.readlink(f"{folder}/{name}"))
        except FileNotFoundError:
            continue
    return found


@pytest.mark.parametrize("kind", ["open", "link"])
def test_a_folder_that_others_may_write_or_have_linked_is_not_used(team, kind, tmp_path):
    job = ship(team, ["a"], {"a.py": ""}, command=["python3", "{code}/a.py"])
    folder, home = team.scratch / f"code-{os.getuid()}", tmp_path / "home"
    home.mkdir(mode=0o755)
    folder.parent.mkdir(parents=True, exist_ok=True)
    if kind == "link":
        folder.symlink_to(home)
    else:
        folder.mkdir()
        folder.chmod(0o777)
    ended = job.run()
    assert list(home.iterdir()) == []
    assert ended.code == WorkerExit.STORE_UNAVAILABLE
    assert any("can be written by others" in message for message in ended.messages(level="error"))
    assert job.outcomes() == []


# ---- code that is not what was submitted ------------------------------------------------------------------------


def changed(path):
    path.write_bytes(path.read_bytes()[:-1] + b"x")


def other_code(path):
    (path.parent / "src").mkdir()
    (path.parent / "src/a.py").write_text("print('evil')\n")
    packed = pack(path.parent / "src")
    path.write_bytes(packed.path.read_bytes())


def gone(path):
    path.unlink()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (changed, "is not what was submitted: its SHA-256 differs"),
        (other_code, "is not what was submitted: its SHA-256 differs"),
        (gone, "is not in the store any more"),
    ],
)
def test_a_tarball_that_was_changed_in_the_store_is_refused_and_the_job_says_so(team, change, says):
    job = ship(team, ["a"], {"a.py": "print('fine')\n"}, command=["python3", "{code}/a.py"])
    change(store_file(job))
    ended = job.run()
    assert ended.code == WorkerExit.STOPPED
    assert ended.messages(stream="stdout") == []
    note = job.ledger.cancellation(0)
    assert note is not None
    assert says in note["reason"]
    assert (job.outcomes(), cached(team)) == ([], [])
    # The next container of the job ends at once.
    assert job.run(child=0, delivery=2).code == WorkerExit.STOPPED


def tarball(path, *infos, fill=b""):
    with zstandard.open(path, "wb") as stream, tarfile.open(fileobj=stream, mode="w|") as tar:
        for name, changes in infos:
            info = tarfile.TarInfo(name)
            for key, value in changes.items():
                setattr(info, key, value)
            tar.addfile(info, io.BytesIO(fill * info.size) if info.isreg() else None)
    return path


@pytest.mark.parametrize(
    "infos",
    [
        [("../out.py", {})],
        [("a/../../out.py", {})],
        [("link", {"type": tarfile.SYMTYPE, "linkname": "../.."})],
        [("link", {"type": tarfile.SYMTYPE, "linkname": "/etc"})],
        [("hard", {"type": tarfile.LNKTYPE, "linkname": "../out.py"})],
        [("device", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3})],
        [("pipe", {"type": tarfile.FIFOTYPE})],
        [("large", {"size": 2000})],
        [(f"f{n}", {}) for n in range(9)],
        [("n" * 40_000, {})],
    ],
    ids=["up", "round about", "link up", "absolute link", "hard link", "device", "pipe", "large", "many", "long name"],
)
def test_a_hostile_tarball_unpacks_nothing_outside_and_no_more_than_allowed(tmp_path, monkeypatch, infos):
    monkeypatch.setattr(worker_code, "MAX_BYTES", 1000)
    monkeypatch.setattr(worker_code, "MAX_FILES", 8)
    fine = tarball(tmp_path / "a.tar.zst", *((f"f{n}", {"size": 100}) for n in range(8)), fill=b"x")
    worker_code.unpack(fine, tmp_path)
    for path in tmp_path.glob("f*"):
        path.unlink()
    archive = tarball(tmp_path / "a.tar.zst", *infos, fill=b"x")
    folder = tmp_path / "in/side"
    folder.mkdir(parents=True)
    with pytest.raises((worker_code.tarfile.TarError, ValueError)):
        worker_code.unpack(archive, folder)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.tar.zst", "in"]
    assert sum(p.lstat().st_size for p in folder.rglob("*") if p.is_file()) <= 1000


def test_modes_of_a_tarball_never_give_more_than_reading_to_others(tmp_path):
    archive = tarball(tmp_path / "a.tar.zst", ("tool", {"mode": 0o6777, "uid": 12345}))
    worker_code.unpack(archive, tmp_path)
    status = (tmp_path / "tool").stat()
    assert (oct(status.st_mode & 0o7777), status.st_uid) == ("0o755", os.getuid())


# ---- packages that cannot be installed --------------------------------------------------------------------------


def test_a_failing_install_ends_the_job_early_with_the_words_of_pip(team, wheelhouse):
    files = {"requirements.txt": "nosuchpkg==9\n", "a.py": ""}
    spec = {"command": ["python3", "{code}/a.py", "{uri}"], "wheelhouse": wheelhouse}
    job = ship(team, [str(n) for n in range(20)], files, chunk_size=1, **spec)
    codes = [job.run(child).code for child in range(START_FAILURES + 1)]
    assert codes == [*[WorkerExit.STORE_UNAVAILABLE] * (START_FAILURES - 1), *[WorkerExit.STOPPED] * 2]
    note = job.ledger.cancellation(0)
    assert note is not None
    assert "No matching distribution found for nosuchpkg==9" in note["reason"]
    assert job.ledger.start_failures(0)[0].startswith("pip could not install requirements.txt: ERROR")
    assert job.outcomes() == []
    assert not any(p.name.endswith(".part") for home in cached(team) for p in home.iterdir())


@pytest.mark.parametrize(
    ("python", "says"),
    [("/nonexistent/python3", "the image has no Python to install it with"), ("nopip", "No module named pip")],
)
def test_an_image_without_python_or_pip_is_told(team, tmp_path, python, says):
    if python == "nopip":
        python = str(tmp_path / "python3")
        (tmp_path / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')
        (tmp_path / "python3").chmod(0o755)
    job = ship(team, ["a"], {"requirements.txt": "x\n"}, command=["/bin/true"])
    ended = job.run(TIDEMILL_PYTHON=python)
    assert ended.code == WorkerExit.STORE_UNAVAILABLE
    (said,) = job.ledger.start_failures(0)
    assert says in said


# ---- on this machine --------------------------------------------------------------------------------------------


def test_tidemill_run_does_the_same_on_this_machine(here, wheelhouse):
    src = here.folder / "src"
    src.mkdir()
    (src / "requirements.txt").write_text("tinypkg\n")
    (src / "use.py").write_text("import sys, tinypkg; open(sys.argv[2] + '/o', 'w').write(sys.argv[1] * 2)\n")
    where = ["--code", "src", "--wheelhouse", wheelhouse, "--workers", "2", "--json"]
    ended = here.run(*where, "a", "b", "--", "python3", "use.py", "{uri}", "{output}")
    assert (ended.returncode, json.loads(ended.stdout)["succeeded"]) == (0, 2), ended.stderr
    assert sorted(path.read_text() for path in here.store.glob("out/**/o")) == ["aa", "bb"]
