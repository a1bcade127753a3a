"""`pipeline.map` on the AWS of this machine, as a person with submit rights: code goes up, values come back in order.

The image is this machine's root, whose Python is of the tests' minor version and has no cloudpickle; this does not show
that another image's Python does the same.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.e2e.team import TIMEOUT_SECONDS, Team

MODULE = """
import hashlib, pathlib

def digest(input, index):
    data = pathlib.Path(input).read_bytes()
    return {"sha256": hashlib.sha256(data).hexdigest()} if index % 2 else data

def fails(uri):
    raise ValueError("no " + uri)
"""
PROGRAM = """
import hashlib, json, os, sys
import tidemill, work
from tidemill.errors import ItemFailedError

pipeline = tidemill.Pipeline.load(os.environ["TIDEMILL_PIPELINE"])
values = pipeline.map(work.digest, sys.argv[1], queue="cpu", name="digests", chunk_size=2)
found = [value["sha256"] if index % 2 else hashlib.sha256(value).hexdigest() for index, value in enumerate(values)]
said = ""
try:
    list(pipeline.map(work.fails, ["a", "b"], queue="cpu", attempts=1))
except ItemFailedError as error:
    said = str(error.__cause__)
scale = 3
numbers = list(pipeline.map(lambda pair: pair[0] * scale + pair[1], [(1, 2), (3, 4)], queue="cpu"))
numbers += pipeline.map(len, [bytes(100_000), b""], queue="cpu")
print(json.dumps({"job": values.job.id, "found": found, "said": said, "numbers": numbers}))
"""


def test_values_come_back_in_order_and_so_does_the_traceback_of_a_failure(team: Team, tmp_path: Path) -> None:
    items, digests = team.put_items("map", 6, tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "work.py").write_text(MODULE)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(items)],
        cwd=tmp_path / "src",
        env=team.person,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["found"] == digests
    assert told["numbers"] == [5, 13, 100_000, 0]
    assert 'raise ValueError("no " + uri)' in told["said"]
    files = [name.rpartition("/")[2] for name in team.names(f"out/{told['job']}/")]
    assert files == ["tidemill-value.bin"] * 3
