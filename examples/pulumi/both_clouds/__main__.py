"""A team with a pipeline on each cloud: a job goes to the one where its data is, with the same commands."""

import pulumi
from tidemill_pulumi import Machines, Pipeline, PipelineArgs, Queue, StackConfig

IMAGE = "docker.io/library/python@sha256:d650b593947451ceca829edefb119f6492340416b222d820c181fbcf6ae0223b"

purge = pulumi.Config().get_bool("purge") or False

on_aws = StackConfig(
    team="vision",
    environment="dev-aws",
    queues={"cpu": Queue(images={"default": IMAGE})},
    allow=["purge"] if purge else [],
)
on_gcp = StackConfig(
    team="vision",
    environment="dev-gcp",
    cloud="gcp",
    queues={"cpu": Queue(images={"default": IMAGE}, machines=Machines(families=["n2", "n2d"]))},
    allow=["purge"] if purge else [],
)
for config in (on_aws, on_gcp):
    pipeline = Pipeline(f"{config.team}-{config.environment}", PipelineArgs(config=config))
    pulumi.export(f"pipeline_uri_{config.cloud}", pipeline.descriptor_uri)
