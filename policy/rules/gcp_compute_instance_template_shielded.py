"""Machines are shielded: they boot signed software only.

Source: https://cloud.google.com/compute/shielded-vm/docs/shielded-vm
"""

from .common.kinds import TEMPLATES
from .common.rule import MEDIUM, Resource, Violations, resource_rule
from .common.values import UNKNOWN, flag, look


@resource_rule("Machines boot signed software only.", MEDIUM, *TEMPLATES)
def violations(args: Resource) -> Violations:
    secure = flag(look(args.props, "shieldedInstanceConfig", "enableSecureBoot"))
    if secure is not UNKNOWN and secure is not True:
        yield "shieldedInstanceConfig.enableSecureBoot is off: a changed boot disk would start. Set it to true."
