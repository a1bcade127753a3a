"""A group applies a new template to new machines only: a proactive update ends busy ones.

Source: https://cloud.google.com/compute/docs/instance-groups/rolling-out-updates-to-managed-instance-groups
"""

from .common.kinds import GROUPS
from .common.rule import HIGH, Resource, Violations, resource_rule
from .common.values import UNKNOWN, look


@resource_rule("Instance groups do not update or heal busy machines.", HIGH, *GROUPS)
def violations(args: Resource) -> Violations:
    kind = look(args.props, "updatePolicy", "type")
    if kind is not UNKNOWN and kind not in (None, "OPPORTUNISTIC"):
        yield f"updatePolicy.type is {kind}: a new template ends busy machines. Set it to OPPORTUNISTIC."
    if look(args.props, "autoHealingPolicies"):
        yield "autoHealingPolicies are set: a machine that is too busy to answer is deleted. Remove them."
