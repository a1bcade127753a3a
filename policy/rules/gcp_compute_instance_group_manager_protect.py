"""An instance group is protected: replacing it ends the machines that work in it.

Source: https://www.pulumi.com/docs/iac/concepts/resources/options/protect/
"""

from collections.abc import Iterator

from pulumi_policy import ResourceValidationArgs

from .common.kinds import GROUPS
from .common.protection import unprotected
from .common.rule import HIGH, resource_rule


def violations(args: ResourceValidationArgs) -> Iterator[str]:
    yield from unprotected(args, "the work of its machines", "replace or purge")


POLICY = resource_rule(
    __name__,
    *GROUPS,
    violations=violations,
    description="Instance groups are protected from replacement and deletion.",
    severity=HIGH,
)
