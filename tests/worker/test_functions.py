"""Function items through the shim, in this machine's `python3`. Not proved here: Pythons older than the ones present
(the shim's syntax is checked against 3.8's grammar and its imports against the standard library)."""

import ast
import json
import math
import subprocess
import sys
from collections import Counter
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.worker.here import Here
from tidemill import Pipeline
from tidemill.worker.programs import shim

SHIM = Path(shim.__file__)
MODULE = """
import os, sys, time
with open(os.environ["IMPORTS"], "a") as file:
    file.write("import %d\\n" % os.getpid())

def trivial(uri):
    return uri.upper()

def by_name(index, output, uri="none"):
    with open(os.path.join(output, "name"), "w") as file:
        file.write("%d %s" % (index, uri))

def copied(input):
    assert open(input).read() == "text"
    os.unlink(input)

def labelled(uri, meta):
    assert (uri, meta) == ("a", {"label": 7})

def fails(uri):
    print("about to fail on", uri)
    deeper(uri)

def deeper(uri):
    raise ValueError("no " + uri)

def mixed(uri, index):
    print("item", index)
    print("error of", index, file=sys.stderr)
    if index == 3:
        os.kill(os.getpid(), 11)
    if index == 5:
        os._exit(7)
    if index == 7:
        time.sleep(300)
    if index == 9:
        sys.exit(4)
    if index == 11:
        sys.exit(0)

def hungry(uri, index):
    held = b"x" * (400 << 20) if index == 1 else b""
    time.sleep(300 if held else 0)

def children(uri):
    os.system("sleep 300 &")

def three(a, b, uri):
    pass

def lazy(uri):
    yield uri

async def later(uri):
    return uri
"""


def pythons() -> list[str]:
    """Every Python from 3.8 on that this machine has, at least the one of these tests."""
    known = [path for n in range(8, 20) for path in Path.home().glob(f".pyenv/versions/3.{n}.*/bin/python3.{n}")]
    return [sys.executable, *map(str, known)]


@pytest.fixture
def code(here, monkeypatch):
    (here.folder / "work.py").write_text(MODULE)
    return here


def run(here: Here, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    imports = f"IMPORTS={here.folder / 'imports'}"
    attempts = () if "--attempts" in arguments else ("--attempts", "1")
    return here.run("--workers", "1", *attempts, "--env", imports, *arguments, "--function", f"work:{name}")


def logged(here: Here, item: int) -> list[tuple[str, str]]:
    lines = [json.loads(line) for path in here.store.glob("jobs/*/local/logs/*") for line in path.open()]
    return [(line["stream"], line["message"]) for line in lines if line.get("item") == item and "stream" in line]


RETURNS = """
import math, os, pathlib, sys

class Model:
    pass

def cycle():
    found = []
    found.append(found)
    return found

VALUES = {
    "set": lambda: {1, 2},
    "nested": lambda: {"labels": [{1}]},
    "cycle": cycle,
    "object": Model,
    "generator": lambda: (n for n in range(3)),
    "inner": lambda: {"rows": (n for n in range(3))},
    "keys": lambda: {1: "one"},
    "pairs": lambda: {(1, 2): "pair"},
    "path": lambda: pathlib.Path("lost.png"),
    "digits": lambda: 10 ** 5000,
    "large": lambda: bytes(70 << 20),
    "nan": lambda: {"loss": math.nan},
    "long": lambda: "x" * 5000,
    "bytes": lambda: b"png",
    "half": lambda: "half a character: \\ud800",
    "nothing": lambda: None,
}

def value(uri):
    return VALUES[uri]()
"""
NOT_KEPT = "what the function returned ({}) cannot be kept: {}. Return JSON values with"
CANNOT_BE_KEPT = {
    "set": NOT_KEPT.format("set", "JSON has no value of type set"),
    "nested": NOT_KEPT.format("dict", "JSON has no value of type set"),
    "cycle": NOT_KEPT.format("list", "Circular reference detected"),
    "object": NOT_KEPT.format("Model", "JSON has no value of type Model"),
    "generator": "the function returned a generator, and none of its code has run: with `yield` or",
    "inner": NOT_KEPT.format("dict", "JSON has no value of type generator"),
    "keys": NOT_KEPT.format("dict", "it has a key that is not a text"),
    "pairs": NOT_KEPT.format("dict", "it has a key that is not a text"),
    "path": NOT_KEPT.format("PosixPath", "lost.png is not in the item's output folder, and is lost with its machine"),
    "digits": "what the function returned (int) cannot be kept: Exceeds the limit (4300",
    "large": "the function returned 70 MiB, and a value may have 64. Write a file into",
}


class TestValues:
    """A function's values are kept in every job, or their items fail."""

    def test_each_value_is_kept_or_fails_its_item(self, here):
        (here.folder / "returns.py").write_text(RETURNS)
        kept = ["nan", "long", "bytes", "half", "nothing"]
        ran = here.run("--name", "v", "--workers", "1", "--function", "returns:value", *CANNOT_BE_KEPT, *kept)
        assert ran.returncode == 1, ran.stderr
        outcomes = {outcome.uri: outcome for outcome in here.outcomes()}
        failed = {uri: one.error for uri, one in outcomes.items() if one.status == "failed"}
        assert list(failed) == list(CANNOT_BE_KEPT)
        for uri, words in CANNOT_BE_KEPT.items():
            assert failed[uri].startswith(words)
            assert "\n" not in failed[uri]
        # Another attempt would return the same.
        assert {one.attempts for one in outcomes.values()} == {1}
        job = Pipeline.local(here.store).job("v")
        values = dict(zip(outcomes, job.values(return_exceptions=True), strict=True))
        assert math.isnan(values["nan"]["loss"])
        assert [values[uri] for uri in kept[1:]] == ["x" * 5000, b"png", "half a character: \ud800", None]

    def test_more_values_in_files_than_may_lie_on_the_scratch_volume(self, here):
        (here.folder / "many.py").write_text("def value(uri):\n    return uri.encode()\n")
        items = ["--items", here.items(80), "--chunk-size", "80"]
        ran = here.run("--name", "v", "--workers", "1", *items, "--function", "many:value")
        assert ran.returncode == 0, ran.stderr
        assert list(Pipeline.local(here.store).job("v").values()) == [one.uri.encode() for one in here.outcomes()]


class TestOutcomes:
    def test_the_module_is_imported_once_a_slot(self, code):
        ran = run(code, "trivial", "--items", code.items(500))
        assert ran.returncode == 0, ran.stderr
        assert [(o.index, o.status, o.attempts, o.exit_code) for o in code.outcomes()] == [
            (n, "succeeded", 1, 0) for n in range(500)
        ]
        assert len((code.folder / "imports").read_text().splitlines()) == 1

    def test_values_are_given_by_the_names_of_the_parameters(self, code):
        assert run(code, "by_name", "a", "b").returncode == 0
        texts = [Path(o.output.removeprefix("file://"), "name").read_text() for o in code.outcomes()]
        assert texts == ["0 a", "1 b"]

    def test_metadata_reaches_programs_and_functions(self, code):
        (code.folder / "list.jsonl").write_text('{"uri": "a", "label": 7}\n')
        ran = code.run("--items", "list.jsonl", "--", "sh", "-c", 'test "$TIDEMILL_META" = \'{"label": 7}\'')
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert run(code, "labelled", "--items", "list.jsonl").returncode == 0

    def test_an_input_is_fetched_when_it_is_asked_for(self, code):
        (code.folder / "data.txt").write_text("text")
        assert run(code, "copied", "data.txt", "data.txt").returncode == 0
        assert (code.folder / "data.txt").exists()

    def test_an_exception_is_its_traceback(self, code):
        assert run(code, "fails", "a").returncode == 1
        (outcome,) = code.outcomes()
        assert (outcome.reason, outcome.attempts) == ("exception", 1)
        assert outcome.error.startswith("Traceback")
        assert outcome.error.endswith("ValueError: no a")
        assert "in deeper" in outcome.error
        assert "shim" not in outcome.error
        assert "<string>" not in outcome.error
        # Its log ends with it, too, as that of any program.
        trace = [("stderr", line) for line in outcome.error.split("\n")]
        assert logged(code, 0) == [("stdout", "about to fail on a"), *trace]

    def test_each_end_of_a_process_is_the_outcome_of_its_own_item(self, code):
        ran = run(code, "mixed", "--timeout", "10", "--items", code.items(40), "--chunk-size", "40")
        assert ran.returncode == 1, ran.stderr
        outcomes = code.outcomes()
        failed = {o.index: (o.reason, o.exit_code) for o in outcomes if o.status == "failed"}
        assert failed == {3: ("signal", -11), 5: ("exit", 7), 7: ("timeout", -15), 9: ("exit", 4)}
        assert all(logged(code, n) == [("stdout", f"item {n}"), ("stderr", f"error of {n}")] for n in range(40))
        # Of a process that several items share, each has what itself has said.
        assert (outcomes[3].error, outcomes[5].error) == ("error of 3", "error of 5")
        # One for the start and one after each of the three deaths; an exit by `sys.exit` costs no process.
        assert len((code.folder / "imports").read_text().splitlines()) == 4

    def test_an_items_memory_limit_is_its_own(self, code):
        ran = run(code, "hungry", "--memory", "200", "--items", code.items(3))
        assert ran.returncode == 1, ran.stderr
        assert [(o.status, o.reason) for o in code.outcomes()] == [
            ("succeeded", None),
            ("failed", "memory"),
            ("succeeded", None),
        ]

    def test_what_a_function_leaves_running_is_ended(self, code):
        assert run(code, "children", "a", "b").returncode == 0
        assert not code.processes()

    @pytest.mark.parametrize(("name", "kind"), [("lazy", "generator"), ("later", "coroutine")])
    def test_a_function_whose_code_has_not_run_is_no_success(self, code, name, kind):
        assert run(code, name, "--attempts", "2", "a").returncode == 1
        (outcome,) = code.outcomes()
        assert (outcome.reason, outcome.attempts) == ("exception", 1)
        assert f"returned a {kind}, and none of its code has run" in outcome.error

    def test_attempts_are_made_again(self, code):
        assert run(code, "fails", "--attempts", "2", "x").returncode == 1
        assert [o.attempts for o in code.outcomes()] == [2]


class TestStart:
    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("work:three", "the function needs a, b"),
            ("late:nothing", "has no attribute 'nothing'"),
            ("late:sep.x", "has no attribute 'x'"),
        ],
    )
    def test_a_function_that_cannot_be_called_stops_the_job(self, code, name, said):
        (code.folder / "late.py").write_text("from os import *\n")  # only an import shows what it defines
        ran = code.run("--items", code.items(200), "--env", f"IMPORTS={code.folder}/imports", "--function", name)
        assert ran.returncode == 1, ran.stdout
        assert code.ledger.is_cancelled()
        assert said in code.ledger.cancellation()["reason"]
        assert len(code.ledger.start_failures()) == 5

    def test_a_broken_import_is_told_with_its_traceback(self, code):
        (code.folder / "broken.py").write_text("import no_such_module_anywhere\ndef f(): ...\n")
        ran = code.run("--workers", "2", "--items", code.items(200), "--function", "broken:f")
        assert ran.returncode == 1
        assert "No module named 'no_such_module_anywhere'" in ran.stdout

    def test_an_interpreter_that_cannot_start_stops_the_job(self, code):
        python = code.folder / "python"
        python.write_text("#!/no/such/python3\n")
        python.chmod(0o755)
        ran = code.run("--items", code.items(50), "--python", str(python), "--function", "work:trivial")
        assert ran.returncode == 1
        assert f"{python} did not start" in ran.stdout


class TestShim:
    @pytest.mark.parametrize("name", ["stdout", "stderr"])
    def test_a_disk_that_another_item_has_filled_ends_no_process(self, monkeypatch, name):
        full = Mock(write=Mock(side_effect=OSError(28, "full")), flush=Mock(side_effect=OSError(28, "full")))
        monkeypatch.setattr(sys, name, full)
        error, code, *_, value, _ = shim._one(
            lambda values: values["uri"], {"uri": "a"}, shim._Peak(), lambda v: (v, None)
        )
        assert (error, code, value) == (None, 0, "a")
        full.flush.assert_called_once()

    def test_its_syntax_is_that_of_python_3_8(self):
        ast.parse(SHIM.read_text(), feature_version=(3, 8))

    def test_what_it_calls_is_there_since_python_3_8(self):
        command = [Path(sys.executable).with_name("vermin"), "-t=3.8-", SHIM]
        said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert said.returncode == 0, said.stdout

    def test_it_imports_the_standard_library_only(self):
        tree = ast.parse(SHIM.read_text())
        names = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
        assert not [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
        assert names <= set(sys.stdlib_module_names)

    @pytest.mark.parametrize("python", pythons())
    def test_every_python_present_serves(self, code, python):
        ran = run(code, "trivial", "a", "b", "--python", python)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert Counter(o.status for o in code.outcomes()) == {"succeeded": 2}

    @pytest.mark.parametrize("python", pythons())
    def test_a_function_by_value_is_run_by_its_own_minor_version_alone(self, here, python):
        """With the Python of these tests alone, this proves one half."""
        pipeline = Pipeline.local(here.folder / "store", workers=1)
        assert list(pipeline.map(lambda x: x + 1, [1], name="one-more", progress=False)) == [2]
        job = pipeline.job("one-more").id
        script = "import sys; print('{}.{}'.format(*sys.version_info))"
        asked = subprocess.run([python, "-c", script], capture_output=True, text=True, timeout=60, check=True)
        given, made = asked.stdout.strip(), f"{sys.version_info[0]}.{sys.version_info[1]}"
        where = ["--store", f"file://{here.folder}/store", "--python", python]
        ran = here.ask("run", "--job", job, *where)
        assert (ran.returncode, "Traceback" in ran.stderr) == (0 if given == made else 2, False), ran.stderr
        if given != made:
            assert f"--python is {python!r}; it must be Python {made}, which made the function of {job}" in ran.stderr
            assert f"this one is {given}." in ran.stderr
