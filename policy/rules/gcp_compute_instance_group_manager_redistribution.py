"""A regional group does not move machines to another zone: they may be busy.

Source: https://cloud.google.com/compute/docs/instance-groups/regional-mig-proactive-instance-redistribution
"""

from collections.abc import Iterator

from pulumi_policy import ResourceValidationArgs

from .common.kinds import GROUPS
from .common.rule import HIGH, resource_rule
from .common.values import UNKNOWN, look

REGIONAL = GROUPS[0]


def violations(args: ResourceValidationArgs) -> Iterator[str]:
    said = look(args.props, "updatePolicy", "instanceRedistributionType")
    if said is not UNKNOWN and said != "NONE":
        yield (
            f"updatePolicy.instanceRedistributionType is {said or 'not set (PROACTIVE)'}: busy machines are deleted "
            "to balance zones. Set it to NONE."
        )


POLICY = resource_rule(
    __name__,
    REGIONAL,
    violations=violations,
    description="Instance groups do not redistribute machines.",
    severity=HIGH,
)
