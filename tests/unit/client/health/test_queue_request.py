"""The change that adds a queue. What this cannot prove: that a cloud has such machines."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.config import from_file
from tests.unit.client_fakes import descriptor, queue
from tidemill.cli import main
from tidemill.client import Pipeline
from tidemill.descriptor import Machine
from tidemill.errors import CallerError
from tidemill.store import Store

STACKS = Path(__file__).resolve().parents[4] / "stacks"
IMAGE = f"docker.io/library/python@sha256:{64 * '0'}"
GCP = {"cloud": "gcp", "region": "us-central1", "account": "vision-dev"}
FILES = {"aws": ("vision-dev", "vision", {}), "gcp": ("vision-gcp-dev", "vision", GCP)}


def of(cloud: str, **changes: Any) -> Pipeline:
    _, team, values = FILES[cloud]
    machines = [Machine(type="n2-standard-16", cpus=16, memory_mib=65536)] if cloud == "gcp" else None
    named = {"cpu": queue(machines=machines)} if machines else {"cpu": queue()}
    found = descriptor(queues=named, team=team, **values, **changes)
    return Pipeline(found, Store.open("memory://"))


@pytest.mark.parametrize("cloud", FILES)
@pytest.mark.parametrize("ends", ["\n", "\r\n", ""])
@pytest.mark.parametrize(
    "asked",
    [
        {"cpus": 2},
        {"cpus": 4, "memory": "14G", "gpus": 1, "max_cpus": 64},
        {"cpus": 40, "memory": "200G", "max_cpus": 4000},
    ],
    ids=["as the others", "a GPU", "large"],
)
def test_git_applies_the_patch_and_the_checks_take_the_file(cloud, ends, asked, tmp_path, monkeypatch):
    """An empty `ends` is a file whose last queue is its end, without an end of line."""
    name = f"Pulumi.{FILES[cloud][0]}.yaml"
    text = (STACKS / name).read_text()
    if not ends:
        rest = yaml.safe_load(text)["config"]
        queues = rest.pop("tidemill:queues")
        text = yaml.safe_dump({"config": {**rest, "tidemill:queues": queues}}, sort_keys=False).rstrip("\n")
    (tmp_path / name).write_text(text, newline=ends or "\n")
    monkeypatch.chdir(tmp_path)
    found = of(cloud, owner="ml-oncall").request_queue("no", image=IMAGE, file=tmp_path / name, **asked)
    assert found.owner == "ml-oncall"
    assert (tmp_path / name).read_text() == text
    assert found.patch
    subprocess.run(["git", "apply"], input=found.patch.encode(), check=True, timeout=30)
    before, after = (yaml.safe_load(each)["config"] for each in (text, (tmp_path / name).read_text()))
    added = after["tidemill:queues"].pop("no")
    assert after == before
    assert yaml.safe_load(found.keys) == {"config": {"tidemill:queues": {"no": added}}}
    assert (b"\r" in (tmp_path / name).read_bytes()) == (ends == "\r\n")
    config = from_file(tmp_path / name)
    item = config.queues["no"].item
    assert (item.cpus, item.gpus) == (asked["cpus"], asked.get("gpus", 0))
    assert all(machine.gpus >= item.gpus for machine in config.queues["no"].types(cloud))


def test_an_image_is_text_whatever_it_holds():
    image = 'a"}}\n  tidemill:allow: [purge] # \u2028é'
    found = of("aws").request_queue("big", image=image)
    config = yaml.safe_load(found.keys)["config"]
    assert [*config] == ["tidemill:queues"]
    assert [*config["tidemill:queues"]] == ["big"]
    assert config["tidemill:queues"]["big"]["images"] == {"default": image}


BLOCK = "config:\n  tidemill:team: vision\n  tidemill:environment: dev\n  tidemill:queues:\n    cpu: {images: {}}\n"


@pytest.mark.parametrize(
    ("asked", "text", "what"),
    [
        ({"name": "CPU"}, None, "queue"),
        ({"name": "a: b"}, None, "queue"),
        ({"name": "cpu"}, None, "queue"),
        ({"cpus": 0}, None, "cpus"),
        ({"cpus": 1.5}, None, "cpus"),
        ({"gpus": -1}, None, "gpus"),
        ({"memory": "1M"}, None, "memory"),
        ({"memory": float("nan")}, None, "memory"),
        ({"cpus": 8, "max_cpus": 4}, None, "max_cpus"),
        ({"cpus": 5000}, None, "item"),
        ({}, BLOCK.replace("cpu:", "big:"), "file"),
        ({}, BLOCK.replace("vision", "speech"), "file"),
        ({}, BLOCK.replace(" dev", " 'prod'"), "file"),
        ({}, "config:\n  tidemill:queues: {cpu: {}}\n", "file"),
        ({}, f"{BLOCK}  tidemill:queues:\n    gpu: {{}}\n", "file"),
        ({}, BLOCK.replace("{images: {}}", "{images:\n  {}}"), "file"),
        ({}, "\xff", "file"),
        ({"file": "none.yaml"}, None, "file"),
    ],
)
def test_what_is_wrong_is_named(asked, text, what, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / "stack.yaml").write_bytes(text.encode("latin-1"))
        asked = {**asked, "file": "stack.yaml"}
    with pytest.raises(CallerError) as refused:
        of("aws").request_queue(**{"name": "big", **asked})
    assert refused.value.what == what
    assert refused.value.fix


def test_the_command_prints_keys_or_a_patch_and_names_the_owner(installed, tmp_path, monkeypatch, capsys):
    installed(owner="ml-oncall")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stack.yaml").write_text(BLOCK)
    asked = ["queues", "request", "big", "--cpus", "2", "--memory", "4G"]
    assert main(asked) == 0
    said = capsys.readouterr()
    assert yaml.safe_load(said.out)["config"]["tidemill:queues"]["big"]["item"] == {"cpus": 2, "memory_mib": 4096}
    assert "ml-oncall" in said.err
    assert main([*asked, "--file", "stack.yaml", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["owner"], document["queue"]) == ("ml-oncall", "big")
    assert document["patch"].startswith("--- a/stack.yaml\n+++ b/stack.yaml\n@@")
    assert main(["queues", "--json", "request", "big"]) == 2
