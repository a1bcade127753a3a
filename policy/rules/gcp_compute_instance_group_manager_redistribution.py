"""A regional group moves no machine to another zone by itself: the machine would be busy.

Source: https://cloud.google.com/compute/docs/instance-groups/regional-mig-proactive-instance-redistribution
"""

from collections.abc import Iterator

from pulumi_policy import ResourceValidationArgs

from .common.kinds import GROUPS
from .common.rule import HIGH, resource_rule
from .common.values import UNKNOWN, look

REGIONAL = GROUPS[0]


def violations(args: ResourceValidationArgs) -> Iterator[str]:
    """Yield that a group spreads its machines by itself, with the fix."""
    said = look(args.props, "updatePolicy", "instanceRedistributionType")
    if said is not UNKNOWN and said != "NONE":
        yield (
            f"updatePolicy.instanceRedistributionType is {said or 'not set (PROACTIVE)'}: busy machines are deleted "
            "for an even spread. Set it to NONE."
        )


POLICY = resource_rule(
    __name__,
    REGIONAL,
    violations=violations,
    description="Instance groups do not redistribute machines by themselves.",
    severity=HIGH,
)
