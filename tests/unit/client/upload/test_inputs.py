"""Named inputs: what a submit makes of them, and what a machine does with them. tests/e2e has both on a cloud's
machines. What this cannot prove: how much room a machine's volume really has."""

from __future__ import annotations

import os
import stat
import threading
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest

from tests.unit.client_fakes import pipeline
from tidemill.client.upload import inputs as upload_inputs
from tidemill.descriptor import SPEC_VERSION
from tidemill.errors import CallerError
from tidemill.store import Store, Stores
from tidemill.store import store as store_module
from tidemill.worker.items import inputs as module
from tidemill.worker.items.inputs import InputCache, InputError, release
from tidemill.worker.items.task import reader
from tidemill.worker.machine.machine_folder import StoppedError
from tidemill.worker.machine.stop import Stop, StopReason

JOB = "tiles-01234567"
READER = reader(JOB, 0)
COMMAND = ["work", "{uri}", "{model}", "{output}"]


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    monkeypatch.setattr(store_module, "_PAUSES", ())


def model(tmp_path: Path, **files: str) -> Path:
    for name, text in (files or {"w_bin": "weights", "more__config": "{}"}).items():
        path = tmp_path / "model" / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "model"


def sent(target: Any, **inputs: Any) -> dict[str, str]:
    return target.submit(COMMAND, ["a"], queue="cpu", inputs=inputs).spec.inputs


class Machine:
    """A machine's cache, and the workers on it."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store, self.folder, self.stop = store, folder, Stop()
        folder.mkdir(exist_ok=True)

    def cache(self) -> InputCache:
        return InputCache(self.folder, self.store, Stores(self.store), self.stop)

    def ready(self, uri: str, reader: str = READER) -> module.LockedInput:
        return self.cache().ready(reader, {"model": uri})["model"]

    @property
    def kept(self) -> int:
        """Inputs that are on the machine."""
        return sum(path.is_dir() for path in (self.folder / f"inputs-{os.getuid()}").iterdir())


# ---- a submit ------------------------------------------------------------------------------------------------------


def test_a_folder_and_a_file_are_sent_once_and_read_by_each_machine(tmp_path):
    target, _ = pipeline(max_spec=SPEC_VERSION)
    folder = model(tmp_path)
    found = sent(target, model=folder, ref=folder / "w.bin")
    assert found == sent(target, model=str(folder), ref=folder / "w.bin")
    assert len(list(target.store.list("uploads"))) == 3
    machine = Machine(target.store, tmp_path / "machine")
    held = machine.cache().ready(READER, found)
    root = held["model"].path
    assert (root / "w.bin").read_text() == "weights"
    assert (root / "more/config").read_text() == "{}"
    assert (held["ref"].path.name, held["ref"].path.read_text()) == ("w.bin", "weights")
    assert {stat.S_IMODE(path.stat().st_mode) for path in (root, root / "more")} == {0o555}
    assert stat.S_IMODE((root / "w.bin").stat().st_mode) == 0o444


def test_a_job_with_other_inputs_is_another_job_and_older_workers_do_not_get_it(tmp_path):
    target, _ = pipeline(max_spec=SPEC_VERSION)
    folder = model(tmp_path)
    jobs = {}
    for text in ("one", "two", "one"):
        (folder / "w.bin").write_text(text)
        jobs[text] = target.submit(COMMAND, ["a"], queue="cpu", name="n", inputs={"model": folder})
    assert jobs["one"].id != jobs["two"].id
    assert len(target.jobs()) == 2
    assert jobs["one"].spec.spec_version == 4
    with pytest.raises(CallerError, match="leave `inputs` out"):
        sent(pipeline(max_spec=3)[0], model=folder)


def test_a_uri_is_an_object_or_a_prefix_and_must_be_there():
    target, _ = pipeline(max_spec=SPEC_VERSION)
    target.store.put("out/m/w.bin", b"w")
    uri = target.store.uri_of("out/m")
    assert sent(target, model=uri) == sent(target, model=f"{uri}/") == {"model": f"{uri}/"}
    assert sent(target, model=f"{uri}/w.bin") == {"model": f"{uri}/w.bin"}
    for missing in (target.store.uri_of("out/n"), f"{uri}/w", f"{uri}/w.bin/"):
        with pytest.raises(CallerError, match=r"input model: .* does not exist"):
            sent(target, model=missing)


@pytest.mark.parametrize("name", ["input", "state", "code", "Model", "1", "a-b", ""])
def test_a_name_that_means_something_else_is_refused(tmp_path, name):
    with pytest.raises(CallerError) as error:
        sent(pipeline(max_spec=SPEC_VERSION)[0], **{name: str(model(tmp_path))})
    assert error.value.what in ("input", "inputs")


def test_what_cannot_be_sent_is_refused(tmp_path):
    target, backend = pipeline(max_spec=SPEC_VERSION)
    folder = model(tmp_path)
    (tmp_path / "empty").mkdir()
    (folder / "out").symlink_to("/etc/hostname")
    logins = tmp_path / "logins"
    (logins / ".ssh").mkdir(parents=True)
    (logins / ".ssh/config").write_text("")
    for value, message in (
        (folder, "out of the folder"),
        (tmp_path / "empty", "has no files"),
        (tmp_path / "nothing", "does not exist"),
        ("ftp://x/y", "s3://, gs:// or file://"),
        (logins, "may hold secrets"),
    ):
        with pytest.raises(CallerError, match=message):
            sent(target, model=value)
    assert backend.arrays == []
    assert list(target.store.list("uploads")) == []


def test_a_folder_of_too_many_files_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(upload_inputs, "MAX_FILES", 2)
    target, backend = pipeline(max_spec=SPEC_VERSION)
    many = model(tmp_path)
    for n in range(3):
        (many / str(n)).write_text("")
    with pytest.raises(CallerError, match="more than 2 files") as error:
        sent(target, model=many)
    assert (error.value.what, error.value.fix) == ("input", "Pack them, or make them items.")
    assert backend.arrays == []
    assert list(target.store.list("uploads")) == []


def test_a_placeholder_is_known_and_never_code(tmp_path):
    target, _ = pipeline(max_spec=SPEC_VERSION)
    said: list[str] = []
    target.submit(COMMAND, ["a"], queue="cpu", inputs={"model": model(tmp_path)}, log=said.append)
    assert not [text for text in said if "placeholder" in text]
    with pytest.raises(CallerError, match="TIDEMILL_INPUT_MODEL"):
        target.submit(["sh", "-c", "cat {model}"], ["a"], queue="cpu", inputs={"model": model(tmp_path)})


# ---- a machine -----------------------------------------------------------------------------------------------------


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    store = Store.open(f"file://{tmp_path}/store")
    for name in ("a", "b", "c"):
        store.put(f"data/{name}/x", name.encode() * 1000)
    # As consoles make for folders.
    store.put("data/a/deep/y", b"y")
    return Machine(Store.open("memory://"), tmp_path / "machine")


def uri(machine: Machine, name: str) -> str:
    return f"file://{machine.folder.parent}/store/data/{name}/"


def test_workers_of_a_machine_fetch_once_side_by_side(machine, monkeypatch):
    fetched: list[str] = []
    real = module.fetch_tree

    def fetch(*given, **options):
        fetched.append(threading.current_thread().name)
        return real(*given, **options)

    monkeypatch.setattr(module, "fetch_tree", fetch)
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(machine.ready(uri(machine, "a")).path)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(fetched) == 1
    assert len(found) == 8
    assert len(set(found)) == 1
    assert (found[0] / "x").read_bytes() == b"a" * 1000
    assert (found[0] / "deep/y").read_bytes() == b"y"
    # What a URI means may change: another job looks anew, and so does a retry of this one.
    machine.ready(uri(machine, "a"), reader("tiles-76543210", 0))
    machine.ready(uri(machine, "a"), reader(JOB, 1))
    assert len(fetched) == 3


def test_only_what_no_job_needs_makes_room_the_oldest_first(machine, monkeypatch):
    usage = namedtuple("usage", "free")
    room = [10_000]

    def disk(path):
        used = sum(file.stat().st_size for file in Path(path).rglob("*") if file.is_file() and "lock" not in file.name)
        return usage(room[0] - used)

    monkeypatch.setattr(module, "SPARE_BYTES", 0)
    monkeypatch.setattr(module.shutil, "disk_usage", disk)
    release(machine.ready(uri(machine, "b")))
    held = machine.ready(uri(machine, "a"))
    room[0] = 2500
    third = machine.ready(uri(machine, "c"))
    assert machine.kept == 2
    assert held.path.is_dir()
    with pytest.raises(InputError, match=r"input model has 0.0 GiB.* 0.0 GiB left for it.*scratch_gib"):
        machine.ready(uri(machine, "b"))
    release(third)
    machine.ready(uri(machine, "b"))
    assert not third.path.exists()
    assert held.path.is_dir()


def test_what_a_dead_worker_has_begun_is_finished(machine, monkeypatch):
    real = module.fetch_tree

    def dies(store, tree, folder, **options):
        real(store, type(tree)(tree.files[:1]), folder, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "fetch_tree", dies)
    with pytest.raises(KeyboardInterrupt):
        machine.ready(uri(machine, "a"))
    monkeypatch.setattr(module, "fetch_tree", real)
    assert (machine.ready(uri(machine, "a")).path / "x").read_bytes() == b"a" * 1000
    assert machine.kept == 1


def test_an_input_that_is_gone_is_the_jobs_fault_and_a_stop_is_nobodys(machine):
    with pytest.raises(InputError, match="input model cannot be fetched: There is nothing below"):
        machine.ready(uri(machine, "nothing"))
    machine.stop.set(StopReason.SIGNAL)
    with pytest.raises(StoppedError):
        machine.ready(uri(machine, "a"))
