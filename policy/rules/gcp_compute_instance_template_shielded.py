"""Machines are shielded: they boot signed software only.

Source: https://cloud.google.com/compute/shielded-vm/docs/shielded-vm
"""

from collections.abc import Iterator

from pulumi_policy import ResourceValidationArgs

from .common.kinds import TEMPLATES
from .common.rule import MEDIUM, resource_rule
from .common.values import UNKNOWN, look


def violations(args: ResourceValidationArgs) -> Iterator[str]:
    secure = look(args.props, "shieldedInstanceConfig", "enableSecureBoot")
    if secure is not UNKNOWN and secure is not True:
        yield "shieldedInstanceConfig.enableSecureBoot is off: a changed boot disk would start. Set it to true."


POLICY = resource_rule(
    __name__, *TEMPLATES, violations=violations, description="Machines boot signed software only.", severity=MEDIUM
)
