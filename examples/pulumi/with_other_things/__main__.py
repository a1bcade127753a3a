"""A queue in a program with other things: it takes a key, a bucket and a topic, and others take its outputs."""

import pulumi
import pulumi_aws as aws
from tidemill_pulumi import Data, Monitoring, Pipeline, PipelineArgs, Queue, StackConfig, Store

IMAGE = "docker.io/library/python@sha256:d650b593947451ceca829edefb119f6492340416b222d820c181fbcf6ae0223b"

purge = pulumi.Config().get_bool("purge") or False

key = aws.kms.Key("vision", description="Results of vision", enable_key_rotation=True)
features = aws.s3.Bucket("features", force_destroy=purge)
oncall = aws.sns.Topic("oncall")
publish = {
    "Effect": "Allow",
    "Principal": {"Service": ["cloudwatch.amazonaws.com", "events.amazonaws.com"]},
    "Action": "sns:Publish",
    "Resource": oncall.arn,
}
policy = pulumi.Output.json_dumps({"Version": "2012-10-17", "Statement": [publish]})
aws.sns.TopicPolicy("oncall", arn=oncall.arn, policy=policy)

pipeline = Pipeline(
    "vision-dev",
    PipelineArgs(
        config=StackConfig(
            team="vision",
            environment="dev",
            queues={"cpu": Queue(images={"default": IMAGE})},
            store=Store(kms_key=key.arn),
            data=Data(write=[pulumi.Output.concat("s3://", features.bucket, "/vision/")]),
            monitoring=Monitoring(topic=oncall.arn, job_channels={"oncall": oncall.arn}),
            allow=["purge"] if purge else [],
        )
    ),
)

# A database that jobs reach, and nothing else.
database = aws.ec2.SecurityGroup("database", description="The catalog: jobs alone", vpc_id=pipeline.vpc_id)
aws.vpc.SecurityGroupIngressRule(
    "jobs-to-database",
    security_group_id=database.id,
    referenced_security_group_id=pipeline.security_group_id,
    ip_protocol="tcp",
    from_port=5432,
    to_port=5432,
    description="Jobs",
)
# Batch's own events of this queue's failed jobs, to the people on call.
failed = aws.cloudwatch.EventRule(
    "failed",
    event_pattern=pulumi.Output.json_dumps(
        {
            "source": ["aws.batch"],
            "detail-type": ["Batch Job State Change"],
            "detail": {"jobQueue": [pipeline.job_queue_arns["cpu"]], "status": ["FAILED"]},
        }
    ),
)
aws.cloudwatch.EventTarget("failed", rule=failed.name, target_id="oncall", arn=oncall.arn)

pulumi.export("pipeline_uri", pipeline.descriptor_uri)
pulumi.export("results", features.bucket)
