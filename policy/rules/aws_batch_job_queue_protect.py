"""A job queue is protected: its waiting and running jobs end with it.

A policy sees no old state, so it cannot see a replacement; protection is what stops one.
Source: https://docs.aws.amazon.com/batch/latest/APIReference/API_DeleteJobQueue.html
"""

from collections.abc import Iterator

from pulumi_policy import ResourceValidationArgs

from .common.kinds import JOB_QUEUE
from .common.protection import unprotected
from .common.rule import HIGH, resource_rule


def violations(args: ResourceValidationArgs) -> Iterator[str]:
    yield from unprotected(args, "the jobs in it", "replace or purge")


POLICY = resource_rule(
    __name__,
    JOB_QUEUE,
    violations=violations,
    description="Job queues are protected from replacement and deletion.",
    severity=HIGH,
)
