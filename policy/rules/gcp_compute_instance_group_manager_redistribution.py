"""A regional group does not move machines to another zone: they may be busy.

Source: https://cloud.google.com/compute/docs/instance-groups/regional-mig-proactive-instance-redistribution
"""

from .common.kinds import GROUPS
from .common.rule import HIGH, Resource, Violations, resource_rule
from .common.values import UNKNOWN, look

REGIONAL = GROUPS[0]


@resource_rule("Instance groups do not redistribute machines.", HIGH, REGIONAL)
def violations(args: Resource) -> Violations:
    kind = look(args.props, "updatePolicy", "instanceRedistributionType")
    if kind is not UNKNOWN and kind != "NONE":
        yield (
            f"updatePolicy.instanceRedistributionType is {kind or 'not set (PROACTIVE)'}: busy machines are deleted "
            "to balance zones. Set it to NONE."
        )
