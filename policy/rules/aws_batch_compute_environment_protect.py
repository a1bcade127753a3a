"""A compute environment is protected: replacing it ends the jobs that run on it.

A policy sees no old state, so it cannot see a replacement; protection is what stops one.
A disabled one takes no jobs: it drains before it is removed (docs/upgrading.md).
Source: https://www.pulumi.com/docs/iac/concepts/resources/options/protect/
"""

from collections.abc import Iterator

from pulumi_policy import ResourceValidationArgs

from .common.kinds import COMPUTE_ENVIRONMENT
from .common.protection import unprotected
from .common.rule import HIGH, resource_rule
from .common.values import look


def violations(args: ResourceValidationArgs) -> Iterator[str]:
    if look(args.props, "state") == "DISABLED":
        return
    yield from unprotected(args, "the jobs that run on it", "replace or purge")


POLICY = resource_rule(
    __name__,
    COMPUTE_ENVIRONMENT,
    violations=violations,
    description="Compute environments that take jobs are protected from replacement and deletion.",
    severity=HIGH,
)
