"""The rules in the order in which a preview reports them."""

from pulumi_policy import Policy

from . import (
    aws_batch_compute_environment_in_place_updates,
    aws_batch_job_queue_scheduling_policy,
    aws_ec2_launch_template_imdsv2,
    aws_iam_policy_submitter,
    aws_iam_role_submitter,
    aws_s3_bucket_closed,
)

POLICIES: list[Policy] = [
    aws_batch_compute_environment_in_place_updates.POLICY,
    aws_batch_job_queue_scheduling_policy.POLICY,
    aws_ec2_launch_template_imdsv2.POLICY,
    aws_iam_policy_submitter.POLICY,
    aws_iam_role_submitter.POLICY,
    aws_s3_bucket_closed.POLICY,
]
