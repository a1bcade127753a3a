"""What a submit finds out about a program and a function. What this cannot prove: what an image holds."""

import shlex

import pytest

from tests.unit.client_fakes import pipeline, uris
from tidemill.client import Pipeline
from tidemill.client.program.interpreters import code_words, script_of
from tidemill.descriptor import SPEC_VERSION
from tidemill.errors import CallerError

# A command, and its words that an interpreter reads as code.
CODE = [
    ("sh -c A", "A"),
    ("/bin/bash -euo pipefail -c A bash {input}", "A"),
    ("bash --norc -lc A -c {input}", "A"),
    ("env X=1 timeout 60 busybox sh -c A sh {input}", "A"),
    ("xargs -I@ sh -ec A", "A"),
    ("sh -x script.sh -c {input}", ""),
    ("sh {input}", ""),
    ("python3.11 -W ignore -Ic A {input}", "A"),
    ("python3 -cA", "-cA"),
    ("python3 -m module -c {input}", ""),
    ("python3 script.py -c {input}", ""),
    ("perl -i.bak -pe A -e B {input}", "A B"),
    ("perl -MFoo::Else script.pl {input}", ""),
    ("ruby -rjson -e A {input}", "A"),
    ("node --eval=A", "--eval=A"),
    ("Rscript -e A {input}", "A"),
    ("awk -F , -v x={index} A {input}", "A"),
    ("awk -f script {input}", ""),
    ("ssh host cat {input}", "host cat {input}"),
    ("eval A", "A"),
    ("features --config c -c {input}", ""),
]


@pytest.mark.parametrize(("command", "code"), CODE)
def test_what_an_interpreter_reads_as_code_is_known_by_its_place(command, code):
    words = shlex.split(command)
    assert " ".join(words[position] for position, _ in code_words(words)) == code


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("python3 -u features.py {input}", "features.py"),
        ("env bash -e run.sh {input}", "run.sh"),
        ("python3 -m features {input}", None),
        ("python3 -c A run.sh", None),
        ("features run.sh", None),
    ],
)
def test_the_script_of_an_interpreter(command, script):
    assert script_of(shlex.split(command)) == script


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of code; another one is the current folder."""
    files = {
        "run.sh": "#!/bin/sh\n",
        "windows.sh": "#!/bin/sh\r\necho\r\n",
        "bare.sh": "echo\n",
        "features.py": "from os import path as where\nif True:\n    def extract(uri): ...\nclass Model: ...\n",
        "open_ended.py": "from os.path import *\n",
        "lazy.py": "def __getattr__(name): ...\n",
        "broken.py": "def (:\n",
        "package/__init__.py": "",
        "package/deep.py": "def go(uri): ...\n",
    }
    for name, text in files.items():
        path = tmp_path / "code" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        path.chmod(0o644 if name in ("run.sh", "features.py") else 0o755)
    (tmp_path / "away").mkdir()
    monkeypatch.chdir(tmp_path / "away")
    return tmp_path / "code"


def submitted(folder, program):
    """The remarks, or the refusal."""
    target, backend = pipeline(max_spec=SPEC_VERSION)
    said: list[str] = []
    what = {"command": None, "function": program} if ":" in program else {"command": program.split()}
    try:
        target.submit(**what, items=uris(2), queue="cpu", code=folder, log=said.append)
    except CallerError as error:
        said = [f"refused: {error}"]
    assert bool(backend.arrays) == any(target.store.list("jobs")) == (not said[0].startswith("refused"))
    return "\n".join(said)


PROGRAMS = {
    "./run.sh {input} {output}": "refused: {code}/run.sh cannot be executed. Run `chmod +x run.sh`, or name its "
    "interpreter: sh run.sh",
    "./windows.sh {input} {output}": "refused: {code}/windows.sh has Windows line ends (CRLF), so its interpreter",
    "./bare.sh {input} {output}": "refused: {code}/bare.sh has no `#!` line",
    "sh windows.sh {input} {output}": "windows.sh has Windows line ends (CRLF), which shells misread",
    "sh run.sh {input} {output}": "code: 9 files",
    "features.py:extract": "refused: function is 'features.py:extract'; a module is named without .py",
    "features:extrat": "has no function 'extrat'. Did you mean 'extract'?",
    "features:extract": "code: 9 files",
    "features:where": "code: 9 files",
    "features:Model.run": "code: 9 files",
    "open_ended:anything": "code: 9 files",
    "lazy:anything": "code: 9 files",
    "broken:anything": "broken.py, line 1 cannot be parsed here",
    "package.deep:go": "code: 9 files",
    "package.deeper:go": "refused: function is 'package.deeper:go', and",
    "feature:extract": "has no module 'feature'; it must come from the image or code/requirements.txt. Did you mean",
    "json:loads": "code: 9 files",
}


@pytest.mark.parametrize(("program", "words"), PROGRAMS.items(), ids=PROGRAMS)
def test_what_is_known_before_anything_starts(folder, program, words):
    said = submitted(folder, program)
    assert words in said
    assert said.startswith("refused") == (words.startswith("refused") or "has no function" in words)
    assert words.startswith("code:") == said.startswith("code:"), "nothing else is said"


@pytest.mark.parametrize("word", ["x" * 300, "x" * 10_000, "a/" * 5_000])
def test_a_word_that_can_be_no_file_is_no_file(word):
    target, backend = pipeline()
    target.submit(["python3", "-c", "pass", word], items=uris(2), queue="cpu")
    assert backend.arrays


def test_a_local_job_names_its_files_by_full_paths(tmp_path, monkeypatch):
    (tmp_path / "features.py").write_text("")
    monkeypatch.chdir(tmp_path)
    here = Pipeline.local()
    job = here.submit(["python3", "-u", "features.py", "{uri}"], ["a"])
    assert job.spec.command == ["python3", "-u", str(tmp_path / "features.py"), "{uri}"]
    assert job.spec.name == "features"
    with pytest.raises(CallerError, match=r"feature\.py is not in this folder\. Did you mean 'features\.py'\?"):
        here.submit(["python3", "feature.py", "{uri}"], ["a"])
    with pytest.raises(CallerError, match=r"command\[0\] is 'pythn3', and no program of this machine has that name"):
        here.submit(["pythn3", "features.py", "{uri}"], ["a"])
    for program in (["sh", "-c", "echo $1", "sh", "{uri}"], ["python3", "-m", "json.tool", "{input}"]):
        here.submit(program, ["b"])
