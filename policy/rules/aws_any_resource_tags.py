"""Everything that can be tagged names its owner: cost reports and permissions depend on it.

Of what is not made yet, the machines, a launch template says the tags. The provider does not add its default tags
there.
Source: https://docs.aws.amazon.com/whitepapers/latest/tagging-best-practices/tagging-best-practices.html and
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/create-launch-template.html (resource tags)
"""

from .common.kinds import COMPUTE_ENVIRONMENT, LAUNCH_TEMPLATE
from .common.labels import parameters, wrong, wrong_in
from .common.rule import MEDIUM, Resource, Violations, resource_rule
from .common.values import UNKNOWN, items, look

_INSTANCE = "aws:ec2/instance:Instance"
TYPES = (
    COMPUTE_ENVIRONMENT, LAUNCH_TEMPLATE, _INSTANCE, "aws:batch/jobDefinition:JobDefinition",
    "aws:batch/jobQueue:JobQueue", "aws:batch/schedulingPolicy:SchedulingPolicy", "aws:budgets/budget:Budget",
    "aws:cloudwatch/eventRule:EventRule", "aws:cloudwatch/logGroup:LogGroup",
    "aws:cloudwatch/metricAlarm:MetricAlarm", "aws:dynamodb/table:Table", "aws:ebs/snapshot:Snapshot",
    "aws:ebs/volume:Volume", "aws:ec2/ami:Ami", "aws:ec2/eip:Eip", "aws:ec2/internetGateway:InternetGateway",
    "aws:ec2/natGateway:NatGateway", "aws:ec2/networkInterface:NetworkInterface",
    "aws:ec2/placementGroup:PlacementGroup", "aws:ec2/routeTable:RouteTable", "aws:ec2/securityGroup:SecurityGroup",
    "aws:ec2/subnet:Subnet", "aws:ec2/vpc:Vpc", "aws:ec2/vpcEndpoint:VpcEndpoint", "aws:ecr/repository:Repository",
    "aws:efs/accessPoint:AccessPoint", "aws:efs/fileSystem:FileSystem", "aws:iam/instanceProfile:InstanceProfile",
    "aws:iam/policy:Policy", "aws:iam/role:Role", "aws:kinesis/firehoseDeliveryStream:FirehoseDeliveryStream",
    "aws:kms/key:Key", "aws:lambda/function:Function", "aws:rds/instance:Instance", "aws:s3/bucket:Bucket",
    "aws:s3/bucketV2:BucketV2", "aws:scheduler/scheduleGroup:ScheduleGroup", "aws:sns/topic:Topic",
    "aws:sqs/queue:Queue",
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule",
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
)  # fmt: skip
_MADE = {"instance": "its instances", "volume": "the volumes of its instances"}
"""Kinds that a launch template makes and that are billed."""


@resource_rule(
    "Everything that can be tagged carries the required tags.",
    MEDIUM,
    *TYPES,
    parameters=parameters(["tidemill:team", "tidemill:environment"]),
)
def violations(args: Resource) -> Violations:
    yield from wrong(args, "tags", "tagsAll", word="tags")
    if args.resource_type == LAUNCH_TEMPLATE:
        yield from _of_template(args)
    elif args.resource_type == COMPUTE_ENVIRONMENT and not look(args.props, "computeResources", "launchTemplate"):
        yield from _of_environment(args)
    elif args.resource_type == _INSTANCE:
        roots = [look(args.props, "volumeTags"), look(args.props, "rootBlockDevice", "tags")]
        yield from wrong_in(args, roots, "tags", "its volumes")


def _of_template(args: Resource) -> Violations:
    specifications = look(args.props, "tagSpecifications")
    if specifications is UNKNOWN or UNKNOWN in items(specifications):
        return
    for kind, of in _MADE.items():
        tags = [look(one, "tags") for one in items(specifications) if look(one, "resourceType") in (kind, UNKNOWN)]
        yield from wrong_in(args, tags, "tags", of)


def _of_environment(args: Resource) -> Violations:
    """Machines of an environment without a template have its own tags for them, and those on Fargate none."""
    kind, template = (look(args.props, "computeResources", key) for key in ("type", "launchTemplate"))
    if template is None and kind in ("EC2", "SPOT"):
        yield from wrong_in(args, [look(args.props, "computeResources", "tags")], "tags", "its instances")
