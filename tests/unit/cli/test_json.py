"""What `--json` prints against the published schemas. What this cannot prove: that the keys mean what they say."""

import json
import os
from functools import cache
from pathlib import Path

import jsonschema
import pytest

from tidemill.cli import documents, main
from tidemill.cli.app import COMMANDS
from tidemill.client import Pipeline
from tidemill.client.rounds import deliveries
from tidemill.clouds.account import LogLine

PUBLISHED = Path(__file__).resolve().parents[3] / "docs" / "documents.schema.json"
NO_JSON = {"completion"}
"""Commands that print a shell script."""


@pytest.fixture
def stack(tmp_path, monkeypatch, installed):
    _, backend = installed()
    monkeypatch.setattr(deliveries, "SUBMIT_GRACE_SECONDS", -1)
    monkeypatch.chdir(tmp_path)
    return backend


@cache
def schema(verb: str) -> jsonschema.Draft202012Validator:
    """The published schema, closed: readers skip keys that they do not know, this test does not."""
    found = json.loads(PUBLISHED.read_text())["$defs"]
    if verb != "logs":
        close(found)
    return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{verb}", "$defs": found})


def close(part):
    if isinstance(part, dict):
        if "properties" in part:
            part["additionalProperties"] = False
        for inner in part.values():
            close(inner)


def check(verb, capsys, *arguments, code=0):
    """Run a command and check every line that it prints against the schema. Returns the last."""
    assert main([verb, *arguments]) == code
    lines = capsys.readouterr().out.splitlines()
    assert lines
    for line in lines:
        schema("error" if code > 1 else verb).validate(json.loads(line))
    return json.loads(lines[-1])


def test_the_published_schemas_are_those_of_the_code():
    assert PUBLISHED.read_text() == documents.text_of(documents.bundle()) + "\n", f"run: {documents.REGENERATE}"


def test_no_two_types_share_a_name():
    found = [part for _, schema in documents.documents().values() for part in schema.get("$defs", {}).items()]
    assert len({name for name, _ in found}) == len({json.dumps(part) for part in found})


def test_every_verb_has_a_schema():
    assert set(COMMANDS) - NO_JSON == set(documents.documents()) - {
        "error",
        "preview",
        "download",
        "links",
        "machines",
        "queue_request",
        "sends",
    }


def test_the_schemas_are_valid():
    for part in json.loads(PUBLISHED.read_text())["$defs"].values():
        jsonschema.Draft202012Validator.check_schema(part)


def test_what_the_verbs_print(stack, capsys):
    sent = check("submit", capsys, "--json", "--queue", "cpu", "s3://raw/1.jpg", "s3://raw/2.jpg", "--", "x", "{uri}")
    job = sent["job"]
    check("status", capsys, job, "--json")
    loaded = Pipeline.load(os.environ["TIDEMILL_PIPELINE"])
    stack.run(loaded, job, fail_items=[1])
    fields = {"job": job, "item": 1, "attempt": 2, "stream": "stderr", "message": "no such band"}
    at = loaded.job(job).spec.created_at.timestamp() + 1
    stack.lines = [LogLine(at, json.dumps(fields), "s", fields), LogLine(at, "Traceback", "s")]
    check("status", capsys, job, "--json", code=1)
    check("wait", capsys, job, "--json", code=1)
    check("results", capsys, job, "--json")
    check("failures", capsys, job, "--json")
    assert check("logs", capsys, job, "--worker", "--json")["message"] == "Traceback"
    check("queues", capsys, "--json")
    assert len(check("top", capsys, job, "--json")["jobs"]) == 1
    check("estimate", capsys, "--count", "9", "--item-time", "1m", "--queue", "cpu", "--json")
    check("advise", capsys, "--cpus", "64", "--regions", "us-west-2,us-central1", "--offline", "--json")
    check("cancel", capsys, job, "--json")
    check("clean", capsys, "--older-than", "0s", "--dry-run", "--json")
    assert check("rm", capsys, job, "--yes", "--json")["removed"]
    check("doctor", capsys, "--json")
    check("use", capsys, os.environ["TIDEMILL_PIPELINE"], "--json")
    check("status", capsys, "other", "--json", code=2)


def test_a_key_more_or_less_is_seen(stack, capsys):
    said = check("use", capsys, "--json")
    with pytest.raises(jsonschema.ValidationError, match="was unexpected"):
        schema("use").validate(said | {"new": 1})
    del said["current"]
    with pytest.raises(jsonschema.ValidationError, match="required"):
        schema("use").validate(said)
