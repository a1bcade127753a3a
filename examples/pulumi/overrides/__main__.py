"""Properties that no key covers:  in the config for single resources, a transform for all of a kind."""

import pulumi
from tidemill_pulumi import Pipeline, PipelineArgs, Queue, StackConfig

IMAGE = "docker.io/library/python@sha256:d650b593947451ceca829edefb119f6492340416b222d820c181fbcf6ae0223b"

purge = pulumi.Config().get_bool("purge") or False


def short_sessions(args: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
    """What this company asks of every role: sessions of an hour at most."""
    if args.type_ != "aws:iam/role:Role":
        return None
    return pulumi.ResourceTransformResult({**args.props, "maxSessionDuration": 3600}, args.opts)


pipeline = Pipeline(
    "vision-dev",
    PipelineArgs(
        config=StackConfig(
            team="vision",
            environment="dev",
            queues={"cpu": Queue(images={"default": IMAGE})},
            # The name is the one in the preview. A name or a property that does not exist is refused.
            overrides={"vision-dev-cpu-machines": {"metadataOptions": {"httpPutResponseHopLimit": 2}}},
            allow=["purge"] if purge else [],
        )
    ),
    pulumi.ResourceOptions(transforms=[short_sessions]),
)
pulumi.export("pipeline_uri", pipeline.descriptor_uri)
