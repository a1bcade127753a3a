"""What a build for another architecture says where it cannot be made. tests/images makes one."""

from __future__ import annotations

import pytest

from worker_image import debian, tools
from worker_image.bases import LocalPython, base
from worker_image.tools import BuildError


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def other() -> str:
    return next(name for name in debian.TRIPLES if name != tools.architecture())


def test_this_machines_processor_needs_no_packages(tmp_path):
    assert isinstance(base(tools.architecture()), LocalPython)
    assert not list(tmp_path.iterdir())


def test_a_machine_without_apt(monkeypatch):
    monkeypatch.setattr(debian.shutil, "which", lambda name: None)
    with pytest.raises(BuildError, match=r"apt-get is not on PATH.* Debian or Ubuntu"):
        base(other())


def test_a_machine_without_debians_keys(monkeypatch):
    monkeypatch.setattr(debian.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(debian, "KEYS", "/nowhere.gpg")
    with pytest.raises(BuildError, match="install debian-archive-keyring"):
        base(other())


def test_a_machine_whose_apt_knows_no_archive(monkeypatch, tmp_path):
    apt = tmp_path / "apt-get"
    apt.write_text("#!/bin/sh\n")
    apt.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv(debian.MIRROR, raising=False)
    with pytest.raises(BuildError, match=f"set {debian.MIRROR} to"):
        debian.root(other())


def test_an_archive_that_does_not_answer(monkeypatch, tmp_path):
    """Nothing of it is taken for a root, and the next build asks again."""
    apt = tmp_path / "apt-get"
    apt.write_text("#!/bin/sh\necho 'E: Unable to fetch some archives' >&2\nexit 100\n")
    apt.chmod(0o755)
    (tmp_path / "dpkg").symlink_to(apt)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(debian, "KEYS", str(apt))
    monkeypatch.setenv(debian.MIRROR, "http://127.0.0.1:9")
    for _ in range(2):
        with pytest.raises(BuildError, match=r"did not come .*\n.*Unable to fetch"):
            debian.root(other())
    assert not list(tmp_path.rglob("root"))
