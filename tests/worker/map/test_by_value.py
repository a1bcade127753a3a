"""Functions of programs and notebooks on this machine, with real processes. Not proved: another machine's Python."""

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import zstandard

import tidemill
from tests.worker.here import SECONDS

PRODUCT = Path(tidemill.__file__).parent
PROGRAM = """
import json, sys
import tidemill
from tidemill.errors import TidemillError

pipeline = tidemill.Pipeline.local(workers=1)
{definitions}
try:
    values = pipeline.map({call})
    print(json.dumps({{"job": values.job.id, "values": list(values)}}, default=str))
except TidemillError as error:
    print(json.dumps({{"error": str(error), "jobs": [row.job for row in pipeline.jobs()]}}))
"""


class Session:
    """A program that is typed on standard input, as a notebook's cells are: it has no file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run_file(self, text: str) -> Any:
        """Run a program that is a file, and return the JSON that it printed."""
        (self.folder / "drive.py").write_text(text)
        done = subprocess.run(
            [sys.executable, "drive.py"], cwd=self.folder, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

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


TRAP = """
def leave():
    with open({file!r}, "a") as file:
        ours = "Calls a user's function in the image's own Python" in open("/proc/self/cmdline").read()
        file.write(json.dumps([ours]) + "\\n")

class Trap:
    def __reduce__(self):
        return leave, ()

trap = Trap()
"""


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
    "several lists": ("lambda x, y, *, index: x * y + index, [1, 2, 3], (n for n in [4, 5])", "", [4, 11]),
    "a dict of a named function": ("len, [{'a': 1}, [1, 2]]", "", [1, 2]),
    "an output of a value": (
        "lambda x, output: (Path(output) / 'a').write_text(str(x)), range(12, 13)",
        "from pathlib import Path",
        [2],
    ),
    "arrays": ("lambda a: float(a.sum()), np.arange(6.0).reshape(2, 3)", "import numpy as np", [3.0, 12.0]),
    "bytes": ("lambda data, index: [len(data), index], [b'x' * 100_000, b'']", "", [[100_000, 0], [0, 1]]),
    "rows of a frame": (
        "lambda row: [row['a'], row['b'], row['at']], pd.DataFrame({'a': [1, 2], 'b': ['x', None], 'at': days})",
        "import pandas as pd\ndays = pd.to_datetime(['2024-01-01', None])",
        [[1, "x", "2024-01-01T00:00:00"], [2, None, None]],
    ),
    "tuples of a frame": (
        "lambda row: row.a * 2, pd.DataFrame({'a': [1, 2], 'b': 3}).itertuples()",
        "import pandas as pd",
        [2, 4],
    ),
    "a column of a frame": ("lambda text: text, pd.DataFrame({'uri': ['u'], 'b': [3]})", "import pandas as pd", ["u"]),
    "rows of an Arrow table": ("lambda row: row['a'], pa.table({'a': [1], 'b': ['x']})", "import pyarrow as pa", [1]),
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


def test_a_pickle_is_read_in_the_process_of_the_function_and_nowhere_else(session, tmp_path):
    trap = TRAP.format(file=str(tmp_path / "left"))
    told = session.run("lambda x: [trap, x][1], range(5), name='trap'", trap)
    assert told["values"] == [0, 1, 2, 3, 4]
    (ours,), *others = map(json.loads, (tmp_path / "left").read_text().splitlines())
    assert (ours, others) == (True, [])
    # To look at it, and to send the same again, reads none.
    assert session.run("lambda x: [trap, x][1], range(5), name='trap'", trap)["job"] == told["job"]
    assert len((tmp_path / "left").read_text().splitlines()) == 1


def test_only_the_package_of_the_function_reads_pickles():
    reading = {
        path.relative_to(PRODUCT).as_posix()
        for path in PRODUCT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, (ast.Attribute, ast.Name))
        and ast.unparse(node) in ("pickle.load", "pickle.loads", "pickle.Unpickler", "cloudpickle.load")
    }
    assert reading == {"client/program/this_session.py"}


def test_arrays_are_uploaded_once_and_another_session_goes_on_with_their_job(session):
    call = "lambda a: float(a.sum()), np.arange(6.0).reshape(2, 3), name='sums'"
    first, again = session.run(call, "import numpy as np"), session.run(call, "import numpy as np")
    assert first == again
    assert first["values"] == [3.0, 12.0]
    assert len([path for path in (session.folder / ".tidemill").rglob("*.npy") if path.is_file()]) == 2


def test_the_same_call_in_another_session_goes_on_with_the_job(session):
    """Its third item has failed, which is no reason to call the others again."""
    definitions = """
from pathlib import Path
def step(n):
    Path(f"{here}/ran-{n}").open("a").write("x")
    if n == 2:
        raise ValueError("no go")
    return n
""".replace("{here}", str(session.folder))
    call = "step, range(3), name='steps', chunk_size=1, attempts=1, return_exceptions=True"
    first = session.run(call.replace("return_exceptions=True", ""), definitions, PYTHONHASHSEED="1")
    assert "no go" in first["error"]
    again = session.run(call, "# a comment\n" + definitions, PYTHONHASHSEED="2")
    assert "error" not in again
    assert [again["job"]] == first["jobs"]
    assert [len((session.folder / f"ran-{n}").read_text()) for n in range(3)] == [1, 1, 1]


_MISTAKEN = """
import threading
lock = threading.Lock()
cycle = []
cycle.append(cycle)
class Holder:
    def __init__(self): self.held = threading.Lock()
    def run(self, x): return x
holder = Holder()
def lazy(x): yield x
async def later(x): return x
"""


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("lambda x: x, [1, float('nan')]", "items[1] is nan, which is not JSON"),
        ("lambda x: x, [{1, 2}]", "items[0] is {1, 2}, which is not JSON: JSON has no value of type set."),
        ("lambda x: x, [{'a': {3: 4}}]", "which is not JSON: its key 3 is not a text."),
        ("lambda x: x, [cycle]", "items[0] is a list that holds itself, or is nested too deeply."),
        ("lambda x: x, [(1, 2), [3, 4]]", "items[1] is [3, 4], and the first is a tuple."),
        ("lambda x: x, ['a', 5]", "items[1] is 5; an item is a text"),
        ("lambda x: lock, [1]", "function is a lambda; `lock`, which it uses, is a lock"),
        ("lambda x: x, [1], [2]", "cannot be called with 2 values an item: too many positional arguments."),
        ("lambda x, y: x, [1]", "cannot be called with 1 value an item: missing a required argument: 'y'."),
        ("lambda x, y: x, [1], 'abc'", "items is 'abc', one of several lists, and it is no list of values."),
        ("lambda x: x, [1], timeout='soon'", "timeout is 'soon'; it must be a time such as 90s or 2h"),
        ("None, [1]", "function is None; it must be a function, or 'module:function'"),
        (
            "holder.run, [1]",
            "function is Holder.run; an object that it uses is a lock, which cannot leave this process",
        ),
        ("lazy, [1]", "function is lazy, which returns a generator: none of its code runs"),
        ("later, [1]", "function is later, which returns a coroutine: none of its code runs"),
        ("lambda x: x, ['a\\nb']", "Put any other text into a list or dict."),
        ("lambda x: x, 5", "items is 5. Give a list (of URIs or tidemill.Item; for a function, of values too)"),
        ("7, [1]", "it must be a function, or 'module:function'"),
    ],
)
def test_mistakes_are_one_sentence_and_nothing_is_started(session, call, said):
    told = session.run(call, _MISTAKEN)
    assert said in told["error"]
    assert "\n" not in told["error"]
    assert told["jobs"] == []


def test_a_traceback_shows_the_lines_of_a_function_that_travels_by_value(session):
    traceback, said = session.run_file(
        "import json, tidemill\n\n"
        "def sharpness(number):\n"
        "    wrong = number / 0  # the author's own line\n"
        "    return wrong\n\n"
        "secret = 'not of the function'\n"
        "pipeline = tidemill.Pipeline.local(workers=1)\n"
        "failure, = pipeline.map(sharpness, [1], name='d', attempts=1, return_exceptions=True)\n"
        "print(json.dumps([failure.traceback, [line.said for line in pipeline.job('d').logs()]]))\n"
    )
    shown = '  File "drive.py", line 4, in sharpness\n    wrong = number / 0  # the author\'s own line\n'
    assert shown in traceback
    assert shown.splitlines()[0] in said
    (made,) = Path(session.folder).glob(".tidemill/jobs/*/code/*")
    assert b"not of the function" not in zstandard.ZstdDecompressor().stream_reader(made.read_bytes()).read()


MODULE = """
import importlib
from pathlib import Path

def beside(number): return Path(__file__).with_name("config.yaml").read_text()
def here(number): return open("config.yaml").read()
def other(number): return importlib.import_module("ot" + "her").value
def elsewhere(number): return open("/no/such/file").read()
"""


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("beside", None, "Modules travel by themselves; code=DIR (--code DIR) sends a folder with its files"),
        ("here", None, "Modules travel by themselves; code=DIR (--code DIR) sends a folder with its files"),
        ("here", ".", "this file is in pathlib.Path(__file__).parent, beside the code."),
        ("other", None, "code=DIR (--code DIR) sends a folder."),
        ("elsewhere", None, "No such file or directory: '/no/such/file'"),
        ("beside", ".", None),
        ("other", ".", None),
    ],
)
def test_a_file_beside_a_module_is_there_or_the_item_says_how_to_send_it(session, name, code, said):
    (session.folder / "sharp.py").write_text(MODULE)
    (session.folder / "config.yaml").write_text("1")
    (session.folder / "other.py").write_text("value = '1'")
    sent = f"sharp.{name}, [1], attempts=1, code={code!r}"
    found = session.run(f"{sent}, return_exceptions=True", "import sys; sys.path.insert(0, '.'); import sharp")
    (value,) = found["values"]
    if said is None:
        assert value == "1"
    else:
        job = tidemill.Pipeline.local(session.folder / ".tidemill").job(found["job"])
        (outcome,) = job.outcomes()
        assert outcome.error is not None
        assert said in outcome.error.splitlines()[-1]


def test_failed_items_run_again_with_the_corrected_function(session):
    printed = session.run_file(
        "import json, tidemill\n\n"
        "pipeline = tidemill.Pipeline.local(workers=1)\n"
        "values = pipeline.map(lambda n: 1 / n, [0, 1], name='d', attempts=1, return_exceptions=True)\n"
        "first = [str(type(value).__name__) for value in values]\n"
        "values.job.retry(code=lambda n: n + 7)\n"
        "print(json.dumps([first, list(values.job.values())]))\n"
    )
    assert printed == [["ItemFailedError", "float"], [7, 1.0]]
