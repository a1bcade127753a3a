"""The GCP network in each of its shapes. Recording mocks prove what is requested, not that GCP accepts it."""

import pytest

from components.config import ConfigError
from components.config.ranges import derived
from components.gcp.network import GcpNetwork, GcpNetworkArgs
from tests.components.recording import Recorder, run
from tests.fields import about


def network(**settings) -> tuple[Recorder, GcpNetwork]:
    kept: list[GcpNetwork] = []
    recorder = run(lambda: kept.append(GcpNetwork("n", GcpNetworkArgs(**settings))))
    return recorder, kept[0]


@pytest.mark.parametrize(("egress", "addresses"), [("public", True), ("endpoints", False)])
def test_nothing_that_bills_is_made_without_nat(egress: str, addresses: bool):
    made, component = network(egress=egress)
    assert made.counts() == {"GcpNetwork": 1, "compute.Firewall": 1, "compute.Network": 1, "compute.Subnetwork": 1}
    assert component.external_addresses is addresses


def test_the_network_is_in_custom_mode_with_one_subnetwork_that_reaches_googles_apis():
    made, _ = network(cidr="172.16.0.0/18")
    assert made.one("compute.Network").inputs == {"autoCreateSubnetworks": False, "routingMode": "REGIONAL"}
    assert made.one("compute.Subnetwork").inputs == {
        "ipCidrRange": "172.16.0.0/18",
        "network": "n-vpc-id",
        "privateIpGoogleAccess": True,
        "region": "us-central1",
    }


def test_a_range_that_no_key_gives_follows_from_the_name_and_stays():
    subnetwork = network()[0].one("compute.Subnetwork")
    assert subnetwork.inputs["ipCidrRange"] == derived("n", "us-central1")
    assert subnetwork.options["ignore_changes"] == ["ipCidrRange"]
    assert network(cidr="172.16.0.0/18")[0].one("compute.Subnetwork").options["ignore_changes"] == []


@pytest.mark.parametrize("egress", ["public", "nat", "endpoints"])
def test_nothing_comes_in_whatever_the_way_out(egress: str):
    made, _ = network(egress=egress)
    assert made.one("compute.Firewall").inputs == {
        "denies": [{"protocol": "all"}],
        "direction": "INGRESS",
        "network": "n-vpc-id",
        "priority": 900,
        "sourceRanges": ["0.0.0.0/0"],
    }


def test_nat_serves_the_subnetwork_alone_and_has_ports_for_many_slots():
    made, component = network(egress="nat")
    assert made.counts()["compute.Router"] == made.counts()["compute.RouterNat"] == 1
    assert made.one("compute.Router").inputs == {"network": "n-vpc-id", "region": "us-central1"}
    assert made.one("compute.RouterNat").inputs == {
        "enableDynamicPortAllocation": True,
        "enableEndpointIndependentMapping": False,
        "maxPortsPerVm": 4096,
        "minPortsPerVm": 64,
        "natIpAllocateOption": "AUTO_ONLY",
        "region": "us-central1",
        "router": "n-router-1a2b3c4",
        "sourceSubnetworkIpRangesToNat": "LIST_OF_SUBNETWORKS",
        "subnetworks": [{"name": "n-subnet-id", "sourceIpRangesToNats": ["ALL_IP_RANGES"]}],
    }
    assert component.external_addresses is False


def test_nothing_is_made_in_an_existing_network():
    host = "projects/network-host"
    made, component = network(
        network=f"{host}/global/networks/shared", subnetwork=f"{host}/regions/us-central1/subnetworks/batch"
    )
    assert made.counts() == {"GcpNetwork": 1}
    assert component.external_addresses is False


@pytest.mark.parametrize("one", ["network", "subnetwork"])
def test_half_of_an_existing_network(one: str):
    with pytest.raises(ValueError, match="n: set both network and subnetwork, or neither"):
        network(**{one: "projects/p/global/networks/n"})


def test_a_way_out_that_is_none():
    with pytest.raises(ConfigError, check=about("tidemill:network.create.egress", '"none"')):
        network(egress="none")
