"""Malformed jobs: one line with argument, value, what is allowed, what to do; exit code 2; nothing made.

What this cannot prove: mistakes that only a cloud can see.
"""

import json
import re
from pathlib import Path

import pytest

from tests.unit.client_fakes import FakeBackend, descriptor, gpu_machine, queue
from tidemill.cli import run
from tidemill.client import site as site_module
from tidemill.descriptor import SPEC_VERSION, Resources, Rung

PROGRAM = ["--", "python3", "x.py", "{input}", "{output}"]
ITEM = "s3://raw/1.jpg"


@pytest.fixture
def stack(tmp_path, monkeypatch):
    """A pipeline in a folder, and its queue."""
    queues = {
        "cpu": queue(),
        "gpu": queue(machines=[gpu_machine()], item=Resources(cpus=4, memory_mib=8192, gpus=1)),
        "small": queue(capacity=[Rung(market="spot", max_cpus=4)]),
    }
    store = tmp_path / "store"
    store.mkdir()
    found = descriptor(f"file://{store}", queues, region="mars-north-1", max_spec=SPEC_VERSION)
    (store / "pipeline.json").write_text(found.model_dump_json())
    backend = FakeBackend()
    monkeypatch.setattr(site_module, "open_backend", lambda descriptor, store: backend)
    monkeypatch.setenv("TIDEMILL_PIPELINE", found.uri)
    monkeypatch.delenv("TIDEMILL_DEBUG", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.txt").write_text("\n  \n\r\n")
    (tmp_path / "latin.txt").write_bytes("s3://raw/1.jpg\ns3://raw/caf\xe9.jpg\n".encode("latin-1"))
    (tmp_path / "nul.txt").write_bytes(b"s3://raw/1.jpg\n\ns3://raw/\0.jpg\n")
    (tmp_path / "long.txt").write_bytes(b"s3://raw/" + b"x" * 1_000_000 + b"\n")
    (tmp_path / "relative.txt").write_text("s3://raw/1.jpg\nphotos/2.jpg\n")
    (tmp_path / "unreadable").mkdir()
    (tmp_path / "local.py").write_text("")
    return store, backend


SUBMITS = {
    "unknown queue, nearest offered": (
        ["--queue", "cqu", ITEM, *PROGRAM],
        "There is no queue 'cqu' in this pipeline, which has: cpu, gpu, small.",
    ),
    "no queue where there are several": ([ITEM, *PROGRAM], "queue is not given; this pipeline has: cpu, gpu, small."),
    "a limit of nothing": (
        ["--queue", "cpu", "--max-usd", "0", ITEM, *PROGRAM],
        "max_usd is 0.0; it must be in USD, above 0 and at most 1000000000. Leave it out for no limit.",
    ),
    "a limit that is no number": (
        ["--queue", "cpu", "--max-usd", "nan", ITEM, *PROGRAM],
        "max_usd is nan; it must be in USD, above 0",
    ),
    "a limit in another currency": (["--queue", "cpu", "--max-usd", "50EUR", ITEM, *PROGRAM], "--max-usd"),
    "a price below nothing": (
        ["--queue", "cpu", "--max-usd", "5", "--usd-per-item-hour", "-1", ITEM, *PROGRAM],
        "usd_per_item_hour is -1.0; it must be in USD, above 0",
    ),
    "a price without a limit": (
        ["--queue", "cpu", "--usd-per-item-hour", "0.1", ITEM, *PROGRAM],
        "usd_per_item_hour is given without max_usd",
    ),
    "a limit where no price is known": (
        ["--queue", "cpu", "--max-usd", "5", ITEM, *PROGRAM],
        "max_usd needs a price, and none is known of queue 'cpu' in mars-north-1.",
    ),
    "unknown image": (
        ["--queue", "cpu", "--image", "defualt", ITEM, *PROGRAM],
        "There is no image 'defualt' in queue 'cpu', which has: default. Did you mean 'default'?",
    ),
    "no items": (["--queue", "cpu", *PROGRAM], "There are no items in items."),
    "an empty list": (
        ["--queue", "cpu", "--items", "empty.txt", *PROGRAM],
        "There are no items in items file empty.txt.",
    ),
    "a list that is not there": (
        ["--queue", "cpu", "--items", "tlies.txt", *PROGRAM],
        "tlies.txt does not exist. --items takes a list",
    ),
    "a folder without files": (
        ["--queue", "cpu", "--items", "unreadable", *PROGRAM],
        "There are no items in items folder unreadable.",
    ),
    "a column of what has none": (
        ["--queue", "cpu", "--items", "relative.txt", "--items-column", "uri", "--items-format", "text", *PROGRAM],
        "items_column is 'uri', but items file relative.txt is read as text, and only CSV has columns.",
    ),
    "a shell that would read an item's name as code": (
        ["--queue", "cpu", "--shell", ITEM, "--", "cat {input} | wc -l"],
        '"$TIDEMILL_INPUT" in place of {input}',
    ),
    "a template that was not filled in": (
        ["--queue", "cpu", "s3://[BUCKET]/x.jpg", *PROGRAM],
        "items[0] is 's3://[BUCKET]/x.jpg', which is not a valid URI",
    ),
    "an item's name in code of a shell": (
        ["--queue", "cpu", ITEM, "--", "timeout", "9", "bash", "-euo", "pipefail", "-c", "wc -c < {input}"],
        '--shell -- \'sha256sum "$TIDEMILL_INPUT" > "$TIDEMILL_OUTPUT/sum.txt"\', or pass an argument: sh -c',
    ),
    "an item's name in code of Python": (
        ["--queue", "cpu", ITEM, "--", "python3", "-c", "print('{uri}')"],
        "command[2] is code for python3: {uri} in it would let an item's name run as code. Pass {uri} as an argument",
    ),
    "a command line in one word": (
        ["--queue", "cpu", ITEM, "--", "python3 x.py {input} {output}"],
        "a whole command line in one word. Leave the quotes out",
    ),
    "a placeholder with a typo": (
        ["--queue", "cpu", ITEM, "--", "x", "{inptu}"],
        "{inptu} in the command is not a placeholder. Did you mean 'input'?",
    ),
    "code that is not sent": (["--queue", "cpu", ITEM, "--", "{code}/x", "{input}"], "and no code is sent. Give the"),
    "a script that stays here": (
        ["--queue", "cpu", ITEM, "--", "python3", "-u", "local.py", "{input}"],
        "local.py is a file of this machine, and the queue's machines do not have it",
    ),
    "a program that stays here": (["--queue", "cpu", ITEM, "--", "./local.py", "{input}"], "Send its folder: --code ."),
    "a module with its ending": (
        ["--queue", "cpu", ITEM, "--function", "local.py:run"],
        "a module is named without .py: --function local:run",
    ),
    "a shell and several words": (
        ["--queue", "cpu", "--shell", ITEM, "--", "cat", "$TIDEMILL_INPUT"],
        "--shell takes one text after --",
    ),
    "a list that is not UTF-8": (
        ["--queue", "cpu", "--items", "latin.txt", *PROGRAM],
        "items file latin.txt, line 2 is not UTF-8 (byte 0xe9 at column 13). Save the list as UTF-8",
    ),
    "a NUL in a list": (
        ["--queue", "cpu", "--items", "nul.txt", *PROGRAM],
        "nul.txt, line 3 is 's3://raw/\\x00.jpg', which holds a NUL",
    ),
    "a line of a megabyte": (["--queue", "cpu", "--items", "long.txt", *PROGRAM], "line 1 is longer than 65536 bytes"),
    "a relative path": (
        ["--queue", "cpu", "--items", "relative.txt", *PROGRAM],
        "items file relative.txt, line 2 is 'photos/2.jpg', a relative path; give a URI",
    ),
    "an empty URI": (["--queue", "cpu", "", *PROGRAM], "items[0] is empty"),
    "items twice": (
        ["--queue", "cpu", "--items", "empty.txt", ITEM, *PROGRAM],
        "and the URI 's3://raw/1.jpg' is given too",
    ),
    "no program": (["--queue", "cpu", ITEM], "command is empty; give the program that runs for each item after `--`"),
    "nothing after the dashes": (["--queue", "cpu", ITEM, "--"], "command is empty"),
    "an argument of 200 KiB": (
        ["--queue", "cpu", ITEM, "--", "echo", "x" * 200_000],
        "command[1] has 200000 bytes; Linux accepts 131071",
    ),
    "a name with capitals": (["--queue", "cpu", "--name", "Tiles", ITEM, *PROGRAM], "name is 'Tiles'"),
    "a name that is too long": (["--queue", "cpu", "--name", "x" * 42, ITEM, *PROGRAM], "name is 'xxx"),
    "an empty name": (["--queue", "cpu", "--name", "", ITEM, *PROGRAM], "name is ''"),
    "a GPU item on a CPU queue": (
        ["--queue", "cpu", "--gpus", "1", ITEM, *PROGRAM],
        "gpus is 1, but queue 'cpu' has no machine with a GPU.",
    ),
    "an item with more CPUs than any machine": (
        ["--queue", "cpu", "--cpus", "17", ITEM, *PROGRAM],
        "an item needs 17 CPUs, 2048 MiB; no machine of queue 'cpu' is large enough (the largest, c7i.4xlarge: 16 CPUs",
    ),
    "an item with all the memory of the largest machine": (
        ["--queue", "cpu", "--memory", "32768", ITEM, *PROGRAM],
        "no machine of queue 'cpu' is large enough (the largest, c7i.4xlarge: 16 CPUs, 29491 MiB for containers)",
    ),
    "slots that fit no machine": (["--queue", "cpu", "--slots", "17", ITEM, *PROGRAM], "a container of 17 slots needs"),
    "an item larger than max_cpus": (
        ["--queue", "small", ITEM, *PROGRAM],
        "so a machine of 8 CPUs; queue 'small' may start 4 CPUs (max_cpus)",
    ),
    "a part of a CPU on AWS Batch": (
        ["--queue", "cpu", "--cpus", "0.5", ITEM, *PROGRAM],
        "cpus is 0.5; it must be a whole number on AWS Batch. Use 1,",
    ),
    "no CPU": (["--queue", "cpu", "--cpus", "0", ITEM, *PROGRAM], "cpus is 0.0; it must be more than 0"),
    "a CPU that is no number": (["--queue", "cpu", "--cpus", "two", ITEM, *PROGRAM], "'--cpus': 'two' is not a valid"),
    "CPUs that are not a number": (["--queue", "cpu", "--cpus", "nan", ITEM, *PROGRAM], "cpus is nan"),
    "no memory": (["--queue", "cpu", "--memory", "0", ITEM, *PROGRAM], "memory_mib is 0"),
    "fewer than no GPUs": (["--queue", "cpu", "--gpus", "-1", ITEM, *PROGRAM], "gpus is -1"),
    "no slots": (["--queue", "cpu", "--slots", "0", ITEM, *PROGRAM], "slots is 0"),
    "chunks of nothing": (["--queue", "cpu", "--chunk-size", "0", ITEM, *PROGRAM], "chunk_size is 0"),
    "items that take no time": (["--queue", "cpu", "--item-seconds", "0", ITEM, *PROGRAM], "item_seconds is 0.0"),
    "a time limit in words": (["--queue", "cpu", "--timeout", "soon", ITEM, *PROGRAM], "'soon' is not a duration. Use"),
    "a memory in words": (["--queue", "cpu", "--memory", "much", ITEM, *PROGRAM], "'much' is not a size. Use MiB, or"),
    "no attempts": (["--queue", "cpu", "--attempts", "0", ITEM, *PROGRAM], "attempts is 0"),
    "eleven attempts": (["--queue", "cpu", "--attempts", "11", ITEM, *PROGRAM], "attempts is 11"),
    "zero that would mean never": (["--queue", "cpu", "--timeout", "0", ITEM, *PROGRAM], "timeout_seconds is 0"),
    "an output that is a path": (["--queue", "cpu", "--output", "/tmp/out", ITEM, *PROGRAM], "output is '/tmp/out'"),
    "a variable without a value": (
        ["--queue", "cpu", "--env", "A", ITEM, *PROGRAM],
        "--env is 'A'; allowed: KEY",
    ),
    "a variable that is ours": (
        ["--queue", "cpu", "--env", "TIDEMILL_JOB=x", ITEM, *PROGRAM],
        "env.TIDEMILL_JOB: names that begin with TIDEMILL_",
    ),
    "a secret in clear text": (
        ["--queue", "cpu", "--env", "HF_TOKEN=abc", ITEM, *PROGRAM],
        "env.HF_TOKEN looks like a secret",
    ),
    "a URI that is not UTF-8": (
        ["--queue", "cpu", "s3://raw/\udce9", *PROGRAM],
        "items[0] is 's3://raw/\\udce9', which",
    ),
    "an argument that is not UTF-8": (["--queue", "cpu", ITEM, "--", "x", "\udce9"], "command[1] is '\\udce9'"),
    "a variable that is not UTF-8": (["--queue", "cpu", "--env", "A=\udce9", ITEM, *PROGRAM], "env.A is 'A=\\udce9'"),
    "an option that is not there": (["--queue", "cpu", "--itmes", "x", *PROGRAM], "No such option"),
    "an option without its value": (["--queue"], "requires an argument"),
}

OTHERS = {
    "an unknown verb": (["sumbit"], "Unknown command 'sumbit'. Did you mean 'submit'? Commands: submit, "),
    "a command of another tool": (["ls"], "Unknown command 'ls'. Did you mean 'jobs'?"),
    "a download": (["download", "tiles"], "Unknown command 'download'. Did you mean 'results'?"),
    "half an option": (["submit", "--item", "x"], "No such option '--item'. Did you mean '--items'?"),
    "no dashes": (
        ["submit", "--items", "relative.txt", "python3", "x.py"],
        "Put `--` before the program: --items relative.txt -- python3 x.py",
    ),
    "a pattern that the shell expanded": (
        ["submit", "--items", "photos/a.jpg", "photos/b.jpg", "photos/c.jpg", *PROGRAM],
        "--items takes one source, and 2 more words follow. Quote a pattern: --items 'photos/*.jpg'",
    ),
    "a pipeline that is a local path": (["queues", "--pipeline", "./pipeline.json"], "pipeline.json does not exist."),
    "no job": (["status"], "Missing argument 'JOB'"),
    "a job id that is none": (
        ["status", "Tiles"],
        "job is 'Tiles'; it must be a job's id, <name>-<8 hex",
    ),
    "a path as a job id": (["cancel", "../../etc"], "job is '../../etc'"),
    "a job that is not there": (
        ["wait", "tiles-00000000"],
        "There is no job 'tiles-00000000' in file://",
    ),
    "an item before the first": (["logs", "tiles-00000000", "--item", "-1"], "-1 is not in the range"),
    "a pipeline that is not there": (
        ["queues", "--pipeline", "file:///nowhere/at/all/pipeline.json"],
        "pipeline: file:///nowhere/at/all/pipeline.json does not exist.",
    ),
    "a pipeline that is a bucket": (
        ["queues", "--pipeline", "s3://bucket"],
        "pipeline is 's3://bucket'; it must be a URI that ends with /pipeline.json",
    ),
    "a pipeline of an unknown scheme": (["queues", "--pipeline", "ftp://a/pipeline.json"], "ftp://a"),
    "no pipeline": (["queues", "--pipeline", ""], "--pipeline is not given, TIDEMILL_PIPELINE is not set"),
}

DESCRIPTORS = {
    "no JSON": ("tiles", "is not a pipeline descriptor"),
    "no object": ("[]", "is not a pipeline descriptor"),
    "a newer schema": ('{"schema_version": 2}', "has schema_version 2; tidemill 0.1.0 reads 1. Run `pip install"),
    "an incomplete one": ('{"schema_version": 1}', "team: Field required. Ask the stack's owner to run `pulumi up`."),
}


def refused(arguments, words, store, backend, capsys):
    before = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    code = run(arguments)
    out, err = capsys.readouterr()
    assert code == 2, err
    assert words in err
    assert re.fullmatch(r"tidemill: [^\n]+\n", err), "one line"
    assert "Traceback" not in err
    assert out == ""
    assert {path: path.read_bytes() for path in store.rglob("*") if path.is_file()} == before, "nothing was made"
    assert backend.arrays == []


@pytest.mark.parametrize(("arguments", "words"), SUBMITS.values(), ids=SUBMITS)
def test_a_malformed_job_is_refused(stack, capsys, arguments, words):
    store, backend = stack
    refused(["submit", *arguments], words, store, backend, capsys)


@pytest.mark.parametrize(("arguments", "words"), OTHERS.values(), ids=OTHERS)
def test_a_malformed_call_is_refused(stack, capsys, arguments, words):
    store, backend = stack
    refused(arguments, words, store, backend, capsys)


@pytest.mark.parametrize(("text", "words"), DESCRIPTORS.values(), ids=DESCRIPTORS)
def test_a_descriptor_that_cannot_be_read_is_refused(stack, capsys, text, words):
    store, backend = stack
    (Path(store) / "pipeline.json").write_text(text)
    refused(["queues"], words, store, backend, capsys)


def test_workers_that_are_too_old_for_the_spec_are_told_before(stack, capsys):
    store, backend = stack
    values = json.loads((store / "pipeline.json").read_text()) | {"max_spec": 0}
    (store / "pipeline.json").write_text(json.dumps(values))
    words = "this pipeline's workers read job specs up to version 0, this one is of 1."
    refused(["submit", "--queue", "cpu", ITEM, *PROGRAM], words, store, backend, capsys)


def test_an_error_is_an_object_with_json(stack, capsys):
    assert run(["submit", "--queue", "cqu", "--json", ITEM, *PROGRAM]) == 2
    assert json.loads(capsys.readouterr().out)["error"] == {
        "exit_code": 2,
        "message": "There is no queue 'cqu' in this pipeline, which has: cpu, gpu, small.",
        "what": "queue",
        "value": "'cqu'",
        "allowed": "cpu, gpu, small",
        "fix": None,
        "command": None,
    }
    assert run(["status", "tiles", "--jsno", "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["what"], error["fix"]) == ("--jsno", "See `tidemill status --help`.")


def test_what_follows_the_dashes_is_not_ours(stack, capsys):
    """`--json` of the program is none of our options."""
    assert run(["submit", "--queue", "cqu", ITEM, "--", "x", "--json"]) == 2
    assert capsys.readouterr().out == ""
