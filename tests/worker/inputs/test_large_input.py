"""A large file of this machine as an input: no process copies it, and none reads it twice. A sparse file takes no room.

What each process has read is the kernel's count (`rchar`). What this cannot prove: what a program itself reads.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worker.here import TIDEMILL
from tidemill import Pipeline

MIB = 1 << 20
SIZE = 1024 * MIB
SLACK = 200 * MIB
"""Python's own modules, and what the machine gives to a test."""
PROGRAM = """
import json, os, sys
pid, read = os.getpid(), {}
while pid != int(sys.argv[2]):
    counts = dict(line.split(": ") for line in open(f"/proc/{pid}/io").read().splitlines())
    read[pid] = int(counts["rchar"])
    pid = int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
print(json.dumps({"size": os.stat(sys.argv[1]).st_size, "read": read}))
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a program and a large file, which is the current one."""
    monkeypatch.setenv("TIDEMILL_SCRATCH", str(tmp_path / "scratch"))
    monkeypatch.chdir(tmp_path)
    Path("count.py").write_text(PROGRAM)
    Path("data").mkdir()
    with Path("data", "large.bin").open("wb") as file:
        file.truncate(SIZE)
    return tmp_path


@pytest.mark.parametrize(
    ("given", "placeholder", "times"),
    [(("--items", "data"), "{input}", 0), (("--items", "count.py", "--input", "large=data/large.bin"), "{large}", 1)],
    ids=["item", "named input"],
)
def test_no_process_of_a_run_reads_it_more_often_than_its_identity_needs(place, given, placeholder, times):
    """A named input is part of what makes the job: its content is read once."""
    wrapper = (
        "import os, subprocess, sys\n"
        "command = [word.replace('ME', str(os.getpid())) for word in sys.argv[1:]]\n"
        "sys.exit(subprocess.run(command).returncode)\n"
    )
    run = [*TIDEMILL, "run", "--name", "large", *given]
    command = [sys.executable, "-c", wrapper, *run, "--", sys.executable, str(place / "count.py"), placeholder, "ME"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    job = Pipeline.local().job("large")
    (said,) = (json.loads(line.said) for line in list(job.logs(item=0))[:1])
    assert said["size"] == SIZE
    assert len(said["read"]) >= 3, "the program, its worker and the command"
    assert max(said["read"].values()) <= times * SIZE + SLACK, said
    held = sum(path.lstat().st_blocks * 512 for path in place.rglob("*") if not path.is_symlink())
    assert held < 64 * MIB, "no copy of it, in the store or in a worker's folder"


def test_map_opens_it_in_place(place):
    def size_of(input):  # noqa: A002 the name asks for the item's file
        return os.stat(input).st_size

    before = _read()
    (size,) = Pipeline.local(workers=1).map(size_of, ["data/large.bin"])
    assert size == SIZE
    assert _read() - before < SLACK


def test_a_module_beside_large_data_is_sent_without_it(place, monkeypatch):
    """Nothing is packed where nothing travels: the folder holds more than may be sent."""
    Path("beside_large.py").write_text("def double(n):\n    return 2 * n\n")
    monkeypatch.syspath_prepend(place)
    import beside_large  # noqa: PLC0415  # pyright: ignore[reportMissingImports] it is written by this test

    assert list(Pipeline.local(workers=1).map(beside_large.double, [1, 2])) == [2, 4]


def _read() -> int:
    """Bytes that this process has read."""
    return int(Path("/proc/self/io").read_text().split()[1])
