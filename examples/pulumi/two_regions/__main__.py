"""The same pipeline in two regions, so that jobs run where their data is: a provider per region."""

import pulumi
import pulumi_aws as aws
from tidemill_pulumi import Data, Pipeline, PipelineArgs, Queue, StackConfig

IMAGE = "docker.io/library/python@sha256:d650b593947451ceca829edefb119f6492340416b222d820c181fbcf6ae0223b"
DATA = {"us-west-2": "s3://vision-raw-us", "eu-west-1": "s3://vision-raw-eu"}
"""Where the images lie, by region."""

purge = pulumi.Config().get_bool("purge") or False

for region, bucket in DATA.items():
    provider = aws.Provider(region, region=region)
    # The environment tells the two apart in one account: in names, tags and permissions.
    environment = f"dev-{region.partition('-')[0]}"
    pipeline = Pipeline(
        f"vision-{environment}",
        PipelineArgs(
            config=StackConfig(
                team="vision",
                environment=environment,
                data=Data(read=[bucket]),
                queues={"cpu": Queue(images={"default": IMAGE})},
                allow=["purge"] if purge else [],
            )
        ),
        pulumi.ResourceOptions(providers=[provider]),
    )
    pulumi.export(f"pipeline_uri_{region}", pipeline.descriptor_uri)
