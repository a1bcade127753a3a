"""Everything that can be tagged names its owner: cost reports and permissions depend on it.

Source: https://docs.aws.amazon.com/whitepapers/latest/tagging-best-practices/tagging-best-practices.html
"""

from .common.labels import missing, parameters
from .common.rule import MEDIUM, Resource, Violations, resource_rule

TYPES = (
    "aws:batch/computeEnvironment:ComputeEnvironment", "aws:batch/jobDefinition:JobDefinition",
    "aws:batch/jobQueue:JobQueue", "aws:batch/schedulingPolicy:SchedulingPolicy",
    "aws:cloudwatch/logGroup:LogGroup", "aws:ec2/eip:Eip", "aws:ec2/instance:Instance",
    "aws:ec2/internetGateway:InternetGateway", "aws:ec2/launchTemplate:LaunchTemplate",
    "aws:ec2/natGateway:NatGateway", "aws:ec2/routeTable:RouteTable", "aws:ec2/securityGroup:SecurityGroup",
    "aws:ec2/subnet:Subnet", "aws:ec2/vpc:Vpc", "aws:ec2/vpcEndpoint:VpcEndpoint", "aws:ecr/repository:Repository",
    "aws:efs/accessPoint:AccessPoint", "aws:efs/fileSystem:FileSystem",
    "aws:iam/policy:Policy", "aws:iam/role:Role", "aws:kinesis/firehoseDeliveryStream:FirehoseDeliveryStream",
    "aws:kms/key:Key", "aws:s3/bucket:Bucket", "aws:s3/bucketV2:BucketV2",
)  # fmt: skip


@resource_rule(
    "Everything that can be tagged carries the required tags.",
    MEDIUM,
    *TYPES,
    parameters=parameters(["tidemill:team", "tidemill:environment"]),
)
def violations(args: Resource) -> Violations:
    yield from missing(args, "tags", "tagsAll", word="tags")
