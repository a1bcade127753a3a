"""An instance group is protected: replacing it ends the machines that work in it.

Source: https://www.pulumi.com/docs/iac/concepts/resources/options/protect/
"""

from .common.kinds import GROUPS
from .common.protection import unprotected
from .common.rule import HIGH, Resource, Violations, resource_rule


@resource_rule("Instance groups are protected from replacement and deletion.", HIGH, *GROUPS)
def violations(args: Resource) -> Violations:
    yield from unprotected(args, "the work of its machines", "replace or purge")
