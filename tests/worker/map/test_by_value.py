"""Functions of programs and notebooks on this machine, with real processes. Not proved: another machine's Python."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worker.here import SECONDS

PROGRAM = """
import json, sys
import tidemill
from tidemill.errors import TidemillError

pipeline = tidemill.Pipeline.local(workers=1)
{definitions}
try:
    values = pipeline.map({call})
    print(json.dumps({{"job": values.job.id, "values": list(values)}}))
except TidemillError as error:
    print(json.dumps({{"error": str(error), "jobs": [row.job for row in pipeline.jobs()]}}))
"""


class Session:
    """A program that is typed on standard input, as a notebook's cells are: it has no file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, call, definitions="", **env):
        done = subprocess.run(
            [sys.executable, "-"],
            cwd=self.folder,
            env={
                "HOME": str(self.folder),
                "PATH": "/usr/bin:/bin",
                "TIDEMILL_SCRATCH": f"{self.folder}/scratch",
                **env,
            },
            input=PROGRAM.format(definitions=definitions, call=call),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def session(tmp_path):
    return Session(tmp_path)


POINT = """
from dataclasses import dataclass

@dataclass
class Point:
    x: int
    y: int
    more: tuple = ()

    def norm(self):
        return self.x ** 2 + self.y ** 2
"""
CALLS = {
    "a lambda, over numbers": ("lambda x: x * x, range(4)", "", [0, 1, 4, 9]),
    "a closure": ("made(3), [1, 2]", "def made(k):\n    return lambda x: x * k", [3, 6]),
    "a partial": ("partial(pow, 2), [1, 2, 3]", "from functools import partial", [2, 4, 8]),
    "itself": (
        "fact, [3, 5]",
        "def fact(n): return n * fact(n - 1) if n else 1",
        [6, 120],
    ),
    "a remembered function": (
        "fib, [10, 20]",
        "from functools import cache\n@cache\ndef fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)",
        [55, 6765],
    ),
    "tuples": ("lambda pair: [type(pair).__name__, pair[0]], [(1, 2), (3, 4)]", "", [["tuple", 1], ["tuple", 3]]),
    "dicts": ("lambda row: row['a'] + len(row['b']), [{'a': 1, 'b': [1]}]", "", [2]),
    "None and mixed values": ("lambda x: x, [None, 1.5, 'text', [True]]", "", [None, 1.5, "text", [True]]),
    "objects of a dataclass": (
        "lambda p: p.norm() + len(p.more), [Point(3, 4), Point(0, 1, (5,))]",
        POINT,
        [25, 2],
    ),
    "named tuples": (
        "lambda row: row.a, [Row(1, 2)]",
        "from typing import NamedTuple\nclass Row(NamedTuple):\n    a: int\n    b: int",
        [1],
    ),
    "numbers of NumPy": (
        "lambda x: [x, type(x).__name__], np.arange(2)",
        "import numpy as np",
        [[0, "int"], [1, "int"]],
    ),
    "a method of an object": (
        "Scale(3).times, [1, 2]",
        "class Scale:\n    def __init__(self, k): self.k = k\n    def times(self, x): return x * self.k",
        [3, 6],
    ),
    "paths are texts": (
        "lambda path: path.upper(), [Path('a.jpg')]",
        "from pathlib import Path",
        ["A.JPG"],
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_as_people_write_them(session, name):
    call, definitions, values = CALLS[name]
    assert session.run(call, definitions).get("values") == values
