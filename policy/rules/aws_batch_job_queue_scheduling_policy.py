"""Every job queue has a fair-share scheduling policy from its first day.

AWS Batch cannot add one to an existing queue.
Source: https://docs.aws.amazon.com/batch/latest/APIReference/API_UpdateJobQueue.html (schedulingPolicyArn)
"""

from collections.abc import Iterator

from pulumi_policy import ResourceValidationArgs

from .common.rule import HIGH, resource_rule
from .common.values import UNKNOWN, look

TYPE = "aws:batch/jobQueue:JobQueue"


def violations(args: ResourceValidationArgs) -> Iterator[str]:
    policy = look(args.props, "schedulingPolicyArn")
    if policy is not UNKNOWN and not policy:
        yield (
            "schedulingPolicyArn is not set: jobs would always run first in, first out, because a policy cannot be "
            "added later. Create an aws.batch.SchedulingPolicy and pass its arn."
        )


POLICY = resource_rule(
    __name__,
    TYPE,
    violations=violations,
    description="Every job queue has a fair-share scheduling policy.",
    severity=HIGH,
)
