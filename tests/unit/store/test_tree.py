"""Trees: a folder goes into a store and comes back, whatever happens on the way. The store is a folder."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

import obstore
import pytest

from tidemill.errors import DamagedError, StoreMissingError
from tidemill.store import Store
from tidemill.tree import PART, Tree, TreeFile, fetch_tree, store_file


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open((tmp_path / "store").as_uri())


def stored(store: Store, folder: Path, files: dict[str, bytes]) -> Tree:
    found = []
    for number, (path, data) in enumerate(files.items()):
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        found.append(store_file(store, target, path, f"o/{number}"))
    return Tree(tuple(found))


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


LARGE = os.urandom(12 * 2**20)
FILES = {"a": b"1", "sub/empty": b"", "sub/line\nbreak": b"3", "large": LARGE}


def test_a_folder_comes_back_as_it_was(store, tmp_path):
    tree = stored(store, tmp_path / "in", FILES)
    assert {file.path: file.sha256 for file in tree.files} == {
        path: hashlib.sha256(data).hexdigest() for path, data in FILES.items()
    }
    again = Tree.decode(tree.encode(), "it")
    assert again.size == sum(map(len, FILES.values())) == fetch_tree(store, again, tmp_path / "out")
    assert content(tmp_path / "out") == FILES


def test_only_what_is_missing_or_differs_is_fetched_again(store, tmp_path):
    tree, out = stored(store, tmp_path / "in", FILES), tmp_path / "out"
    fetch_tree(store, tree, out)
    (out / "a").write_bytes(b"2")
    (out / "other").write_bytes(b"mine")
    assert fetch_tree(store, tree, out) == 1
    assert content(out) == {**FILES, "other": b"mine"}


def test_an_interrupted_file_continues_where_it_was(store, tmp_path, monkeypatch):
    tree, out = stored(store, tmp_path / "in", {"large": LARGE}), tmp_path / "out"
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > 1

    with pytest.raises(InterruptedError):
        fetch_tree(store, tree, out, stop=stop)
    assert not (out / "large").exists()
    came = fetch_tree(store, tree, out)
    assert 0 < came < len(LARGE)
    assert content(out) == {"large": LARGE}


def test_what_an_interrupted_fetch_left_need_not_be_right(store, tmp_path):
    tree, out = stored(store, tmp_path / "in", {"large": LARGE}), tmp_path / "out"
    with pytest.raises(InterruptedError):
        fetch_tree(store, tree, out, stop=lambda: True)
    (part,) = out.glob(f"{PART}*")
    part.write_bytes(b"x" * 1000)
    fetch_tree(store, tree, out)
    assert content(out) == {"large": LARGE}


@pytest.mark.parametrize("data", [b"other", b"longer than it was", b""])
def test_an_object_that_changed_is_damaged_and_leaves_no_file(store, tmp_path, data):
    tree, out = stored(store, tmp_path / "in", {"a": b"first"}), tmp_path / "out"
    store.put(tree.files[0].object, data)
    with pytest.raises(DamagedError, match="'a'"):
        fetch_tree(store, tree, out)
    assert content(out) == {}


def test_an_object_that_is_gone_is_named(store, tmp_path):
    tree = stored(store, tmp_path / "in", {"a": b"first"})
    obstore.delete(store._backend, tree.files[0].object)
    with pytest.raises(StoreMissingError, match="o/0"):
        fetch_tree(store, tree, tmp_path / "out")


@pytest.mark.parametrize("path", ["../a", "/a", "a/../../b", "", "a//b", "./a", "a\0b"])
def test_a_path_never_leaves_the_folder(store, tmp_path, path):
    tree = Tree((TreeFile(path, 1, None, "o/0"),))
    with pytest.raises(DamagedError, match="leaves the folder"):
        fetch_tree(store, tree, tmp_path / "out")
    with pytest.raises(DamagedError, match="it is damaged"):
        Tree.decode(tree.encode(), "it")


@pytest.mark.parametrize("paths", [("a", "a"), ("a", "a/b")])
def test_files_that_cannot_be_together_are_refused(paths):
    tree = Tree(tuple(TreeFile(path, 1, None, "o/0") for path in paths))
    with pytest.raises(DamagedError):
        Tree.decode(tree.encode(), "it")


def test_a_link_in_the_folder_does_not_lead_out_of_it(store, tmp_path):
    tree, out = stored(store, tmp_path / "in", {"sub/a": b"1"}), tmp_path / "out"
    out.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (out / "sub").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DamagedError, match="outside"):
        fetch_tree(store, tree, out)
    assert content(tmp_path / "elsewhere") == {}


def test_a_tree_that_does_not_fit_is_not_begun(store, tmp_path):
    tree = stored(store, tmp_path / "in", FILES)
    with pytest.raises(OSError, match=r"MiB needed, .* free") as error:
        fetch_tree(store, tree, tmp_path / "out", room=tree.size - 1)
    assert error.value.errno == errno.ENOSPC
    assert not (tmp_path / "out").exists()


def test_room_is_for_what_has_to_come(store, tmp_path):
    tree = stored(store, tmp_path / "in", FILES)
    fetch_tree(store, tree, tmp_path / "out")
    assert fetch_tree(store, tree, tmp_path / "out", room=0) == 0
    (tmp_path / "out/a").unlink()
    with pytest.raises(OSError, match="1 B needed, 0 B free"):
        fetch_tree(store, tree, tmp_path / "out", room=0)
    assert fetch_tree(store, tree, tmp_path / "out", room=1) == 1


def test_files_without_a_recorded_sha256_are_handed_over(store, tmp_path, monkeypatch):
    """Outputs of a job, in a store that is a folder."""
    stored(store, tmp_path / "in", FILES)
    tree = Tree(tuple(TreeFile(f"{n}/{p}", len(d), None, f"o/{n}") for n, (p, d) in enumerate(FILES.items())))
    monkeypatch.setattr(Store, "stream", lambda *_, **__: pytest.fail("an object was read"))
    assert fetch_tree(store, tree, tmp_path / "out") == sum(map(len, FILES.values()))
    assert content(tmp_path / "out") == {f"{n}/{p}": d for n, (p, d) in enumerate(FILES.items())}
    (tmp_path / "out/3/large").write_bytes(b"changed")
    assert store.get("o/3") == LARGE
