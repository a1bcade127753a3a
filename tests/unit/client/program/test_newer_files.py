"""Times of files that a local job runs where they are. tests/worker/test_local_run.py has what is said of them."""

from __future__ import annotations

import os
from pathlib import Path

from tidemill.client.program import newer_files
from tidemill.client.program.newer_files import changed_at


def test_links_that_lead_back_are_not_followed(tmp_path: Path):
    """Two of them have a million paths within twenty steps."""
    for name in ("a", "b"):
        (tmp_path / name).symlink_to(".")
    (tmp_path / "file").write_text("1")
    seen = os.stat(tmp_path / "file")
    assert changed_at(tmp_path) >= max(seen.st_mtime, seen.st_ctime)
    assert changed_at(tmp_path / "file") == max(seen.st_mtime, seen.st_ctime)


def test_a_file_deep_in_a_folder_counts(tmp_path: Path):
    (tmp_path / "x" / "y").mkdir(parents=True)
    (tmp_path / "x" / "y" / "z").write_text("1")
    os.utime(tmp_path / "x" / "y" / "z", (4e9, 4e9))
    assert changed_at(tmp_path) == 4e9
    assert changed_at(tmp_path / "none") == 0


def test_what_goes_while_it_is_looked_at_is_no_error(tmp_path: Path, monkeypatch):
    (tmp_path / "x").mkdir()
    real = newer_files.os.scandir

    def gone(path):
        if os.path.basename(path) == "x":
            os.rmdir(path)
        return real(path)

    monkeypatch.setattr(newer_files.os, "scandir", gone)
    assert changed_at(tmp_path) > 0
    assert not (tmp_path / "x").exists()
