"""A file system on GCP. Recording mocks prove what is requested, not that Filestore accepts it."""

from __future__ import annotations

from typing import Any

import pytest

from components.config import ConfigError
from components.services.pubsub.worker_pool import GcpWorkerPool, GcpWorkerPoolArgs
from tests.components.recording import PROJECT, Recorder, run
from tests.components.stacks import IMAGE, run_program, settings

MOUNT = {"shared": {"file_system": "shared", "path": "/mnt/shared"}}
BASIC = {"tier": "basic_hdd", "zone": "a"}


def stack(made: dict[str, Any] = BASIC, recorder: Recorder | None = None, **changes: Any) -> Recorder:
    """The demo stack with a file system that its queue mounts."""
    values = settings("demo-gcp")
    queues = {key: {**queue, "mounts": MOUNT} for key, queue in values["tidemill:queues"].items()}
    values |= {"tidemill:file_systems": {"shared": made}, "tidemill:queues": queues}
    return run_program(values | {f"tidemill:{key}": value for key, value in changes.items()}, recorder=recorder)


def test_it_is_protected_and_only_the_machines_subnetwork_mounts_it():
    made = stack()
    found, machines = made.one("filestore.Instance"), made.one("compute.Subnetwork").inputs["ipCidrRange"]
    assert (found.inputs["location"], found.inputs["tier"]) == ("us-central1-a", "BASIC_HDD")
    assert found.inputs["fileShares"] == {
        "name": "files",
        "capacityGb": 1024,
        "nfsExportOptions": [{"ipRanges": [machines], "accessMode": "READ_WRITE", "squashMode": "NO_ROOT_SQUASH"}],
    }
    assert found.inputs["networks"][0]["connectMode"] == "DIRECT_PEERING"
    assert found.inputs["deletionProtectionEnabled"] is True
    assert found.options["protect"]
    purged = stack(allow=["purge"]).one("filestore.Instance")
    assert purged.inputs["deletionProtectionEnabled"] is False
    assert not purged.options["protect"]


def test_a_regional_one_is_in_the_region():
    found = stack({"tier": "regional", "size_gib": 2048}).one("filestore.Instance")
    assert (found.inputs["location"], found.inputs["fileShares"]["capacityGb"]) == ("us-central1", 2048)


def test_machines_mount_it_at_its_address():
    data = stack().of("compute.RegionInstanceTemplate")[0].inputs["metadata"]["user-data"]
    assert "target=/mnt/shared,volume-driver=local,volume-opt=type=nfs,volume-opt=device=:/files" in data
    assert "addr=172.30.0.2,nfsvers=3,nolock,rw" in data


@pytest.mark.parametrize(("project", "mode"), [(PROJECT, "DIRECT_PEERING"), ("host", "PRIVATE_SERVICE_ACCESS")])
def test_an_existing_networks_range_is_looked_up(project: str, mode: str):
    network = {
        "network": f"projects/{project}/global/networks/n",
        "subnetwork": f"projects/{project}/regions/us-central1/subnetworks/s",
    }
    found = stack(network={"existing": network}).one("filestore.Instance").inputs
    assert found["fileShares"]["nfsExportOptions"][0]["ipRanges"] == ["10.8.0.0/20"]
    assert found["networks"][0] == {"network": network["network"], "modes": ["MODE_IPV4"], "connectMode": mode}


def test_it_grows_and_does_not_shrink():
    there = Recorder(file_systems={"demo-local-fs-shared": 2048})
    assert stack({**BASIC, "size_gib": 4096}, there).one("filestore.Instance")
    with pytest.raises(Exception, match=r"size_gib: 1024 is not allowed. Allowed: 2048 or more: .* cannot shrink"):
        stack(recorder=Recorder(file_systems={"demo-local-fs-shared": 2048}))


def test_a_zone_of_another_region_is_refused():
    with pytest.raises(
        Exception, match=r"file_systems.shared.zone: \"d\" is not allowed. Allowed: zones of us-central1"
    ):
        stack({**BASIC, "zone": "d"})


def test_a_pool_that_is_used_alone_needs_the_file_system():
    args = GcpWorkerPoolArgs(
        queue="cpu",
        settings={"images": {"default": IMAGE}, "mounts": MOUNT},
        image=IMAGE,
        network="n",
        subnetwork="s",
        service_account_email="a@example.com",
        bucket="b",
    )
    with pytest.raises(ConfigError) as refused:
        run(lambda: GcpWorkerPool("p", args))
    assert refused.value.what == "tidemill:queues.cpu.mounts.shared.file_system"
