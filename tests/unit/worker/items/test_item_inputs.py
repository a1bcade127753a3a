"""Folders of items that are used again, and the inputs in them."""

import threading
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from pathlib import Path

from tidemill.client.plan.spec import build_spec
from tidemill.job import Item
from tidemill.removal import clear, remove
from tidemill.store import Stores
from tidemill.worker.items.item_inputs import ItemInputs
from tidemill.worker.items.staging import Staging
from tidemill.worker.items.task import Task
from tidemill.worker.machine.scratch import Scratch, empty_folder


class TestFolders:
    def test_an_item_folder_goes_whatever_is_in_it(self, tmp_path):
        folder = tmp_path / "0"
        fill(folder)
        remove(folder)
        assert not folder.exists()

    def test_a_cleared_folder_stays(self, tmp_path):
        folder, elsewhere = tmp_path / "0", tmp_path / "elsewhere"
        fill(folder)
        before = folder.stat()
        clear(folder)
        assert (list(folder.iterdir()), folder.stat().st_ino) == ([], before.st_ino)
        assert folder.stat().st_mode == before.st_mode
        fill(elsewhere)
        folder.rmdir()
        folder.symlink_to(elsewhere)
        clear(folder)
        assert (elsewhere / "sub/file").exists()
        assert not empty_folder(folder, tmp_path).is_symlink()


class TestItemInputs:
    def test_inputs_use_their_folders_again(self, tmp_path):
        with inputs_of(tmp_path, Staging) as (inputs, _):
            for n in range(9):
                task = task_of(tmp_path, n)
                file = inputs.begin(task).result()
                # A program may leave files next to its input.
                file.with_name("left").touch()
                assert inputs.begin(task).result() == file
                assert [one.name for one in file.parent.parent.iterdir()] == ["0"]
                inputs.remove(task)
                assert list(file.parent.iterdir()) == []
                assert (tmp_path / "source").read_bytes() == b"x"

    def test_one_that_is_not_needed_goes_when_it_has_come(self, tmp_path):
        gate = threading.Event()

        class Slow(Staging):
            def _link(self, source: Path, target: Path) -> None:
                assert gate.wait(60)
                super()._link(source, target)

        with inputs_of(tmp_path, Slow) as (inputs, staging):
            tasks = [task_of(tmp_path, n) for n in range(2)]
            unneeded, needed = (inputs.begin(task) for task in tasks)
            inputs.remove(tasks[0])
            gate.set()
            wait([unneeded, needed])
            # What is done after a transfer is over when its thread is.
            staging.close()
            assert list(needed.result().parent.parent.glob("*/*")) == [needed.result()]


def fill(folder: Path) -> None:
    """Make a folder with a read-only folder in it."""
    (folder / "sub").mkdir(parents=True)
    (folder / "sub/file").write_text("x")
    (folder / "sub").chmod(0o500)


@contextmanager
def inputs_of(folder: Path, kind: type[Staging]) -> Iterator[tuple[ItemInputs, Staging]]:
    """Inputs of a worker, and a file that items name."""
    (folder / "source").write_bytes(b"x")
    scratch = Scratch(folder / "scratch", "one")
    staging = kind(Stores(), scratch)
    try:
        yield ItemInputs(staging, scratch), staging
    finally:
        staging.close()
        scratch.close()


def task_of(folder: Path, index: int) -> Task:
    """An item of a job that stages its input."""
    sizes = {"chunk_size": 9, "items_total": 9, "chunks_total": 1}
    spec = build_spec(name="t", job="t-00000000", queue="q", command=["cat", "{input}"], **sizes)
    return Task(spec.job, 0, "a", spec, Item(index, str(folder / "source")), "file:///out", {})
