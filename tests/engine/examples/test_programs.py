"""The programs of examples/pulumi, as a user runs them: `pulumi up` with its preview, a second one, `pulumi destroy`.

They import `tidemill_pulumi` by its own name, through a link to this checkout's folder; the wheel's tests show that it
holds the same modules. All share one AWS, and the program on both clouds has a GCP beside it. A cloud may answer
differently.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from localcloud.cloud import GcpCloud
from ops.processes import end_session
from tests.engine.inventory import client, inventory
from tests.harness import ROOT, Project, typed
from tidemill.descriptor import Descriptor

EXAMPLES = ROOT / "examples" / "pulumi"
BOTH, ONCE = "both_clouds", "ephemeral"
SHARED = "shared_vpc"
ON_AWS = ["one_queue", "overrides", "own_vpc", "two_regions", "with_other_things"]


@pytest.fixture(scope="module")
def new_example(new_project: Callable[..., Project]) -> Callable[[str], Project]:
    """Make an example's stack `dev`, which a destroy may delete."""

    def make(name: str) -> Project:
        project = new_project("dev", EXAMPLES / name)
        project.env["PYTHONPATH"] = str(ROOT / "tests" / "outside")
        settings = yaml.safe_load((EXAMPLES / name / "Pulumi.yaml").read_text())
        with project.config() as config:
            config[f"{settings['name']}:purge"] = True
        return project

    return make


@contextlib.contextmanager
def up(project: Project) -> Iterator[dict[str, str]]:
    """Bring an example up, and up again without a change; it is destroyed when the block ends. Yields its outputs."""
    assert {step.op for step in project.run("up", "--yes", events=True).ok().steps} == {"create"}
    try:
        assert project.up("--expect-no-changes").ok().plan == []
        yield project.outputs()
    finally:
        project.destroy().ok()
    assert project.resources() == []


def test_every_program_is_tried():
    assert {path.parent.name for path in EXAMPLES.glob("*/__main__.py")} == {*ON_AWS, BOTH, ONCE, SHARED}


@pytest.mark.parametrize("name", ON_AWS)
def test_an_example_comes_up_once_and_goes_whole(name, cloud, new_example):
    before = inventory(cloud.env)
    with up(new_example(name)) as outputs:
        uris = [uri for key, uri in outputs.items() if key.startswith("pipeline_uri")]
        assert uris
        for uri in uris:
            bucket, _, key = uri.removeprefix("s3://").partition("/")
            content = client(cloud.env, "s3").get_object(Bucket=bucket, Key=key)["Body"].read()
            assert Descriptor.model_validate_json(content).queues["cpu"].images.keys() == {"default"}
    assert inventory(cloud.env) == before


def test_a_program_on_both_clouds_comes_up_once_and_goes_whole(new_example, tmp_path_factory):
    with GcpCloud(tmp_path_factory.mktemp("gcp")) as google:
        project = new_example(BOTH)
        project.env.update({key: value for key, value in google.settings.items() if key.startswith(("GO", "CLOUDSDK"))})
        with up(project) as outputs:
            assert outputs["pipeline_uri_aws"].startswith("s3://vision-dev-aws-store-")
            assert outputs["pipeline_uri_gcp"].startswith("gs://vision-dev-gcp-store-")


NETWORK = """
    import pulumi
    import pulumi_gcp as gcp

    network = gcp.compute.Network("shared", auto_create_subnetworks=False)
    subnetwork = gcp.compute.Subnetwork(
        "shared", network=network.id, region="us-central1", ip_cidr_range="10.8.0.0/18", private_ip_google_access=True
    )
    pulumi.export("network", network.id)
    pulumi.export("subnetwork", subnetwork.id)
"""


@contextlib.contextmanager
def network_stack(google: GcpCloud, folder: Path) -> Iterator[Project]:
    """The network team's stack, which is up until the block ends. localcloud has one project, which is also the host.

    Args:
        folder: An empty one.
    """
    source = folder / "network"
    source.mkdir()
    (source / "Pulumi.yaml").write_text(json.dumps({"name": "network", "runtime": "python"}))
    (source / "__main__.py").write_text(textwrap.dedent(NETWORK))
    (folder / "copy").mkdir()
    project = Project(folder / "copy", google.env, "prod", source)
    with project.config() as config:
        config |= {"gcp:project": google.project, "gcp:region": "us-central1"}
    project.up().ok()
    yield project
    project.destroy().ok()


def test_a_program_in_a_shared_network_comes_up_once_and_goes_whole(tmp_path):
    (tmp_path / "team").mkdir()
    with GcpCloud(tmp_path / "gcp") as google, network_stack(google, tmp_path) as network:
        backend = network.env["PULUMI_BACKEND_URL"]
        project = Project(tmp_path / "team", google.env, "dev", EXAMPLES / SHARED, backend=backend)
        project.env["PYTHONPATH"] = str(ROOT / "tests" / "outside")
        with project.config() as config:
            config |= {"gcp:project": google.project, "gcp:region": "us-central1", "tidemill-shared-vpc:purge": True}
            config["tidemill-shared-vpc:networkStack"] = "organization/network/prod"
        with up(project) as outputs:
            assert outputs["pipeline_uri"].startswith("gs://vision-dev-store-")
            kinds = {each["type"].rpartition(":")[2] for each in project.resources()}
            assert not kinds & {"Network", "Subnetwork", "Firewall"}
            templates = project.resources("RegionInstanceTemplate")
            used = {each["subnetwork"] for one in templates for each in one["outputs"]["networkInterfaces"]}
            assert used == {network.outputs()["subnetwork"]}


def test_the_wrong_version_of_an_sdk_is_told_before_anything_is_created(new_example, tmp_path):
    """The engine's provider has the version of the program's SDK."""
    project = new_example("one_queue")
    metadata = tmp_path / "pulumi_aws-6.83.4.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: pulumi-aws\nVersion: 6.83.4\n")
    project.env["PYTHONPATH"] = f"{tmp_path}:{project.env['PYTHONPATH']}"
    run = project.up().refused()
    assert run.errors[0].startswith("pulumi-aws: 6.83.4 is not allowed. Allowed: 7.30 or later, and earlier than 8.")
    assert "Traceback" not in run.text
    assert project.resources() == []


def test_ctrl_c_while_a_pipeline_for_one_job_comes_up_leaves_nothing(cloud, tmp_path):
    """A terminal sends it to the engine too. The lock of an engine that still worked used to stop the destroy, and each
    later run. Not proven: a run that is killed, which leaves what the examples' README says how to destroy."""
    before = inventory(cloud.env)
    (tmp_path / "0.txt").write_text("x")
    env = cloud.env | {"PYTHONPATH": f"{ROOT / 'tests' / 'outside'}:{ROOT}"}
    command, log = [sys.executable, str(EXAMPLES / ONCE), str(tmp_path)], tmp_path / "log"
    with log.open("wb") as out:
        running = subprocess.Popen(command, cwd=tmp_path, env=env, stdout=out, stderr=out, start_new_session=True)
    try:
        deadline = time.monotonic() + 120
        while "aws:s3:Bucket " not in log.read_text() and running.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        os.killpg(running.pid, signal.SIGINT)
        assert running.wait(120) == 1, log.read_text()
    finally:
        end_session(running)
    assert "aws:s3:Bucket " in log.read_text()
    assert inventory(cloud.env) == before


def test_a_pipeline_for_one_job_comes_and_goes_with_it(cloud, tmp_path):
    before = inventory(cloud.env)
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text("x" * number)
    env = cloud.env | {"PYTHONPATH": f"{ROOT / 'tests' / 'outside'}:{ROOT}"}
    code, output = typed(str(EXAMPLES / ONCE), str(tmp_path), cwd=tmp_path, env=env)
    assert code == 0, output
    assert re.findall(r"^(\d) succeeded s3://", output, re.MULTILINE) == ["0", "1", "2"], output
    assert inventory(cloud.env) == before
