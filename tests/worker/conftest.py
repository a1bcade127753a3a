"""Workers as real processes on a store on disk. Sockets: loopback only."""

from __future__ import annotations

import pytest
from pytest_socket import enable_socket, socket_allow_hosts

from tests.worker.containers import Machine, Team, until
from tests.worker.gce import Gce
from tests.worker.here import SECONDS, Here
from tidemill.worker.machine import usage
from tidemill.worker.programs import programs


@pytest.fixture(autouse=True)
def loopback_only():
    enable_socket()
    socket_allow_hosts(["127.0.0.1"], allow_unix_socket=True)
    yield
    socket_allow_hosts(None)


@pytest.fixture(autouse=True)
def orphans_of_the_test(monkeypatch):
    """A worker in this process ends no server of other tests for an orphan."""
    ours = usage.adopted_children()
    monkeypatch.setattr(programs, "adopted_children", lambda: usage.adopted_children() - ours)


@pytest.fixture
def team(tmp_path):
    team = Team(tmp_path)
    yield team
    team.end()


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


@pytest.fixture
def gce(team):
    with Gce(team).running() as gce:
        yield gce
    # A worker that is killed leaves its programs: they end with the gate.
    (team.root / "gate").touch()


@pytest.fixture
def here(tmp_path):
    here = Here(tmp_path)
    yield here
    for run in here.started:
        if run.poll() is None:
            run.kill()
        run.communicate(timeout=SECONDS)
    until(lambda: not here.processes(), "the end of every process")
