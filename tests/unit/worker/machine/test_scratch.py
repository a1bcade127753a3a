"""Folders of workers on a scratch volume."""

import fcntl
import os
import time

from tidemill.worker.machine.scratch import Scratch


def test_the_dead_are_cleared_away_and_the_living_are_not(tmp_path):
    living, dead = Scratch(tmp_path, "living"), Scratch(tmp_path, "dead")
    (dead.folder / "big").write_bytes(b"1")
    for lock in dead._locks:
        lock.close()
    newcomer = Scratch(tmp_path, "newcomer")
    assert living.folder.is_dir()
    assert not dead.folder.exists()
    for scratch in (living, newcomer):
        scratch.close()
    assert list((tmp_path / "workers").iterdir()) == []


def test_a_folder_is_not_cleared_away_while_it_is_made(tmp_path, monkeypatch):
    """A worker that starts between the lock file and the lock of another must not take it for a dead one's."""
    real, meanwhile = fcntl.flock, []

    def flock(file, how):
        if not meanwhile:
            meanwhile.append(None)
            meanwhile[0] = Scratch(tmp_path, "meanwhile")
        real(file, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    slow = Scratch(tmp_path, "slow")
    assert slow.folder.is_dir()
    assert meanwhile[0].folder.is_dir()
    for scratch in (slow, meanwhile[0]):
        scratch.close()
    assert list((tmp_path / "workers").iterdir()) == []


def test_what_a_worker_left_half_made_goes_later(tmp_path):
    half = tmp_path / "workers" / ".half"
    half.mkdir(parents=True)
    Scratch(tmp_path, "one").close()
    assert half.exists()
    os.utime(half, (time.time() - 61, time.time() - 61))
    Scratch(tmp_path, "two").close()
    assert not half.exists()


def test_ports_are_of_the_machine(tmp_path):
    one, two = Scratch(tmp_path, "one"), Scratch(tmp_path, "two")
    bases = [one.port_base(), two.port_base(), one.port_base()]
    assert bases == [20_000, 20_016, 20_032]
    one.close()
    assert two.port_base() == 20_000
    two.close()
