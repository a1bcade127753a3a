"""Inputs on their way to the scratch volume."""

import pytest

from tidemill.store import Stores
from tidemill.worker.items.staging import SPARE_BYTES, Staging, file_name
from tidemill.worker.machine.scratch import Scratch
from tidemill.worker.machine.stop import Stop
from tidemill.worker.programs.faults import ItemError


def test_the_scratch_is_looked_at_before_a_fetch(tmp_path, monkeypatch):
    scratch = Scratch(tmp_path / "scratch", "one")
    source = tmp_path / "source"
    source.write_bytes(b"x" * 3 * 2**20)
    staging = Staging(Stores(), scratch)
    assert staging.fetch(str(source), scratch.folder / "a", Stop(), "").result().read_bytes() == source.read_bytes()
    monkeypatch.setattr(Scratch, "free_bytes", lambda _: SPARE_BYTES + 2**20)
    with pytest.raises(ItemError, match="3 MiB needed, 1 MiB free") as caught:
        staging.fetch(str(source), scratch.folder / "b", Stop(), "").result()
    assert (caught.value.reason, caught.value.final) == ("scratch", False)
    assert list((scratch.folder / "b").iterdir()) == []
    staging.close()
    scratch.close()


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
