"""The installed distributions: their files, their metadata, and a pipeline on each cloud from an environment that
cannot import this repository.

Their dependencies are those of our own environment; whether an index resolves the ranges is not tested.
"""

from __future__ import annotations

import json
import subprocess
import textwrap
import zipfile
from collections import Counter
from email import message_from_string
from pathlib import Path

import pytest

import components
from components.services.pubsub import reconciler
from localcloud.cloud import Cloud, GcpCloud
from tests.distributions import ask, build, install
from tests.harness import ROOT, Project

PROGRAM = """
    import pulumi
    from tidemill_pulumi import Pipeline, PipelineArgs

    image = "docker.io/team/preprocess@sha256:" + 64 * "0"
    config = {"team": "vision", "environment": "dev", "cloud": CLOUD, "queues": {"cpu": {
        "images": {"default": image}, "capacity": [{"market": "spot", "max_cpus": 64}]}}}
    pipeline = Pipeline("vision-dev", PipelineArgs(config=config))
    pulumi.export("pipeline_uri", pipeline.descriptor_uri)
"""
NOT_INSTALLED = {"LICENSE", "packaging/shared_metadata.py", "pyproject.toml", "README.md", "reference.py", "schema.py"}
"""What builds and describes the distribution, and what writes files of the repository."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def python(built: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with both wheels."""
    return install([each for each in built if each.suffix == ".whl"], tmp_path_factory.mktemp("environment"))


def content(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as opened:
        return set(opened.namelist())


def tracked(folder: str) -> set[str]:
    """Files of a folder of this repository, new ones too, without what git ignores."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", folder]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    return {name.removeprefix(f"{folder}/") for name in listed.stdout.splitlines() if (ROOT / name).exists()}


def test_each_project_builds_an_sdist_and_a_wheel(built):
    assert [each.name.partition("-")[0] for each in built] == 2 * ["tidemill"] + 2 * ["tidemill_pulumi"]


def test_the_wheels_have_every_file_and_say_that_they_are_typed(built):
    ours, theirs = (content(each) for each in built if each.suffix == ".whl")
    assert {f"tidemill/{name}" for name in tracked("tidemill")} <= ours
    wanted = {f"tidemill_pulumi/{name}" for name in tracked("components") - NOT_INSTALLED}
    assert {name for name in theirs if ".dist-info/" not in name} == wanted
    assert {"tidemill_pulumi/py.typed", "tidemill_pulumi/services/pubsub/host/run.sh"} <= theirs
    assert "tidemill/py.typed" in ours


def test_one_version_and_one_set_of_ranges_is_for_both(built):
    (wheel,) = (each for each in built if each.name.startswith("tidemill_pulumi") and each.suffix == ".whl")
    with zipfile.ZipFile(wheel) as opened:
        (name,) = (each for each in opened.namelist() if each.endswith("/METADATA"))
        metadata = message_from_string(opened.read(name).decode())
    (ours,) = (each for each in built if each.name.startswith("tidemill-") and each.suffix == ".whl")
    assert ours.name.split("-")[1] == metadata["Version"]
    needs = metadata.get_all("Requires-Dist")
    assert needs
    assert f"tidemill=={metadata['Version']}" in needs
    assert {each.partition(";")[2].strip(): each.partition("<")[0] for each in needs if ";" in each} == {
        "extra == 'aws'": "pulumi-aws",
        "extra == 'gcp'": "pulumi-gcp",
    }
    assert (ROOT / "components" / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def test_the_repository_is_out_of_reach(python, tmp_path):
    program = """
        import importlib.util as found, tidemill, tidemill_pulumi
        print([name for name in ("components", "ops", "policy", "plugin", "tests") if found.find_spec(name)])
        print(tidemill.__file__, tidemill_pulumi.__file__)
    """
    reached, places = ask(python, tmp_path, program).splitlines()
    assert reached == "[]"
    assert [str(python.parents[1]) in place for place in places.split()] == [True, True]


def test_each_name_is_there_and_loads_one_clouds_sdk(python, tmp_path):
    for kind, sdk, other in (
        ("AwsStoreArgs", "pulumi_aws", "pulumi_gcp"),
        ("GcpStore", "pulumi_gcp", "pulumi_aws"),
        ("Queue", "pydantic", "pulumi_aws"),
    ):
        program = (
            f"import sys; from tidemill_pulumi import {kind}; print({sdk!r} in sys.modules, {other!r} in sys.modules)"
        )
        assert ask(python, tmp_path, program).split() == ["True", "False"], kind
    program = "import tidemill_pulumi as it; print(len([getattr(it, name) for name in it.__all__]))"
    assert int(ask(python, tmp_path, program)) == len(components.__all__)


def test_the_reconcilers_archive_is_the_same(python, tmp_path):
    program = "from tidemill_pulumi.services.pubsub.reconciler import digest, source; print(digest(source()))"
    assert ask(python, tmp_path, program).strip() == reconciler.digest(reconciler.source())


@pytest.mark.parametrize(("cloud", "kind"), [(Cloud, "JobQueue"), (GcpCloud, "RegionInstanceGroupManager")])
def test_a_pipeline_previews_from_there(cloud, kind, python, tmp_path):
    source, folder = tmp_path / "program", tmp_path / "project"
    for each in (source, folder):
        each.mkdir()
    runtime = {"name": "python", "options": {"virtualenv": str(python.parents[1])}}
    (source / "Pulumi.yaml").write_text(json.dumps({"name": "theirs", "runtime": runtime}))
    (source / "__main__.py").write_text(textwrap.dedent(PROGRAM).replace("CLOUD", repr(cloud.name)))
    with cloud(tmp_path / "cloud") as running:
        project = Project(folder, running.env, "dev", source)
        with project.config() as config:
            if cloud is Cloud:
                config["aws:region"] = "us-west-2"
            else:
                config |= {"gcp:region": "us-central1", "gcp:project": running.project}
        run = project.run("preview", events=True).ok()
    assert Counter(step.op for step in run.steps).keys() == {"create"}
    assert kind in {step.kind.rpartition(":")[2] for step in run.steps}
