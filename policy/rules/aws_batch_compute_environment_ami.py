"""Machines explicitly run Amazon Linux 2023.

Amazon Linux 2 has reached its end of life, and Batch's default changes over time.
Source: https://docs.aws.amazon.com/batch/latest/APIReference/API_Ec2Configuration.html (imageType)
"""

from .common.kinds import COMPUTE_ENVIRONMENT
from .common.rule import MEDIUM, Resource, Violations, resource_rule
from .common.values import UNKNOWN, items, look

ALLOWED = ("ECS_AL2023", "ECS_AL2023_NVIDIA")
_EKS = ("EKS_AL2023", "EKS_AL2023_NVIDIA")


@resource_rule("Compute environments explicitly run Amazon Linux 2023.", MEDIUM, COMPUTE_ENVIRONMENT)
def violations(args: Resource) -> Violations:
    resources = look(args.props, "computeResources")
    configurations = look(resources, "ec2Configurations")
    if resources is None or configurations is UNKNOWN or look(resources, "type") in ("FARGATE", "FARGATE_SPOT"):
        return
    allowed = _EKS if look(args.props, "eksConfiguration") is not None else ALLOWED
    for image_type in [look(one, "imageType") for one in items(configurations)] or [None]:
        if image_type is not UNKNOWN and image_type not in allowed:
            yield (
                f"ec2Configurations.imageType is {image_type or 'not set'}, which is or may become Amazon Linux 2. "
                f"Set it to one of {', '.join(allowed)}."
            )
