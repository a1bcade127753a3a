"""The stack of a project: APIs, service agents, the state bucket and its key; and the quotas of its region."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from localcloud.cloud import GcpCloud
from ops.project import ROOT
from tests.engine.google import Google
from tests.harness import Project


@pytest.fixture(scope="module")
def google(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Google]:
    with GcpCloud(tmp_path_factory.mktemp("localcloud")) as running:
        yield Google(running)


def lasting(google: Google) -> set[str]:
    """Everything but the records of what was done."""
    return {name for name in google.names() if "/operations/" not in name}


def test_the_projects_stack_previews_comes_up_and_goes(google, tmp_path_factory):
    before = lasting(google)
    project = Project(tmp_path_factory.mktemp("account"), google.cloud.env, "account", ROOT / "bootstrap")
    with project.config() as config:
        config.update({"gcp:project": google.project, "gcp:region": "us-central1", "tidemill-bootstrap:cloud": "gcp"})
    preview = project.preview().ok()
    assert preview.violations == []
    up = project.up().ok()
    assert sorted(preview.plan) == sorted(up.plan)
    outputs = project.outputs()
    assert outputs["backend_url"].startswith("gs://tidemill-state-bucket-")
    assert outputs["secrets_provider"].startswith(f"gcpkms://projects/{google.project}/locations/us-central1/keyRings/")
    assert project.up("--expect-no-changes").ok().plan == []
    assert "protect" in project.destroy().refused().text
    with project.config() as config:
        config["tidemill-bootstrap:purge"] = True
    project.up().ok()
    project.destroy().ok()
    assert project.resources() == []
    # A key ring and its keys cannot be deleted on Google; here the provider takes them away.
    assert lasting(google) == before


def test_the_quotas_of_the_region_are_read(google):
    done = subprocess.run(
        [sys.executable, "-m", "ops", "quotas", "--stack", "demo-gcp"],
        cwd=ROOT,
        env=google.cloud.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, f"The quotas of {google.project} in us-central1 suffice.\n"), (
        done.stderr
    )
