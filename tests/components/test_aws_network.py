"""The network in each of its shapes. Recording mocks prove what is requested, not that AWS accepts it."""

import pytest

from components.aws.network import INTERFACE_ENDPOINTS, AwsNetwork, AwsNetworkArgs
from components.config import ConfigError
from tests.components.recording import Recorder, run, run_with

TAGS = {"tidemill:team": "vision"}


def network(**settings) -> Recorder:
    return run(lambda: AwsNetwork("n", AwsNetworkArgs(tags=TAGS, **settings)))


def test_public_makes_nothing_that_bills():
    made = network(zones=2)
    assert made.counts() == {
        "AwsNetwork": 1,
        "ec2.InternetGateway": 1,
        "ec2.Route": 1,
        "ec2.RouteTable": 1,
        "ec2.RouteTableAssociation": 2,
        "ec2.SecurityGroup": 1,
        "ec2.Subnet": 2,
        "ec2.Vpc": 1,
        "ec2.VpcEndpoint": 1,
        "vpc.SecurityGroupEgressRule": 1,
    }


def test_public_subnets_have_addresses_and_a_block_by_their_zones_letter():
    made = network(zones=2)
    subnets = {subnet.name: subnet.inputs for subnet in made.of("ec2.Subnet")}
    assert {name: inputs["availabilityZone"] for name, inputs in subnets.items()} == {
        "n-subnet-a": "us-west-2a",
        "n-subnet-b": "us-west-2b",
    }
    assert sorted(inputs["cidrBlock"] for inputs in subnets.values()) == ["10.0.0.0/20", "10.0.16.0/20"]
    assert all(inputs["mapPublicIpOnLaunch"] is True for inputs in subnets.values())


def test_a_zone_keeps_its_block_when_an_earlier_one_goes():
    made = run_with(
        Recorder(zones=["us-west-2b", "us-west-2c"]), lambda: AwsNetwork("n", AwsNetworkArgs(zones=1, tags=TAGS))
    )
    assert made.one("ec2.Subnet").name == "n-subnet-b"
    assert made.one("ec2.Subnet").inputs["cidrBlock"] == "10.0.16.0/20"


@pytest.mark.parametrize("egress", ["public", "nat", "endpoints"])
def test_machines_reach_s3_through_the_gateway_and_are_reached_by_nobody(egress: str):
    made = network(zones=1, egress=egress)
    gateway = made.one("ec2.VpcEndpoint", "n-s3").inputs
    assert gateway["serviceName"] == "com.amazonaws.us-west-2.s3"
    assert gateway["vpcEndpointType"] == "Gateway"
    assert gateway["routeTableIds"] == ["n-routes-id"]
    out = made.one("vpc.SecurityGroupEgressRule", "n-machines-out").inputs
    assert (out["ipProtocol"], out["cidrIpv4"]) == ("-1", "0.0.0.0/0")
    for rule in made.of("vpc.SecurityGroupIngressRule"):
        assert rule.inputs["securityGroupId"] != "n-machines-id"


def test_nat_stands_in_a_public_subnet_of_its_own():
    made = network(zones=2, egress="nat")
    assert made.one("ec2.NatGateway").inputs["subnetId"] == "n-public-a-id"
    assert made.one("ec2.NatGateway").inputs["allocationId"] == "n-address-allocation"
    routes = {route.name: route.inputs for route in made.of("ec2.Route")}
    assert routes["n-route-nat"]["natGatewayId"] == "n-nat-id"
    assert routes["n-route-nat"]["routeTableId"] == "n-routes-id"
    assert routes["n-route-internet"]["routeTableId"] == "n-public-routes-id"
    private = [s.inputs for s in made.of("ec2.Subnet") if s.name.startswith("n-subnet-")]
    assert [subnet["mapPublicIpOnLaunch"] for subnet in private] == [False, False]
    blocks = [subnet.inputs["cidrBlock"] for subnet in made.of("ec2.Subnet")]
    assert len(set(blocks)) == 3


def test_endpoints_need_no_internet():
    made = network(zones=2, egress="endpoints", extra_endpoints=["secretsmanager"])
    assert not made.of("ec2.InternetGateway")
    assert not made.of("ec2.Route")
    interfaces = [e.inputs for e in made.of("ec2.VpcEndpoint") if e.inputs["vpcEndpointType"] == "Interface"]
    expected = [f"com.amazonaws.us-west-2.{service}" for service in [*INTERFACE_ENDPOINTS, "secretsmanager"]]
    assert sorted(e["serviceName"] for e in interfaces) == sorted(expected)
    assert all(e["privateDnsEnabled"] is True for e in interfaces)
    assert all(e["subnetIds"] == ["n-subnet-a-id", "n-subnet-b-id"] for e in interfaces)
    rule = made.one("vpc.SecurityGroupIngressRule").inputs
    assert (rule["fromPort"], rule["toPort"], rule["ipProtocol"]) == (443, 443, "tcp")
    assert rule["securityGroupId"] == "n-endpoints-id"
    assert rule["referencedSecurityGroupId"] == "n-machines-id"


def test_an_existing_network_gets_a_security_group_and_nothing_else():
    made = network(vpc_id="vpc-12345678", subnet_ids=["subnet-12345678"])
    assert made.counts() == {"AwsNetwork": 1, "ec2.SecurityGroup": 1, "vpc.SecurityGroupEgressRule": 1}
    assert made.one("ec2.SecurityGroup").inputs["vpcId"] == "vpc-12345678"


def test_more_zones_than_the_region_has():
    with pytest.raises(ConfigError, match=r"tidemill:network.create.zones: 6 .* 1 to 4 in this region"):
        network(zones=6)
