"""Every job queue has a fair-share scheduling policy from its first day.

AWS Batch cannot add one to an existing queue.
Source: https://docs.aws.amazon.com/batch/latest/APIReference/API_UpdateJobQueue.html (schedulingPolicyArn)
"""

from .common.rule import HIGH, Resource, Violations, resource_rule
from .common.values import UNKNOWN, look


@resource_rule("Every job queue has a fair-share scheduling policy.", HIGH, "aws:batch/jobQueue:JobQueue")
def violations(args: Resource) -> Violations:
    policy = look(args.props, "schedulingPolicyArn")
    if policy is not UNKNOWN and not policy:
        yield (
            "schedulingPolicyArn is not set: jobs would always run first in, first out, because a policy cannot be "
            "added later. Create an aws.batch.SchedulingPolicy and pass its arn."
        )
