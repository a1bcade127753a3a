"""The worker beside images that know nothing of it: an init container brings it from its own image.

Images are unpacked and run by localcloud, not by Docker and the ECS agent, and their registry is not ECR.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.cloud import Cloud
from tests.e2e.team import PROGRAMS, Team, team_up
from worker_image import image
from worker_image.oci import Layout
from worker_image.tools import architecture

ROOT = Path(__file__).resolve().parents[2]
THIS_MACHINE = "docker.io/library/python@sha256:" + 64 * "1"


def bare_image(folder: Path) -> Path:
    """The layout of an image that holds one static program and nothing else."""
    source, program = ROOT / "tests/worker_image/program.go", folder / "program"
    env = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    subprocess.run(["go", "build", "-trimpath", "-o", str(program), str(source)], env=env, check=True, timeout=300)
    config = {"Env": ["LD_LIBRARY_PATH=/opt/lib", "LC_ALL=de_DE", "PYTHONHOME=/opt/conda"]}
    Layout(folder / "image").write({"program": program}, architecture(), config)
    return folder


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """A team whose machines get the worker from its image."""
    worker, bare = tmp_path_factory.mktemp("worker"), bare_image(tmp_path_factory.mktemp("bare"))
    image.build(worker, "aws")
    with Cloud(tmp_path_factory.mktemp("localcloud")) as cloud:
        registry = cloud.control("batch/registry")["address"]
        pushed = {
            name: image.push(folder, f"{registry}/demo-local/{name}").replace(f"{registry}/demo-local", "registry:/")
            for name, folder in (("tidemill-worker", worker), ("bare", bare))
        }
        queue = {
            "images": {"default": THIS_MACHINE, "bare": pushed["bare"]},
            "item": {"cpus": 1, "memory_mib": 512},
            "machines": {"families": ["c6i", "m6i"], "cpus": {"min": 2, "max": 4}},
            "capacity": [{"market": "spot", "max_cpus": 8}],
        }
        settings = {"tidemill:worker_image": pushed["tidemill-worker"], "tidemill:queues": {"cpu": queue}}
        yield team_up(cloud, tmp_path_factory.mktemp("demo-aws"), settings=settings)


def run(team: Team, name: str, items: Path, image_name: str, *command: str) -> list[dict]:
    options = ("--queue", "cpu", "--name", name, "--items", str(items), "--chunk-size", "5", "--image", image_name)
    job = json.loads(team.tidemill("submit", *options, "--json", "--", *command))["job"]
    team.tidemill("wait", job)
    outcomes = team.results(job)
    assert sorted(outcome["index"] for outcome in outcomes) == list(range(10))
    assert {outcome["status"] for outcome in outcomes} == {"succeeded"}
    return outcomes


def test_an_image_of_one_static_program(team: Team, tmp_path: Path) -> None:
    items, _ = team.put_items("bare", 10, tmp_path)
    outcomes = run(team, "bare", items, "bare", "/program", "{input}", "{output}")
    for outcome in outcomes:
        index = outcome["index"]
        assert team.read(outcome["output"] + "copy") == f"bare {index}\n".encode() * (index + 1)
    seen = json.loads(team.read(outcomes[0]["output"] + "seen.json"))["environment"]
    environment = dict(line.split("=", 1) for line in seen)
    assert {n: environment[n] for n in ("LD_LIBRARY_PATH", "LC_ALL", "PYTHONHOME", "HOME")} == {
        "LD_LIBRARY_PATH": "/opt/lib",
        "LC_ALL": "de_DE",
        "PYTHONHOME": "/opt/conda",
        "HOME": "/",
    }
    assert not [name for name in environment if name == "SSL_CERT_FILE" or name.startswith("TIDEMILL_WAS")]


def test_an_image_with_a_python_of_its_own(team: Team, tmp_path: Path) -> None:
    items, digests = team.put_items("python", 10, tmp_path)
    program = (sys.executable, str(PROGRAMS / "digest.py"), "{input}", "{output}", "0")
    outcomes = run(team, "python", items, "default", *program)
    found = [team.read(outcome["output"] + "sha256.txt").decode() for outcome in outcomes]
    assert found == digests
