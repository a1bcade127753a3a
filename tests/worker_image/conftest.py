"""The tree and the image, built from this checkout once for all tests."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.worker.containers import Team
from tests.worker_image import cached
from tests.worker_image.roots import Root


@pytest.fixture(scope="session")
def built():
    return cached.build()


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """A static program."""
    target = tmp_path_factory.mktemp("program") / "program"
    source = os.path.join(os.path.dirname(__file__), "program.go")
    env = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    subprocess.run(["go", "build", "-trimpath", "-o", str(target), source], env=env, check=True, timeout=300)
    return target


@pytest.fixture
def team(tmp_path):
    """A store and scratch with the same path inside and outside the root."""
    data = tmp_path / "data"
    for name in ("store", "scratch", "items"):
        (data / name).mkdir(parents=True)
    team = Team(data)
    yield team
    team.end()


@pytest.fixture
def container(tmp_path, built, team):
    """Makes a root from given contents and the worker's tree."""

    def make(user=0, readonly=True):
        folder = tmp_path / "root"
        folder.mkdir()
        return Root(folder, {str(team.root): team.root}, {"/tidemill": built.tree}, user, readonly)

    return make
