"""Every job queue has a fair-share scheduling policy from its first day.

AWS Batch does not let one be added to a queue that was made without.
Source: https://docs.aws.amazon.com/batch/latest/APIReference/API_UpdateJobQueue.html (schedulingPolicyArn)
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pulumi_policy import EnforcementLevel, ReportViolation, ResourceValidationArgs, ResourceValidationPolicy

from .values import UNKNOWN, look

TYPE = "aws:batch/jobQueue:JobQueue"


def violations(props: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with a job queue's inputs, with its fix."""
    policy = look(props, "schedulingPolicyArn")
    if policy is not UNKNOWN and not policy:
        yield (
            "schedulingPolicyArn is not set: jobs would run first in, first out for ever, because a policy cannot be "
            "added later. Create an aws.batch.SchedulingPolicy and give its arn."
        )


def _validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
    if args.resource_type == TYPE:
        for message in violations(args.props):
            report(message, None)


POLICY = ResourceValidationPolicy(
    name="aws-batch-job-queue-scheduling-policy",
    description="Every job queue has a fair-share scheduling policy.",
    enforcement_level=EnforcementLevel.MANDATORY,
    validate=_validate,
)
