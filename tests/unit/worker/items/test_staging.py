"""Inputs on their way to the scratch volume."""

import os

import pytest

from tidemill.store import Store, Stores
from tidemill.worker.items.staging import SPARE_BYTES, Staging, file_name
from tidemill.worker.machine.scratch import Scratch
from tidemill.worker.machine.stop import Stop
from tidemill.worker.programs.faults import ItemError


@pytest.fixture
def scratch(tmp_path):
    scratch = Scratch(tmp_path / "scratch", "one")
    yield scratch
    scratch.close()


@pytest.fixture
def staging(scratch):
    staging = Staging(Stores(), scratch)
    yield staging
    staging.close()


def test_the_scratch_is_looked_at_before_a_fetch(tmp_path, monkeypatch, scratch, staging):
    """An object of a bucket, which a folder stands for."""
    bucket = Store.open(f"file://{tmp_path}/bucket")
    bucket.put("source", b"x" * 3 * 2**20)
    monkeypatch.setattr(Stores, "locate", lambda _, uri: (bucket, "source"))
    assert staging.fetch("s3://b/source", scratch.folder / "a", Stop(), "").result().stat().st_size == 3 * 2**20
    monkeypatch.setattr(Scratch, "free_bytes", lambda _: SPARE_BYTES + 2**20)
    with pytest.raises(ItemError, match="3 MiB needed, 1 MiB free") as caught:
        staging.fetch("s3://b/source", scratch.folder / "b", Stop(), "").result()
    assert (caught.value.reason, caught.value.final) == ("scratch", False)
    assert list((scratch.folder / "b").iterdir()) == []


@pytest.mark.parametrize("uri", ["{0}/.my file", "file://{0}/.my%20file", "file://localhost{0}/.my%20file", ".my file"])
def test_a_file_of_this_machine_is_linked_however_little_room_there_is(uri, tmp_path, monkeypatch, scratch, staging):
    monkeypatch.setattr(Scratch, "free_bytes", lambda _: 0)
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".my file").write_bytes(b"x")
    found = staging.fetch(uri.format(tmp_path), scratch.folder / "a", Stop(), "").result()
    assert found.is_symlink()
    assert os.readlink(found) == f"{tmp_path}/.my file"
    # A link takes no room, so that as many may wait as of the smallest files.
    assert staging.most_ahead(1) == 8


def test_what_is_no_file_is_refused_and_not_linked(tmp_path, scratch, staging):
    os.mkfifo(tmp_path / "fifo")
    for name, why in (("fifo", "not a plain file"), ("nowhere", "No such file"), ("scratch", "not a plain file")):
        with pytest.raises(ItemError, match=f"cannot be fetched.*{why}"):
            staging.fetch(f"{tmp_path}/{name}", scratch.folder / "a", Stop(), "").result()
    assert list((scratch.folder / "a").iterdir()) == []


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("s3://b/p/photo.jpg", "photo.jpg"),
        ("/data/x.tif", "x.tif"),
        ("s3://b/folder/", "folder"),
        ("s3://b/..", "input"),
        ("s3://b/.hidden", "hidden"),
        ("s3://b/" + "é" * 300 + ".png", "é" * 98 + ".png"),
    ],
)
def test_the_local_copy_keeps_its_name(uri, name):
    assert file_name(uri) == name
    assert len(file_name(uri).encode()) <= 200
