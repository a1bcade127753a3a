"""A shared stack on GCP and the preview of a team's stack that uses it, on localcloud. Google may differ."""

import pytest

from localcloud.cloud import GcpCloud
from ops.project import ROOT
from tests.harness import Project

SHARED = "organization/tidemill-shared/prod"


@pytest.fixture(scope="module")
def gcp(tmp_path_factory):
    with GcpCloud(tmp_path_factory.mktemp("localcloud")) as running:
        yield running


def test_a_team_uses_the_shared_network_and_registry(gcp, tmp_path_factory):
    shared = Project(tmp_path_factory.mktemp("prod"), gcp.env, "prod", ROOT / "shared")
    place = {"gcp:project": gcp.project, "gcp:region": "us-central1"}
    with shared.config() as config:
        config.update({**place, "tidemill-shared:cloud": "gcp"})
    assert shared.preview().ok().violations == []
    with shared.config() as config:
        # The policies refuse this; the end of this test removes it.
        config["tidemill-shared:purge"] = True
    shared.up().ok()
    output = shared.outputs()["shared"]
    assert (output["cloud"], output["egress"], output["region"]) == ("gcp", "nat", "us-central1")

    backend = shared.env["PULUMI_BACKEND_URL"]
    team = Project(tmp_path_factory.mktemp("vision"), gcp.env, "vision-gcp-dev", backend=backend)
    with team.config() as config:
        config.update(place)
        config["tidemill:network"] = {"shared": SHARED}
        config["tidemill:registry"] = {"shared": SHARED}
        config["tidemill:queues"]["cpu"]["images"] = {"default": "shared://base:1"}
    steps = team.preview().ok().steps
    assert len(steps) > 20
    made = {step.kind.rpartition(":")[2] for step in steps}
    assert not made & {"Network", "Subnetwork", "Firewall", "Router", "RouterNat"}
    assert [step.name for step in steps if "pull-shared" in step.name] == ["vision-dev-identity-pull-shared-worker"]

    shared.destroy().ok()
    assert shared.resources() == []
