"""The network in each of its shapes. Recording mocks prove what is requested, not that AWS accepts it."""

import ipaddress
from collections.abc import Callable
from typing import Any

import pulumi
import pytest

from components.aws.network import INTERFACE_ENDPOINTS, AwsNetwork, AwsNetworkArgs
from components.config import ConfigError
from components.config.ranges import derived
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
    assert [inputs["cidrBlock"] for inputs in subnets.values()] == [block(made, 0), block(made, 1)]
    assert all(inputs["mapPublicIpOnLaunch"] is True for inputs in subnets.values())


def test_a_zone_keeps_its_block_when_an_earlier_one_goes():
    made = run_with(
        Recorder(zones=["us-west-2b", "us-west-2c"]), lambda: AwsNetwork("n", AwsNetworkArgs(zones=1, tags=TAGS))
    )
    assert made.one("ec2.Subnet").name == "n-subnet-b"
    assert made.one("ec2.Subnet").inputs["cidrBlock"] == block(made, 1)


def block(made: Recorder, index: int) -> str:
    """A sixteenth of the VPC's range."""
    whole = ipaddress.IPv4Network(made.one("ec2.Vpc").inputs["cidrBlock"])
    return str([*whole.subnets(prefixlen_diff=4)][index])


def up(*zones: str, vpc: str = "vpc-1", network: str = "n") -> Recorder:
    """The account after an `up` of a network: its subnets are there, under the names that it gave them."""
    ids = {f"subnet-{vpc}-{zone[-1]}": zone for zone in zones}
    names = {each: (vpc, f"{network}-subnet-{zone[-1]}") for each, zone in ids.items()}
    return Recorder(subnets=ids, named_subnets=names)


def zones_of(recorder: Recorder, **settings: Any) -> list[str]:
    made = run_with(recorder, lambda: AwsNetwork("n", AwsNetworkArgs(tags=TAGS, **settings)))
    return [subnet.inputs["availabilityZone"] for subnet in made.of("ec2.Subnet")]


A, B, C, D = (f"us-west-2{letter}" for letter in "abcd")


@pytest.mark.parametrize(
    ("kept", "answer", "impaired", "wanted"),
    [
        pytest.param([A, B, C], [A, B, C, D], {B}, [A, B, C], id="a zone is impaired"),
        pytest.param([A, B, C], [A, C, D], set(), [A, B, C], id="a zone is not listed any more"),
        pytest.param([A, B, C], [], set(), [A, B, C], id="nothing is listed"),
        pytest.param([B, C, D], [A, B, C, D], set(), [B, C, D], id="a new zone comes first"),
        pytest.param([A, C, D], [A, B, C, D], set(), [A, C, D], id="a zone is well again"),
        pytest.param([A, C], [A, B, C, D], {B}, [A, C, D], id="the first up stopped half-way"),
        pytest.param([A, B, C, D], [A, B, C, D], {A}, [A, B, C], id="fewer are wanted"),
        pytest.param([], [A, B, C, D], {B}, [A, C, D], id="nothing is there yet"),
    ],
)
def test_a_network_keeps_its_zones_whatever_the_region_answers(kept, answer, impaired, wanted):
    recorder = up(*kept)
    recorder.zones, recorder.impaired = answer, impaired
    assert zones_of(recorder) == wanted


def test_zones_of_another_network_do_not_count():
    assert zones_of(up(C, D, network="other"), zones=2) == [A, B]


def test_networks_of_one_name_in_the_same_zones_are_no_question():
    first, second = up(B, C), up(B, C, vpc="vpc-2")
    both = Recorder(subnets=first.subnets | second.subnets, named_subnets=first.named_subnets | second.named_subnets)
    assert zones_of(both, zones=2) == [B, C]


def test_networks_of_one_name_in_different_zones_need_names():
    first, second = up(A, B), up(B, C, vpc="vpc-2")
    found = {"subnets": first.subnets | second.subnets, "named_subnets": first.named_subnets | second.named_subnets}
    with pytest.raises(ConfigError, match=r"zone_names is missing: 2 networks .* named n") as caught:
        zones_of(Recorder(**found), zones=2)
    assert f"vpc-1 has {A}, {B}; vpc-2 has {B}, {C}" in str(caught.value)
    assert zones_of(Recorder(**found), zone_names=["b", "c"]) == [B, C]


def test_zones_by_name_need_not_be_available_today():
    recorder = up(A, B)
    recorder.impaired = {D}
    assert zones_of(recorder, zone_names=["d", A]) == [A, D]


def test_a_zone_that_the_region_lacks():
    with pytest.raises(ConfigError, match=r"network.create.zone_names\[1\]: \"e\" .* zones of the region: us-west-2a"):
        network(zone_names=["a", "e"])


def test_a_range_that_no_key_gives_follows_from_the_name_and_stays():
    made = network()
    assert made.one("ec2.Vpc").inputs["cidrBlock"] == derived("n", "us-west-2")
    assert made.one("ec2.Vpc").options["ignore_changes"] == ["cidrBlock"]


def test_a_range_of_a_key_can_be_changed():
    made = network(cidr="10.4.0.0/16", zones=2)
    assert made.one("ec2.Vpc").inputs["cidrBlock"] == "10.4.0.0/16"
    assert made.one("ec2.Vpc").options["ignore_changes"] == []
    assert [subnet.inputs["cidrBlock"] for subnet in made.of("ec2.Subnet")] == ["10.4.0.0/20", "10.4.16.0/20"]


@pytest.mark.parametrize("wrap", [str, pulumi.Output.from_input])
def test_a_pool_gives_the_range(wrap: Callable[[str], Any]):
    def program() -> None:
        AwsNetwork("n", AwsNetworkArgs(ipam_pool=wrap("ipam-pool-0123456789abcdef0"), netmask=20, zones=1))

    made = run_with(Recorder(allotted="10.8.0.0/20"), program)
    vpc = made.one("ec2.Vpc")
    assert vpc.inputs["ipv4IpamPoolId"].startswith("ipam-pool-")
    assert vpc.inputs["ipv4NetmaskLength"] == 20
    assert "cidrBlock" not in vpc.inputs
    assert made.one("ec2.Subnet").inputs["cidrBlock"] == "10.8.0.0/24"


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"cidr": "10.4.0.0/16", "ipam_pool": "ipam-pool-0123456789abcdef0"}, "cidr"),
        ({"netmask": 20}, "netmask"),
        ({"zones": 2, "zone_names": ["a"]}, "zones"),
        ({"cidr": "10.0.0.0/21"}, "cidr"),
        ({"ipam_pool": "pool"}, "ipam_pool"),
    ],
)
def test_arguments_that_contradict_each_other(settings: dict[str, Any], key: str):
    with pytest.raises(ConfigError, match=rf"^tidemill:network.create.{key}: "):
        network(**settings)


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


@pytest.mark.parametrize(
    ("stands", "names", "wanted"),
    [
        pytest.param({"vpc-1": B}, ["a", "b"], B, id="an earlier zone comes"),
        pytest.param({"vpc-1": B}, ["a", "c"], A, id="its zone goes"),
        pytest.param({"vpc-1": B, "vpc-2": C}, ["a", "b", "c"], A, id="two networks of one name"),
        pytest.param({}, ["b", "c"], B, id="nothing is there yet"),
    ],
)
def test_nat_stays_in_its_zone(stands, names, wanted):
    ids = {f"subnet-{vpc}": zone for vpc, zone in stands.items()}
    names_of = {f"subnet-{vpc}": (vpc, f"n-public-{zone[-1]}") for vpc, zone in stands.items()}
    args = AwsNetworkArgs(tags=TAGS, egress="nat", zone_names=names)
    made = run_with(Recorder(subnets=ids, named_subnets=names_of), lambda: AwsNetwork("n", args))
    assert made.one("ec2.Subnet", f"n-public-{wanted[-1]}").inputs["availabilityZone"] == wanted
    assert made.one("ec2.NatGateway").inputs["subnetId"] == f"n-public-{wanted[-1]}-id"


def test_a_gateway_in_each_zone_leaves_the_first_one_as_it_is():
    one, each = network(zones=3, egress="nat"), network(zones=3, egress="nat", nat_per_zone=True)
    before, after = ({(made.type, made.name): made.inputs for made in recorder.resources} for recorder in (one, each))
    moved = {name for (kind, name), inputs in before.items() if after[kind, name] != inputs}
    assert moved == {"n-subnet-b-routes", "n-subnet-c-routes", "n-s3"}
    assert [made.name for made in each.of("ec2.NatGateway")] == ["n-nat", "n-nat-b", "n-nat-c"]
    blocks = [subnet.inputs["cidrBlock"] for subnet in each.of("ec2.Subnet")]
    assert len({*blocks}) == len(blocks) == 6
    tables = {made.name: made.inputs["routeTableId"] for made in each.of("ec2.RouteTableAssociation")}
    assert [tables[f"n-subnet-{letter}-routes"] for letter in "abc"] == [
        "n-routes-id",
        "n-routes-b-id",
        "n-routes-c-id",
    ]
    assert {tables[f"n-nat-{letter}-routes"] for letter in "bc"} == {"n-public-routes-id"}
    out = {made.inputs["routeTableId"]: made.inputs.get("natGatewayId") for made in each.of("ec2.Route")}
    assert (out["n-routes-b-id"], out["n-routes-c-id"]) == ("n-nat-b-id", "n-nat-c-id")
    gateway = each.one("ec2.VpcEndpoint", "n-s3").inputs
    assert gateway["routeTableIds"] == ["n-routes-id", "n-routes-b-id", "n-routes-c-id"]


@pytest.mark.parametrize("per_zone", [True, False], ids=["it gets one", "it has one from before"])
def test_the_first_gateway_does_not_move_to_where_another_stands(per_zone):
    """A subnet is made before others go, so the new zone's block is not free in the same `up`."""
    named = {"subnet-1": ("vpc-1", "n-public-b"), **({} if per_zone else {"subnet-2": ("vpc-1", "n-nat-a")})}
    recorder = Recorder(subnets={"subnet-1": B, "subnet-2": A}, named_subnets=named)
    args = AwsNetworkArgs(egress="nat", nat_per_zone=per_zone, zone_names=["a", "c"])
    with pytest.raises(ConfigError) as caught:
        run_with(recorder, lambda: AwsNetwork("n", args))
    assert caught.value.what == "tidemill:network.create.nat_per_zone"
    assert B in caught.value.allowed
    assert "with the old zones" in str(caught.value)


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
