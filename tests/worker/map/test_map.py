"""`pipeline.map` on this machine, with real processes. Not proved here: a cloud's machines (tests/e2e/test_map.py)."""

import importlib
import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

from tests.worker.containers import until
from tests.worker.here import SECONDS, Here
from tidemill import Pipeline
from tidemill.errors import ItemFailedError
from tidemill.worker.programs import shim
from tidemill.worker.programs.shim import _CannotKeepError, _Keep
from tidemill.worker.programs.shim_process import Answer

MODULE = """
import math, os, pathlib, time

import numpy

def every(uri, index, output):
    mask = pathlib.Path(output) / "mask.png"
    mask.write_text(uri)
    return [
        None,
        {"text": "é", "numbers": [1, 2.5, True], "scalar": numpy.float32(1.5), "pair": (1, 2)},
        bytes(range(256)),
        numpy.arange(6, dtype="int16").reshape(2, 3),
        "x" * 5000,
        {"loss": math.nan},
        mask,
        {"masks": [mask]},
    ][index]

def fails(uri):
    if uri == "b":
        raise ValueError("no " + uri)
    return uri.upper()

def slow(uri):
    time.sleep(0.02 if uri == "first" else 300)
    return uri
"""

PROGRAM = """
import threading
import tidemill, work
values = tidemill.Pipeline.local(workers=1).map(work.slow, ["first", "second"], name={name!r}, chunk_size=1)
print(next(values), flush=True)
{then}
"""


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A module of functions in a folder of its own, which asks for a package that does not exist."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "work.py").write_text(MODULE)
    (source / "requirements.txt").write_text("no-such-package==1\n")
    monkeypatch.syspath_prepend(source)
    monkeypatch.setenv("TIDEMILL_SCRATCH", str(tmp_path / "scratch"))
    yield importlib.import_module("work")
    sys.modules.pop("work")


def test_every_kind_of_value_comes_back(work, tmp_path):
    """What the folder's requirements.txt names is not installed: this Python has its own packages."""
    pipeline = Pipeline.local(tmp_path / "store", workers=2)
    mapped = pipeline.map(work.every, list("abcdefgh"), chunk_size=4)
    none, plain, data, array, long, nan, mask, masks = mapped
    assert (none, data, long) == (None, bytes(range(256)), "x" * 5000)
    assert plain == {"text": "é", "numbers": [1, 2.5, True], "scalar": 1.5, "pair": [1, 2]}
    assert (array.dtype, array.tolist()) == (numpy.dtype("int16"), [[0, 1, 2], [3, 4, 5]])
    assert math.isnan(nan["loss"])
    assert Path(mask.removeprefix("file://")).read_text() == "g"
    assert Path(masks["masks"][0].removeprefix("file://")).read_text() == "h"
    assert mapped.job.status().state == "succeeded"


def test_what_failed_runs_again_with_corrected_code(work, tmp_path):
    pipeline = Pipeline.local(tmp_path / "store", workers=1)
    settings = {"attempts": 1, "name": "again", "return_exceptions": True, "progress": False}
    mapped = pipeline.map(work.fails, ["a", "b"], **settings)
    assert next(mapped) == "A"
    assert isinstance(next(mapped), ItemFailedError)
    source = tmp_path / "source"
    (source / "work.py").write_text(MODULE.replace('raise ValueError("no " + uri)', 'return "corrected"'))
    mapped.job.retry(code=source)
    assert list(mapped.job.values()) == ["A", "corrected"]


def test_a_failure_shows_the_functions_own_traceback_and_a_name_goes_on_from_it(work, tmp_path):
    pipeline = Pipeline.local(tmp_path / "store", workers=1)
    mapped = pipeline.map(work.fails, ["a", "b", "c"], name="go-on", attempts=1, chunk_size=1)
    assert next(mapped) == "A"
    with pytest.raises(ItemFailedError) as raised:
        next(mapped)
    assert 'raise ValueError("no " + uri)' in str(raised.value.__cause__)
    assert "shim" not in str(raised.value.__cause__)
    *found, last = pipeline.map(
        work.fails, ["a", "b", "c"], name="go-on", attempts=1, chunk_size=1, return_exceptions=True
    )
    assert (found[0], found[1].index, last) == ("A", 1, "C")


@pytest.mark.parametrize(
    ("name", "then", "how", "left"),
    [
        (None, "next(values)", signal.SIGINT, True),
        (None, "threading.Event().wait()", signal.SIGINT, True),
        ("kept", "next(values)", signal.SIGKILL, False),
    ],
)
def test_the_work_ends_with_the_program_that_began_it(here: Here, name, then, how, left):
    """After Ctrl-C a job without a name is cancelled, also when the program does something else at that moment. A kill
    leaves no process either, and what is finished stays."""
    (here.folder / "source").mkdir()
    (here.folder / "source" / "work.py").write_text(MODULE)
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(name=name, then=then)],
        cwd=here.folder,
        env=here.environment | {"PYTHONPATH": "source"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    here.started.append(program)
    assert program.stdout is not None
    assert program.stdout.readline() == b"first\n"
    os.kill(program.pid, how)
    program.wait(SECONDS)
    until(lambda: not here.processes(), "the end of every process")
    assert here.ledger.is_cancelled() == left
    assert [outcome.value for outcome in here.outcomes()] == ["first"]


def test_a_program_that_ignores_ctrl_c_can_cancel_its_work(here: Here):
    """A shell starts programs of scripts in the background like that."""
    (here.folder / "source").mkdir()
    (here.folder / "source" / "work.py").write_text(MODULE)
    ignores = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
    patient = f"from tidemill.services.local import background; background.PAUSE_SECONDS = {10 * SECONDS}"
    program = PROGRAM.format(name=None, then="values.job.cancel()")
    subprocess.run(
        [sys.executable, "-c", f"{ignores}; {patient}; {program}"],
        cwd=here.folder,
        env=here.environment | {"PYTHONPATH": "source"},
        stdin=subprocess.DEVNULL,
        timeout=SECONDS,
        check=True,
    )
    until(lambda: not here.processes(), "the end of every process")
    assert here.ledger.is_cancelled()


# ---- what is kept of a value --------------------------------------------------------------------------------------


class Odd:
    pass


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"a": {1: "b"}}, "it has a key that is not a text"),
        ([b"bytes in a list"], "JSON has no value of type bytes"),
        ({"array": numpy.arange(3)}, "JSON has no value of type ndarray"),
        (numpy.array([Odd()], dtype=object), "a NumPy array of Python objects"),
    ],
)
def test_what_cannot_be_kept_is_said(tmp_path, value, said):
    with pytest.raises(_CannotKeepError, match=said):
        _Keep(str(tmp_path / "values" / "0"), {"output": str(tmp_path / "output")})(value)
    assert not (tmp_path / "values" / "0").exists()


def test_short_json_stays_in_the_record(tmp_path):
    keep = _Keep(str(tmp_path / "values" / "0"), {})
    assert keep({"loss": numpy.float32(0.5), "n": numpy.int64(3)}) == ({"loss": 0.5, "n": 3}, None)
    assert not (tmp_path / "values" / "0").exists()


def test_a_path_is_that_of_a_file_in_the_output_folder(tmp_path):
    output = tmp_path / "output"
    (output / "deep").mkdir(parents=True)
    (output / "deep" / "file").touch()
    (tmp_path / "outside").touch()
    keep = _Keep(str(tmp_path / "values" / "0"), {"output": str(output), "output_uri": "s3://b/out/0/"})
    assert keep(output / "deep" / ".." / "deep" / "file") == ("s3://b/out/0/deep/file", None)
    for wrong in (output / "none", output / ".." / "outside", output):
        with pytest.raises(_CannotKeepError):
            keep(wrong)


def test_a_value_has_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(shim, "VALUE_FILE_BYTES", 1 << 20)
    keep = _Keep(str(tmp_path / "values" / "0"), {})
    for large in (bytes(2 << 20), numpy.zeros(1 << 18), "x" * (2 << 20)):
        with pytest.raises(_CannotKeepError, match="the function returned 2 MiB, and a value may have 1"):
            keep(large)
    assert keep("x" * (1 << 19)) == (None, "tidemill-value.json")
    assert json.loads((tmp_path / "values" / "0" / "tidemill-value.json").read_bytes()) == "x" * (1 << 19)


def test_a_file_waits_while_many_are_on_their_way(tmp_path, monkeypatch):
    for n in range(shim.VALUE_FILES):
        _Keep(str(tmp_path / str(n)), {})(b"value")
    waited = []
    monkeypatch.setattr(
        shim.time, "sleep", lambda seconds: waited.append((tmp_path / "0").rename(tmp_path.parent / "sent"))
    )
    assert _Keep(str(tmp_path / "more"), {})(b"value") == (None, "tidemill-value.bin")
    assert len(waited) == 1


@pytest.mark.parametrize("file", ["../../etc/passwd", "tidemill-value.exe", 7, ["tidemill-value.json"]])
def test_an_answer_names_a_file_of_a_value_and_no_other(file):
    """The function can write anything to the pipe of its answers."""
    answer = [0, None, 0, 0.1, 0.1, 10, 0, 0, None]
    assert Answer.read([*answer, "tidemill-value.json"]).file == "tidemill-value.json"
    with pytest.raises(ValueError, match="another file"):
        Answer.read([*answer, file])
