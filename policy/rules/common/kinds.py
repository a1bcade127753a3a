"""Type tokens that several rules use."""

COMPUTE_ENVIRONMENT = "aws:batch/computeEnvironment:ComputeEnvironment"
JOB_QUEUE = "aws:batch/jobQueue:JobQueue"
LAUNCH_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
ROLE = "aws:iam/role:Role"

AUTOSCALERS = ("gcp:compute/regionAutoscaler:RegionAutoscaler", "gcp:compute/autoscaler:Autoscaler")
GROUPS = (
    "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager",
    "gcp:compute/instanceGroupManager:InstanceGroupManager",
)
TEMPLATES = (
    "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate",
    "gcp:compute/instanceTemplate:InstanceTemplate",
)
MACHINES = (*TEMPLATES, "gcp:compute/instance:Instance")
"""Types that describe a Compute Engine machine."""
SUBSCRIPTION = "gcp:pubsub/subscription:Subscription"
TOPIC = "gcp:pubsub/topic:Topic"
NOTIFICATION = "gcp:storage/notification:Notification"
CUSTOM_ROLE = "gcp:projects/iAMCustomRole:IAMCustomRole"
MEMBERS = "gcp:*:*I[aA][mM]Member"
BINDINGS = "gcp:*:*I[aA][mM]Binding"
POLICIES = "gcp:*:*I[aA][mM]Policy"
GRANTS = (MEMBERS, BINDINGS, POLICIES)
"""Grants on a project or anything in it."""
ACCESS_LISTS = (
    "gcp:storage/*A[cC][lL]:*",
    "gcp:storage/*AccessControl:*",
    "gcp:bigquery/datasetAccess:DatasetAccess",
)
"""Access lists of buckets, objects and datasets."""
