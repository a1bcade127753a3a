"""Containers from images of the registry, and containers that depend on others. Processes are real; Docker, ECS and ECR
are not involved."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.localcloud.aws.batch.account import Account, account
from worker_image.oci import Layout
from worker_image.tools import architecture, crane

ECR = "123456789012.dkr.ecr.us-west-2.amazonaws.com"
PROGRAM = """\
package main

import ("fmt"; "os"; "time")

func main() {
	switch os.Args[1] {
	case "say":
		fmt.Println(os.Args[2:], os.Getenv("A"), os.Getenv("PATH"))
	case "fail":
		os.Exit(3)
	case "write":
		if err := os.WriteFile(os.Args[2], []byte(os.Args[3]), 0o644); err != nil { fmt.Println(err); os.Exit(1) }
	case "read":
		data, err := os.ReadFile(os.Args[2]); fmt.Println(string(data), err)
	case "look":
		names, _ := os.ReadDir("/"); for _, each := range names { fmt.Println(each.Name()) }
	case "sleep":
		time.Sleep(time.Hour)
	}
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    (folder / "main.go").write_text(PROGRAM)
    env = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    command = ["go", "build", "-trimpath", "-o", str(folder / "program"), str(folder / "main.go")]
    subprocess.run(command, env=env, check=True, timeout=300)
    return folder / "program"


@pytest.fixture(scope="module")
def cloud():
    with account(idle_seconds=60) as made:
        yield made


@pytest.fixture(scope="module")
def queue(cloud: Account) -> str:
    return cloud.queue()


def push(cloud: Account, program: Path, folder: Path, name: str, **config: Any) -> str:
    """Push an image of one program. Returns its reference at ECR."""
    layout = Layout(folder / "layout")
    digest = layout.write({"program": program}, architecture(), {"Entrypoint": ["/program"], **config})
    address = cloud.api.control["registry"]({})["address"]
    command = [str(crane()), "push", str(layout.folder), f"{address}/{name}:v1"]
    subprocess.run(command, check=True, timeout=600, capture_output=True)
    return f"{ECR}/{name}@{digest}"


@pytest.fixture
def run(cloud: Account, queue: str):
    """Run a job to its end."""

    def runs(*command: str, **definition: Any) -> dict[str, Any]:
        return cloud.ended(cloud.run(queue, cloud.definition(*command, **definition)))

    return runs


@pytest.mark.namespaces
def test_the_root_is_the_images(cloud, run, program, tmp_path):
    image = push(cloud, program, tmp_path, "team/look", Env=["A=image", "PATH=/somewhere"])
    done = run("look", image=image)
    assert done["status"] == "SUCCEEDED", done
    assert cloud.lines(done["jobId"]) == ["dev", "proc", "program", "sys", "tmp"]


@pytest.mark.namespaces
def test_entrypoint_environment_and_command(cloud, run, program, tmp_path):
    image = push(cloud, program, tmp_path, "team/say", Env=["A=image", "PATH=/somewhere"], Cmd=["say", "default"])
    assert cloud.lines(run(image=image)["jobId"]) == ["[default] image /somewhere"]
    overridden = run("say", "given", image=image, environment=[{"name": "A", "value": "definition"}])
    assert cloud.lines(overridden["jobId"]) == ["[given] definition /somewhere"]


def test_an_image_that_the_registry_does_not_know(cloud, run, program, tmp_path):
    push(cloud, program, tmp_path, "team/known")
    done = run("look", image=f"{ECR}/team/known:v2")
    assert done["status"] == "FAILED"
    container = done["attempts"][-1]["container"]
    assert container["reason"].startswith("CannotPullContainerError: Error response from daemon: manifest for")
    assert "exitCode" not in container


@pytest.mark.namespaces(False)
def test_without_namespaces_an_image_with_a_root_of_its_own_is_refused_at_once(program, tmp_path, monkeypatch):
    with account(namespaces=False) as plain:
        queue = plain.queue()
        definition = plain.definition("look", image=push(plain, program, tmp_path, "team/own"))
        with pytest.raises(ClientError, match=r"has a root of its own, which needs namespaces.* To allow them: "):
            plain.run(queue, definition)
        monkeypatch.setattr(plain.api, "_refuse_image", lambda reference: None)  # it was pushed after the submit
        done = plain.ended(plain.run(queue, definition))
    container = done["attempts"][-1]["container"]
    assert done["statusReason"] == "Task failed to start"
    assert "has a root of its own, which needs namespaces" in container["reason"]
