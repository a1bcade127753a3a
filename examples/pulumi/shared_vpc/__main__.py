"""A pipeline on GCP in a shared VPC: the network team's stack, in the host project, tells network and subnetwork.

There the project's Google APIs service agent needs roles/compute.networkUser on the subnetwork.
"""

import pulumi
from tidemill_pulumi import ExistingNetwork, Machines, Network, Pipeline, PipelineArgs, Queue, StackConfig

IMAGE = "docker.io/library/python@sha256:d650b593947451ceca829edefb119f6492340416b222d820c181fbcf6ae0223b"

config = pulumi.Config()
purge = config.get_bool("purge") or False

host = pulumi.StackReference(config.require("networkStack"))
# Full names, such as projects/network-host/global/networks/shared.
shared = ExistingNetwork(network=host.require_output("network"), subnetwork=host.require_output("subnetwork"))

pipeline = Pipeline(
    "vision-dev",
    PipelineArgs(
        config=StackConfig(
            team="vision",
            environment="dev",
            cloud="gcp",
            network=Network(existing=shared),
            queues={"cpu": Queue(images={"default": IMAGE}, machines=Machines(families=["n2", "n2d"]))},
            allow=["purge"] if purge else [],
        )
    ),
)
pulumi.export("pipeline_uri", pipeline.descriptor_uri)
