"""A compute environment is protected: replacing it ends the jobs that run on it.

A policy sees no old state, so it cannot see a replacement; protection is what stops one.
A disabled one takes no jobs: it drains before it is removed (docs/upgrading.md).
Source: https://www.pulumi.com/docs/iac/concepts/resources/options/protect/
"""

from .common.kinds import COMPUTE_ENVIRONMENT
from .common.protection import unprotected
from .common.rule import HIGH, Resource, Violations, resource_rule
from .common.values import look


@resource_rule(
    "Compute environments that take jobs are protected from replacement and deletion.", HIGH, COMPUTE_ENVIRONMENT
)
def violations(args: Resource) -> Violations:
    if look(args.props, "state") == "DISABLED":
        return
    yield from unprotected(args, "the jobs that run on it", "replace or purge")
