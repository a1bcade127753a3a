"""A localcloud whose server of forks ends: the tests' own process is not taken for the daemon."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from localcloud import cloud
from tests import warm


@contextmanager
def server(folder: Path, said: bytes) -> Iterator[None]:
    """A server of forks that says something to one client, and ends."""

    def serve() -> None:
        client, _ = listening.accept()
        with client:
            size = int.from_bytes(client.recv(4), "big")
            client.recv(size, socket.MSG_WAITALL)
            client.sendall(said)

    with closing(socket.socket(socket.AF_UNIX)) as listening:
        listening.bind(f"{folder}/socket")
        listening.listen()
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield
        thread.join(60)
        assert not thread.is_alive()


def test_a_daemon_that_no_server_forks_gets_no_signal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "_server", lambda: tmp_path)
    monkeypatch.setattr(cloud, "spawn", warm.Fork)
    signalled: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, _: signalled.append(pid))
    with server(tmp_path, b""), pytest.raises(ChildProcessError, match="server of forks has ended"):
        cloud.Cloud(tmp_path / "localcloud").start()
    assert not signalled


def test_a_fork_whose_server_was_killed_did_not_succeed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "_server", lambda: tmp_path)
    with server(tmp_path, (7).to_bytes(4, "big")):
        fork = warm.Fork(["-c", ""], cwd=tmp_path, env={}, stdout=(tmp_path / "out").open("wb"), stdin=subprocess.PIPE)
        assert fork.wait(60) != 0
