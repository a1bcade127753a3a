"""Commands of ops and the processes they start. Real processes, no engine."""

import os
import subprocess
import sys
import time

import pytest

from ops.processes import run

# A child in a process group of its own, as the engine starts its plugins.
PLUGIN = """
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], process_group=0)
pathlib.Path(sys.argv[1]).write_text(str(child.pid))
time.sleep(float(sys.argv[2]))
sys.exit(7)
"""


def ended(pid: int, within: float = 60) -> bool:
    """Whether a process is gone, or a zombie that only its new parent has not reaped yet."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        try:
            with open(f"/proc/{pid}/stat") as stat:
                if stat.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except FileNotFoundError:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("lasts", [0, 60])
def test_what_a_command_started_ends_with_it_or_with_its_time(tmp_path, lasts):
    note = tmp_path / "pid"
    command = [sys.executable, "-c", PLUGIN, str(note), str(lasts)]
    if lasts:
        with pytest.raises(subprocess.TimeoutExpired):
            run(command, cwd=tmp_path, env=os.environ, timeout=6)
    else:
        assert run(command, cwd=tmp_path, env=os.environ, timeout=60) == 7
    assert ended(int(note.read_text()))
