"""Malformed jobs: one line with argument, value, allowed values and what to do; exit code 2; nothing is made.

What this cannot prove: mistakes that only a cloud can see.
"""

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.unit.client_fakes import gpu_machine, queue
from tidemill.cli import main
from tidemill.descriptor import SPEC_VERSION, Resources, Rung

PROGRAM = ["--", "python3", "x.py", "{input}", "{output}"]
ITEM = "s3://raw/1.jpg"


@pytest.fixture
def stack(tmp_path, monkeypatch, installed):
    """A pipeline in a folder, and its queue."""
    queues = {
        "cpu": queue(),
        "gpu": queue(machines=[gpu_machine()], item=Resources(cpus=4, memory_mib=8192, gpus=1)),
        "new": queue(machines=[queue().machines[0].model_copy(update={"type": "zz9.large"})]),
        "small": queue(capacity=[Rung(market="spot", max_cpus=4)]),
    }
    _, backend = installed(queues, region="mars-north-1", max_spec=SPEC_VERSION)
    monkeypatch.delenv("TIDEMILL_DEBUG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.txt").write_text("\n  \n\r\n")
    (tmp_path / "latin.txt").write_bytes("s3://raw/1.jpg\ns3://raw/caf\xe9.jpg\n".encode("latin-1"))
    (tmp_path / "nul.txt").write_bytes(b"s3://raw/1.jpg\n\ns3://raw/\0.jpg\n")
    (tmp_path / "long.txt").write_bytes(b"s3://raw/" + b"x" * 1_000_000 + b"\n")
    (tmp_path / "relative.txt").write_text("s3://raw/1.jpg\nphotos/2.jpg\n")
    (tmp_path / "unreadable").mkdir()
    (tmp_path / "local.py").write_text("")
    return tmp_path / "store", backend


SUBMITS = {
    "unknown queue, nearest offered": (["--queue", "cqu", ITEM, *PROGRAM], "queue", ["'cqu'", "cpu, gpu, new, small"]),
    "no queue where there are several": ([ITEM, *PROGRAM], "queue", ["cpu, gpu, new, small"]),
    "a limit of nothing": (["--queue", "cpu", "--max-usd", "0", ITEM, *PROGRAM], "max_usd", ["0.0", "1000000000"]),
    "a limit that is no number": (["--queue", "cpu", "--max-usd", "nan", ITEM, *PROGRAM], "max_usd", ["nan"]),
    "a limit in another currency": (["--queue", "cpu", "--max-usd", "50EUR", ITEM, *PROGRAM], "--max-usd", ["50EUR"]),
    "a price below nothing": (
        ["--queue", "cpu", "--max-usd", "5", "--usd-per-item-hour", "-1", ITEM, *PROGRAM],
        "usd_per_item_hour",
        ["-1.0"],
    ),
    "a price without a limit": (
        ["--queue", "cpu", "--usd-per-item-hour", "0.1", ITEM, *PROGRAM],
        "max_usd",
        ["--usd-per-item-hour is given without --max-usd"],
    ),
    "a limit where no price is known": (
        ["--queue", "new", "--max-usd", "5", ITEM, *PROGRAM],
        "max_usd",
        ["'new'", "mars-north-1", "zz9.large", "--usd-per-item-hour"],
    ),
    "unknown image": (
        ["--queue", "cpu", "--image", "defualt", ITEM, *PROGRAM],
        "image",
        ["'defualt'", "'cpu'", "'default'"],
    ),
    "no items": (["--queue", "cpu", *PROGRAM], "items", ["URIs"]),
    "an empty list": (["--queue", "cpu", "--items", "empty.txt", *PROGRAM], "items", ["empty.txt"]),
    "a list that is not there": (
        ["--queue", "cpu", "--items", "tlies.txt", *PROGRAM],
        "items",
        ["tlies.txt", "--items"],
    ),
    "a folder without files": (["--queue", "cpu", "--items", "unreadable", *PROGRAM], "items", ["unreadable"]),
    "a column of what has none": (
        ["--queue", "cpu", "--items", "relative.txt", "--items-column", "uri", "--items-format", "text", *PROGRAM],
        "items_column",
        ["'uri'", "relative.txt"],
    ),
    "a shell that would read an item's name as code": (
        ["--queue", "cpu", "--shell", ITEM, "--", "cat {input} | wc -l"],
        None,
        ["$TIDEMILL_INPUT", "{input}"],
    ),
    "a template that was not filled in": (
        ["--queue", "cpu", "s3://[BUCKET]/x.jpg", *PROGRAM],
        "items",
        ["items[0]", "'s3://[BUCKET]/x.jpg'"],
    ),
    "an item's name in code of a shell": (
        ["--queue", "cpu", ITEM, "--", "timeout", "9", "bash", "-euo", "pipefail", "-c", "wc -c < {input}"],
        "command",
        ["sh -c", '\'sha256sum "$TIDEMILL_INPUT" > "$TIDEMILL_OUTPUT/sum.txt"\''],
    ),
    "an item's name in code of Python": (
        ["--queue", "cpu", ITEM, "--", "python3", "-c", "print('{uri}')"],
        "command",
        ["command[2]", "python3", "{uri}", "TIDEMILL_URI"],
    ),
    "a command line in one word": (
        ["--queue", "cpu", ITEM, "--", "python3 x.py {input} {output}"],
        "command",
        ["command[0]", "sh -c"],
    ),
    "a placeholder with a typo": (["--queue", "cpu", ITEM, "--", "x", "{inptu}"], "command", ["{inptu}", "'input'"]),
    "code that is not sent": (
        ["--queue", "cpu", ITEM, "--", "{code}/x", "{input}"],
        "command",
        ["{code}", "--code DIR"],
    ),
    "a script that stays here": (
        ["--queue", "cpu", ITEM, "--", "python3", "-u", "local.py", "{input}"],
        "command",
        ["local.py", "--code ."],
    ),
    "a program that stays here": (
        ["--queue", "cpu", ITEM, "--", "./local.py", "{input}"],
        "command",
        ["local.py", "--code ."],
    ),
    "a module with its ending": (
        ["--queue", "cpu", ITEM, "--function", "local.py:run"],
        "function",
        ["--function local:run"],
    ),
    "two lists of items": (
        ["--queue", "cpu", "--items", "items.txt", "--items", "other.txt", *PROGRAM],
        None,
        ["--items is given 2 times"],
    ),
    "a shell and several words": (
        ["--queue", "cpu", "--shell", ITEM, "--", "cat", "$TIDEMILL_INPUT"],
        None,
        ["--shell"],
    ),
    "a list that is not UTF-8": (
        ["--queue", "cpu", "--items", "latin.txt", *PROGRAM],
        "items",
        ["latin.txt", "line 2", "0xe9", "13"],
    ),
    "a NUL in a list": (
        ["--queue", "cpu", "--items", "nul.txt", *PROGRAM],
        "items",
        ["nul.txt", "line 3", "'s3://raw/\\x00.jpg'"],
    ),
    "a line of a megabyte": (["--queue", "cpu", "--items", "long.txt", *PROGRAM], "items", ["line 1", "65536"]),
    "a relative path": (
        ["--queue", "cpu", "--items", "relative.txt", *PROGRAM],
        "items",
        ["relative.txt", "line 2", "'photos/2.jpg'"],
    ),
    "an empty URI": (["--queue", "cpu", "", *PROGRAM], "items", ["items[0]"]),
    "items twice": (
        ["--queue", "cpu", "--items", "empty.txt", ITEM, *PROGRAM],
        None,
        ["'empty.txt'", "'s3://raw/1.jpg'"],
    ),
    "no program": (["--queue", "cpu", ITEM], "command", ["`--`"]),
    "nothing after the dashes": (["--queue", "cpu", ITEM, "--"], "command", ["`--`"]),
    "an argument of 200 KiB": (
        ["--queue", "cpu", ITEM, "--", "echo", "x" * 200_000],
        "command",
        ["command[1]", "200000", "131071"],
    ),
    "a name with capitals": (["--queue", "cpu", "--name", "Tiles", ITEM, *PROGRAM], "name", ["'Tiles'"]),
    "a name that is too long": (["--queue", "cpu", "--name", "x" * 42, ITEM, *PROGRAM], "name", ["xxx", "40"]),
    "an empty name": (["--queue", "cpu", "--name", "", ITEM, *PROGRAM], "name", ["''"]),
    "a GPU item on a CPU queue": (
        ["--queue", "cpu", "--gpus", "1", ITEM, *PROGRAM],
        "gpus",
        ["'cpu'", "tidemill queues"],
    ),
    "an item with more CPUs than any machine": (
        ["--queue", "cpu", "--cpus", "17", ITEM, *PROGRAM],
        "resources",
        ["17 CPUs", "2048 MiB", "'cpu'", "c7i.4xlarge: 16 CPUs"],
    ),
    "an item with all the memory of the largest machine": (
        ["--queue", "cpu", "--memory", "32768", ITEM, *PROGRAM],
        "resources",
        ["32768 MiB", "c7i.4xlarge"],
    ),
    "slots that fit no machine": (["--queue", "cpu", "--slots", "17", ITEM, *PROGRAM], "resources", ["17"]),
    "an item larger than max_cpus": (
        ["--queue", "small", ITEM, *PROGRAM],
        "resources",
        ["8 CPUs", "'small'", "4 CPUs", "max_cpus"],
    ),
    "a part of a CPU on AWS Batch": (["--queue", "cpu", "--cpus", "0.5", ITEM, *PROGRAM], "cpus", ["0.5", "--slots"]),
    "no CPU": (["--queue", "cpu", "--cpus", "0", ITEM, *PROGRAM], "cpus", ["0.0"]),
    "a CPU that is no number": (["--queue", "cpu", "--cpus", "two", ITEM, *PROGRAM], "--cpus", ["'--cpus'", "'two'"]),
    "CPUs that are not a number": (["--queue", "cpu", "--cpus", "nan", ITEM, *PROGRAM], "cpus", ["nan"]),
    "no memory": (["--queue", "cpu", "--memory", "0", ITEM, *PROGRAM], "memory_mib", ["64 MiB"]),
    "a most memory below the memory": (
        ["--queue", "cpu", "--memory", "4G", "--memory-max", "2G", ITEM, *PROGRAM],
        "memory_max_mib",
        ["2048", "at least", "4096"],
    ),
    "a most memory that no machine has": (
        ["--queue", "cpu", "--memory", "4G", "--memory-max", "64G", ITEM, *PROGRAM],
        "memory_max_mib",
        ["65536", "c7i.4xlarge"],
    ),
    "fewer than no GPUs": (["--queue", "cpu", "--gpus", "-1", ITEM, *PROGRAM], "gpus", ["-1"]),
    "no slots": (["--queue", "cpu", "--slots", "0", ITEM, *PROGRAM], "slots", ["0"]),
    "chunks of nothing": (["--queue", "cpu", "--chunk-size", "0", ITEM, *PROGRAM], "chunk_size", ["0"]),
    "items that take no time": (["--queue", "cpu", "--item-seconds", "0", ITEM, *PROGRAM], "item_seconds", ["0.0"]),
    "a time limit in words": (["--queue", "cpu", "--timeout", "soon", ITEM, *PROGRAM], "--timeout", ["'soon'"]),
    "a memory in words": (["--queue", "cpu", "--memory", "much", ITEM, *PROGRAM], "--memory", ["'much'"]),
    "no attempts": (["--queue", "cpu", "--attempts", "0", ITEM, *PROGRAM], "attempts", ["10"]),
    "eleven attempts": (["--queue", "cpu", "--attempts", "11", ITEM, *PROGRAM], "attempts", ["11", "10"]),
    "zero that would mean never": (["--queue", "cpu", "--timeout", "0", ITEM, *PROGRAM], "timeout_seconds", ["604800"]),
    "a month without state": (
        ["--queue", "cpu", "--timeout", "8d", ITEM, *PROGRAM],
        "timeout_seconds",
        ["604800", "--state"],
    ),
    "29 days with state": (
        ["--queue", "cpu", "--state", "--timeout", "29d", ITEM, *PROGRAM],
        "timeout_seconds",
        ["2419200"],
    ),
    "state without room": (
        ["--queue", "cpu", "--state", "--max-gib", "0", ITEM, *PROGRAM],
        "state.max_gib",
        ["0.0", "4096"],
    ),
    "a snapshot per fortnight": (
        ["--queue", "cpu", "--state", "--snapshot-every", "14d", ITEM, *PROGRAM],
        "state.snapshot_seconds",
        ["86400"],
    ),
    "snapshots of no state": (
        ["--queue", "cpu", "--snapshot-every", "30s", ITEM, *PROGRAM],
        None,
        ["--snapshot-seconds", "have state"],
    ),
    "a signal that is none": (
        ["--queue", "cpu", "--state", "--notice-signal", "KILL", ITEM, *PROGRAM],
        "--notice-signal",
        ["KILL", "USR1"],
    ),
    "a function with state": (
        ["--queue", "cpu", "--state", "--function", "os:getpid", ITEM],
        "state",
        ["os:getpid"],
    ),
    "a folder of state that nobody keeps": (
        ["--queue", "cpu", ITEM, "--", "train", "{state}", "{uri}"],
        "command",
        ["{state}", "--state"],
    ),
    "an output that is a path": (["--queue", "cpu", "--output", "/tmp/out", ITEM, *PROGRAM], "output", ["'/tmp/out'"]),
    "a variable without a value": (
        ["--queue", "cpu", "--env", "A", ITEM, *PROGRAM],
        None,
        ["--env", "'A'", "KEY=VALUE"],
    ),
    "a variable that is ours": (
        ["--queue", "cpu", "--env", "TIDEMILL_JOB=x", ITEM, *PROGRAM],
        "env.TIDEMILL_JOB",
        ["TIDEMILL_", "AWS_BATCH_"],
    ),
    "a secret in clear text": (
        ["--queue", "cpu", "--env", "HF_TOKEN=abc", ITEM, *PROGRAM],
        None,
        ["HF_TOKEN", "tidemill:queues.<queue>.secrets"],
    ),
    "a URI that is not UTF-8": (
        ["--queue", "cpu", "s3://raw/\udce9", *PROGRAM],
        "items",
        ["items[0]", "'s3://raw/\\udce9'"],
    ),
    "an argument that is not UTF-8": (["--queue", "cpu", ITEM, "--", "x", "\udce9"], "command[1]", ["'\\udce9'"]),
    "a variable that is not UTF-8": (["--queue", "cpu", "--env", "A=\udce9", ITEM, *PROGRAM], "env.A", ["'A=\\udce9'"]),
    "an option that is not there": (
        ["--queue", "cpu", "--itmes", "x", *PROGRAM],
        "--itmes",
        ["'--itmes'", "'--items'"],
    ),
    "an option without its value": (["--queue"], None, ["--queue"]),
}

OTHERS = {
    "an unknown verb": (["sumbit"], None, ["'sumbit'", "'submit'"]),
    "a command of another tool": (["ls"], None, ["'ls'", "'jobs'"]),
    "a download": (["download", "tiles"], None, ["'download'", "'fetch'"]),
    "half an option": (["submit", "--item", "x"], "--item", ["'--item'", "'--items'"]),
    "no dashes": (["submit", "--items", "relative.txt", "python3", "x.py"], None, ["-- python3 x.py"]),
    "a pattern that the shell expanded": (
        ["submit", "--items", "photos/a.jpg", "photos/b.jpg", "photos/c.jpg", *PROGRAM],
        None,
        ["--items 'photos/*.jpg'"],
    ),
    "a pipeline that is a local path": (["queues", "--pipeline", "./pipeline.json"], "pipeline", ["pipeline.json"]),
    "no job": (["status"], "job", ["'JOB'"]),
    "a job id that is none": (["status", "Tiles"], "job", ["'Tiles'"]),
    "a path as a job id": (["cancel", "../../etc"], "job", ["'../../etc'"]),
    "a job that is not there": (["wait", "tiles-00000000"], "job", ["'tiles-00000000'"]),
    "an item before the first": (["logs", "tiles-00000000", "--item", "-1"], "--item", ["-1"]),
    "a pipeline that is not there": (
        ["queues", "--pipeline", "file:///nowhere/at/all/pipeline.json"],
        "pipeline",
        ["file:///nowhere/at/all/pipeline.json"],
    ),
    "a pipeline that is a bucket": (
        ["queues", "--pipeline", "s3://bucket"],
        "pipeline",
        ["'s3://bucket'", "pipeline.json"],
    ),
    "a pipeline of an unknown scheme": (["queues", "--pipeline", "ftp://a/pipeline.json"], "store", ["ftp://a"]),
    "no pipeline": (["queues", "--pipeline", ""], None, ["--pipeline", "TIDEMILL_PIPELINE", "tidemill use"]),
}

DESCRIPTORS = {
    "no JSON": ("tiles", ["JSON"]),
    "no object": ("[]", ["JSON"]),
    "a newer schema": ('{"schema_version": 2}', ["schema_version 2", "pip install --upgrade tidemill"]),
    "an incomplete one": ('{"schema_version": 1}', ["team", "pulumi up"]),
}

SENTENCES = [
    (
        ["submit", "--queue", "cpu", "--image", "defualt", ITEM, *PROGRAM],
        "There is no image 'defualt' in queue 'cpu', which has: default. Did you mean 'default'?",
    ),
    (
        ["submit", "--queue", "cpu", "--cpus", "0", ITEM, *PROGRAM],
        "--cpus is 0.0; it must be more than 0. Leave it out for the queue's 1.",
    ),
    (
        ["submit", "--queue", "cpu", "--memory", "much", ITEM, *PROGRAM],
        "Invalid value for '--memory': 'much' is not a size. Use MiB, or 512M, 2G. See `tidemill submit --help`.",
    ),
    (["use", "prod"], "There is no context 'prod', and none has been made yet. Give the pipeline's URI once: "),
]
"""How the templates read, once each; everything else is about fields and facts."""


def refused(arguments, what, facts, stack, capsys):
    """One line that holds the facts, an object with the fields, exit code 2, and nothing made."""
    store, backend = stack
    before = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    code = main([arguments[0], "--json", *arguments[1:]])
    out, err = capsys.readouterr()
    error = json.loads(out)["error"]
    assert (code, error["exit_code"], error["what"]) == (2, 2, what)
    assert [fact for fact in facts if fact not in error["message"]] == [], error["message"]
    assert err == f"tidemill: {error['message']}\n"
    assert re.fullmatch(r"[^\n]+\n", err), "one line"
    assert {path: path.read_bytes() for path in store.rglob("*") if path.is_file()} == before, "nothing was made"
    assert backend.arrays == []


@pytest.mark.parametrize(("arguments", "what", "facts"), SUBMITS.values(), ids=SUBMITS)
def test_a_malformed_job_is_refused(stack, capsys, arguments, what, facts):
    refused(["submit", *arguments], what, facts, stack, capsys)


@pytest.mark.parametrize(("arguments", "what", "facts"), OTHERS.values(), ids=OTHERS)
def test_a_malformed_call_is_refused(stack, capsys, arguments, what, facts):
    refused(arguments, what, facts, stack, capsys)


@pytest.mark.parametrize(("arguments", "sentence"), SENTENCES)
def test_how_an_error_reads(stack, capsys, arguments, sentence):
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith(f"tidemill: {sentence}")


@pytest.mark.parametrize(("text", "facts"), DESCRIPTORS.values(), ids=DESCRIPTORS)
def test_a_descriptor_that_cannot_be_read_is_refused(stack, capsys, text, facts):
    (Path(stack[0]) / "pipeline.json").write_text(text)
    refused(["queues"], "pipeline", facts, stack, capsys)


def test_workers_that_are_too_old_for_the_spec_are_told_before(stack, capsys):
    store, _ = stack
    values = json.loads((store / "pipeline.json").read_text()) | {"max_spec": 0}
    (store / "pipeline.json").write_text(json.dumps(values))
    facts = ["version 0"]
    refused(["submit", "--queue", "cpu", ITEM, *PROGRAM], None, facts, stack, capsys)


def test_an_unknown_queue_names_its_owner_and_the_keys_that_add_it(stack, capsys):
    store, _ = stack
    values = json.loads((store / "pipeline.json").read_text())
    image = next(iter(values["queues"].values()))["images"]["default"]["ref"]
    for owner, named in ((None, values["team"]), ("ml-oncall", "ml-oncall")):
        (store / "pipeline.json").write_text(json.dumps(values | {"owner": owner}))
        assert main(["submit", "--queue", "tpu", "--json", ITEM, *PROGRAM]) == 2
        fix = json.loads(capsys.readouterr().out)["error"]["fix"]
        assert f"ask {named} to add one" in fix
        _, keys, _, command, _ = fix.split("`")
        assert command == "tidemill queues request tpu"
        added = yaml.safe_load(keys)
        assert added == {"tidemill:queues": {"tpu": {"images": {"default": image}}}}


def test_an_error_is_an_object_with_json(stack, capsys):
    assert main(["submit", "--queue", "cpu", "--image", "legacy", "--json", ITEM, *PROGRAM]) == 2
    assert json.loads(capsys.readouterr().out)["error"] == {
        "exit_code": 2,
        "message": "There is no image 'legacy' in queue 'cpu', which has: default.",
        "what": "image",
        "value": "'legacy'",
        "allowed": "default",
        "fix": None,
        "command": None,
    }
    assert main(["status", "tiles", "--jsno", "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["what"], error["fix"]) == ("--jsno", "See `tidemill status --help`.")


def test_what_follows_the_dashes_is_not_ours(stack, capsys):
    """`--json` of the program is none of our options."""
    assert main(["submit", "--queue", "cqu", ITEM, "--", "x", "--json"]) == 2
    assert capsys.readouterr().out == ""
