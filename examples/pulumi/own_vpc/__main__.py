"""A pipeline in a VPC that the same program makes: its ids are outputs, which the pipeline takes as they are."""

import pulumi
import pulumi_aws as aws
from tidemill_pulumi import ExistingNetwork, Network, Pipeline, PipelineArgs, Queue, StackConfig

IMAGE = "docker.io/library/python@sha256:d650b593947451ceca829edefb119f6492340416b222d820c181fbcf6ae0223b"

purge = pulumi.Config().get_bool("purge") or False

vpc = aws.ec2.Vpc("lab", cidr_block="10.20.0.0/16", enable_dns_support=True, enable_dns_hostnames=True)
gateway = aws.ec2.InternetGateway("lab", vpc_id=vpc.id)
routes = aws.ec2.RouteTable("lab", vpc_id=vpc.id)
aws.ec2.Route("internet", route_table_id=routes.id, destination_cidr_block="0.0.0.0/0", gateway_id=gateway.id)

subnets: list[aws.ec2.Subnet] = []
for index, zone in enumerate(["us-west-2a", "us-west-2b"]):
    subnet = aws.ec2.Subnet(
        zone,
        vpc_id=vpc.id,
        availability_zone=zone,
        cidr_block=f"10.20.{16 * index}.0/20",
        # Machines pull images and write results: they need a way out, here addresses of their own.
        map_public_ip_on_launch=True,
    )
    aws.ec2.RouteTableAssociation(zone, subnet_id=subnet.id, route_table_id=routes.id)
    subnets.append(subnet)

pipeline = Pipeline(
    "vision-dev",
    PipelineArgs(
        config=StackConfig(
            team="vision",
            environment="dev",
            network=Network(existing=ExistingNetwork(vpc_id=vpc.id, subnet_ids=[subnet.id for subnet in subnets])),
            queues={"cpu": Queue(images={"default": IMAGE})},
            allow=["purge"] if purge else [],
        )
    ),
)
pulumi.export("pipeline_uri", pipeline.descriptor_uri)
