"""Functions by value: their fingerprint, what travels with them, and what is refused. Not proved here: a real GPU."""

import importlib
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import tarfile
import threading
import time
import types
from functools import cache, partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pandas
import pytest
import zstandard

from tidemill.client.program import by_value
from tidemill.client.program.importable import shipped
from tidemill.client.program.uses import MAX_BYTES
from tidemill.code import pack
from tidemill.errors import CallerError


def archive(function):
    return pack(None, parts=shipped(function).parts)


def names(packed):
    with packed.path.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as stream:
        return [member.name for member in tarfile.open(fileobj=stream, mode="r|")]


# ---- the same function --------------------------------------------------------------------------------------------

CELLS = """
import enum, functools, json, re, sys
from dataclasses import dataclass, field
import numpy as np
from tidemill.client.program.importable import shipped
from tidemill.code import pack

def cell(source, into):
    # As a notebook does: other names of files in each session, and lines of their own.
    exec(compile("\\n" * LINES + source, f"/tmp/ipykernel_{LINES}/1.py", "exec"), into)

def identity(source):
    into = {"__name__": "__main__", **globals()}
    cell(source, into)
    vars(sys.modules["__main__"]).update(into)
    return pack(None, parts=shipped(into["f"]).parts).identity

def identities(source):
    before = dict(globals())
    try:
        return [identity(source), identity(source)]
    finally:
        globals().clear()
        globals().update(before)

LINES = int(sys.argv[1])
print(json.dumps({name: identities(source) for name, source in json.loads(sys.argv[2]).items()}))
"""
SOURCES = {
    "a set in the code": "def f(x): return x in {'a', 'b', 'c', 'd', 'e'}",
    "a set that it reads": "words = {'a', 'b', 'c', 'd'}\ndef f(x): return x in words",
    "a dict of sets": "table = {'k': frozenset('abcdef'), 'l': {1: {'x', 'y', 'z'}}}\ndef f(x): return table[x]",
    "a class": "class A:\n    kinds = {'q', 'r', 's'}\n    def g(self): return self.kinds\ndef f(x): return A().g()",
    "a dataclass": (
        "@dataclass\nclass P:\n    x: int = 0\n    tags: set = field(default_factory=lambda: {'a', 'b', 'c'})\n"
        "def f(x): return P(x)"
    ),
    "an enum": "class C(enum.Enum):\n    RED = 'r'\n    BLUE = 'b'\ndef f(x): return C(x).name",
    "an array and a pattern": "a = np.arange(9.0)\np = re.compile('x+')\ndef f(x): return bool(p.match(x)) and a.sum()",
    "another function": "def g(x): return f(x - 1)\ndef f(x): return x and g(x)",
    "itself, remembered": "@functools.cache\ndef f(n): return n and f(n - 1)",
    "a partial of a lambda": "f = functools.partial(lambda a, b: a + b, 3)",
    "defaults": "def f(x, names={'u', 'v', 'w'}, *, k=(1, 'z')): return x",
}


@cache
def session(seed: str) -> dict[str, list[str]]:
    """The identities that a new interpreter finds for each source, twice."""
    done = subprocess.run(
        [sys.executable, "-c", CELLS, seed, json.dumps(SOURCES)],
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", SOURCES)
def test_the_same_cell_in_another_session_is_the_same_job(name):
    """Hashes, file names and line numbers differ between the sessions, and the random ids of classes."""
    assert len({*session("1")[name], *session("2")[name]}) == 1


def test_another_cell_is_another_job():
    """Sources of one session leave nothing to each other."""
    assert len({session("1")[name][0] for name in SOURCES}) == len(SOURCES)


def made(source, **names: Any):
    space = {"__name__": "__main__", **names}
    exec(source, space)
    return space["f"]


CHANGES = {
    "a constant": ("def f(x): return x + 1", "def f(x): return x + 2"),
    "a name": ("def f(x): return x.upper()", "def f(x): return x.lower()"),
    "what it reads": ("k = 1\ndef f(x): return k", "k = 2\ndef f(x): return k"),
    "a type of what it reads": ("k = 1\ndef f(x): return k", "k = True\ndef f(x): return k"),
    "a function that it calls": ("def g(): return 1\ndef f(x): return g()", "def g(): return 2\ndef f(x): return g()"),
    "a default": ("def f(x, k=1): return k", "def f(x, k=2): return k"),
    "a method of a class": (
        "class A:\n    def g(self): return 1\ndef f(x): return A().g()",
        "class A:\n    def g(self): return 2\ndef f(x): return A().g()",
    ),
    "an array": ("k = np.zeros(3)\ndef f(x): return k", "k = np.ones(3)\ndef f(x): return k"),
    "a captured value": ("def m(k): return lambda x: k\nf = m([1, 2])", "def m(k): return lambda x: k\nf = m([1, 3])"),
    "an argument of a partial": ("f = partial(pow, 2)", "f = partial(pow, 3)"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_function_does_tells_it_from_another(name):
    first, second = (archive(made(text, np=numpy, partial=partial)).identity for text in CHANGES[name])
    assert first != second


def test_a_number_too_long_for_decimal_digits_travels():
    one, other = (archive(made("def f(x): return x % n", n=10**5000 + more)).identity for more in (0, 1))
    assert one != other


def test_comments_and_what_it_does_not_use_change_nothing():
    plain = archive(made("def f(x): return x + 1")).identity
    other = "import os\nunused = {7}\n\ndef f(x):\n    # why\n    return x + 1\n"
    assert archive(made(other)).identity == plain


# ---- what travels -------------------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder of somebody's own with modules, a package with data, and files that nothing needs."""
    for name, text in {
        "helpers.py": "import deeper\ndef double(x): return 2 * x\n",
        "deeper.py": "from shop import tools\n",
        "shop/__init__.py": "",
        "shop/tools.py": "",
        "shop/data/table.csv": "a,b\n",
        "unrelated.py": "",
        "notes.ipynb": "{}",
        "spaces/part.py": "import unrelated\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in ("helpers", "deeper", "shop", "shop.tools", "unrelated", "spaces", "spaces.part"):
        sys.modules.pop(name, None)


def own(packed):
    return [name for name in names(packed) if not name.startswith("this_session/")]


SHOP = ["shop/__init__.py", "shop/data/table.csv", "shop/tools.py"]


@pytest.mark.parametrize(
    ("source", "travels"),
    [
        ("import helpers\ndef f(x): return helpers.double(x)", ["deeper.py", "helpers.py", *SHOP]),
        ("from helpers import double\ndef f(x): return double(x)", ["deeper.py", "helpers.py", *SHOP]),
        ("def f(x):\n    import helpers\n    return helpers.double(x)", ["deeper.py", "helpers.py", *SHOP]),
        ("import shop.tools\ndef f(x): return shop.tools", SHOP),
        ("import spaces.part\ndef f(x): return spaces.part", ["spaces/part.py", "unrelated.py"]),
        ("import numpy\ndef f(x): return numpy.pi * x", []),
    ],
)
def test_modules_of_own_folders_travel_with_what_they_import_and_nothing_else(project, source, travels):
    assert own(archive(made(source))) == travels


def test_an_edited_module_is_another_job_and_an_edited_notebook_is_not(project):
    source = "import helpers\ndef f(x): return helpers.double(x)"
    first = archive(made(source)).identity
    (project / "notes.ipynb").write_text("[]")
    assert archive(made(source)).identity == first
    (project / "deeper.py").write_text("from shop import tools\nx = 1\n")
    assert archive(made(source)).identity != first


def test_a_folder_of_code_goes_besides(project):
    packed = pack(project, parts=shipped(made("import helpers\ndef f(x): return helpers.double(x)")).parts)
    assert {"helpers.py", "unrelated.py", "this_session/functions.pickle"} <= set(names(packed))


def test_versions_of_installed_packages_are_written_down():
    parts = shipped(made("import numpy\ndef f(x): return numpy.pi * x")).parts
    assert parts is not None
    told = json.loads((parts.folders["this_session"] / "made.json").read_text())
    assert told["python"] == f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert told["packages"] == {"numpy": numpy.__version__}


# ---- what is refused ----------------------------------------------------------------------------------------------

GPU = SimpleNamespace(__cuda_array_interface__={}, device="cuda:0")
REFUSED = {
    "a lock": (lambda folder: threading.Lock(), "a lock"),
    "a socket": (lambda folder: socket.socket(socket.AF_UNIX), "an open socket"),
    "an open file": (lambda folder: (folder / "x").open("w"), "an open file"),
    "a lock inside": (lambda folder: {"a": [threading.Lock()]}, "a lock"),
    "a generator": (lambda folder: iter(()) and (n for n in [1]), "a generator"),
    "a tensor on a GPU": (lambda folder: GPU, "in the memory of a GPU"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_what_belongs_to_this_process_is_refused_by_its_name(name, tmp_path):
    thing, said = REFUSED[name]
    for function in (
        made("def f(x): return thing", thing=thing(tmp_path)),
        made("def m(thing): return lambda x: thing\nf = m(thing)", thing=thing(tmp_path)),
        made("def g(): return thing\ndef f(x): return g()", thing=thing(tmp_path)),
    ):
        with pytest.raises(CallerError) as raised:
            shipped(function)
        assert raised.value.what == "function"
        assert f"; `thing`, which it uses, is {said}, which cannot leave this process" in raised.value.problem
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "large",
    [
        lambda: pandas.DataFrame(numpy.zeros((2, 1 << 27)).T, copy=False),
        lambda: numpy.zeros(1 << 28),
        lambda: [numpy.zeros(1 << 28)],
        lambda: numpy.zeros((2, 1 << 27))[:, ::2],
    ],
    ids=["a frame", "an array", "an array in a list", "a strided array"],
)
def test_two_gigabytes_are_refused_without_being_copied(large):
    """Their pages are not even touched."""
    function = made("def f(x): return large", large=large())
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    with pytest.raises(CallerError, match=r"`large`, which it uses, is a \w+ of \S+ \w+, and a function may take"):
        shipped(function)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10
    assert time.monotonic() - started < 5


def test_many_small_objects_are_bounded_and_what_fits_travels():
    with pytest.raises(CallerError, match="`large`, which it uses, is large"):
        shipped(made("def f(x): return large", large=list(range(3_000_000))))
    packed = archive(made("def f(x): return fits", fits=numpy.zeros(MAX_BYTES // 8 - 10_000)))
    assert packed.size > MAX_BYTES - 100_000


def test_a_nesting_without_end_is_refused():
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(CallerError, match="nested too deeply"):
        shipped(made("def f(x): return deep", deep=deep))


def test_a_module_that_shadows_the_standard_library_is_refused(tmp_path, monkeypatch):
    importlib.import_module("statistics")
    (tmp_path / "statistics.py").write_text("def mean(x): return x\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "statistics")
    function = made("import statistics\ndef f(x): return statistics.mean(x)")
    with pytest.raises(CallerError) as raised:
        shipped(function)
    assert f"uses statistics, which is {tmp_path}/statistics.py here" in raised.value.problem
    assert raised.value.fix == "Rename the file."


# ---- on a machine -------------------------------------------------------------------------------------------------


def imported(function, tmp_path, **made):
    """What the package of a function says when it is imported, with other words about where it was made."""
    parts = shipped(function).parts
    assert parts is not None
    folder = tmp_path / "this_session"
    shutil.copytree(parts.folders["this_session"], folder)
    told = json.loads((folder / "made.json").read_text()) | made
    (folder / "made.json").write_text(json.dumps(told))
    command = [sys.executable, "-c", "import this_session; print(this_session.f(1))"]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)


def test_any_python_from_3_8_on_can_say_that_it_is_another():
    command = [Path(sys.executable).with_name("vermin"), "-t=3.8-", by_value._LOADER]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_another_python_names_both(tmp_path):
    ended = imported(made("def f(x): return x"), tmp_path, python="3.7")
    assert ended.returncode == 1
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    said = f"made with Python 3.7 and travels as its code; this machine has Python {here} ({sys.executable})."
    assert said in ended.stderr.splitlines()[-1]


def test_another_version_of_a_package_is_named_and_the_function_runs(tmp_path):
    function = made("import numpy\ndef f(x): return int(numpy.array(x))")
    ended = imported(function, tmp_path, packages={"numpy": "1.0", "no-such-package": "1"})
    assert (ended.returncode, ended.stdout) == (0, "1\n")
    assert ended.stderr == f"numpy is {numpy.__version__} here, and 1.0 where the function was made\n"


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    module = types.ModuleType("rare")
    module.__spec__ = ModuleSpec("rare", None, origin="/opt/python/site-packages/rare.py")
    module.__spec__.has_location = True
    monkeypatch.setitem(sys.modules, "rare", module)
    ended = imported(made("def f(x): return rare.go(x)", rare=module), tmp_path)
    assert ended.returncode == 1
    assert f"the function uses rare, which this Python ({sys.executable}) does not have" in ended.stderr
