"""The policy pack under the real engine: a bad program's preview fails. The providers are localcloud's."""

import pytest

BAD = """
import json
import pulumi_aws as aws

assume = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole",
                    "Principal": {"AWS": "arn:aws:iam::123456789012:root"}}]})

def document(*actions):
    return json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": list(actions),
                                                               "Resource": "*"}]})

template = aws.ec2.LaunchTemplate("workers", metadata_options={"http_tokens": "optional"})
environment = aws.batch.ComputeEnvironment(
    "rung",
    type="MANAGED",
    service_role="arn:aws:iam::123456789012:role/batch-service",
    compute_resources={
        "type": "SPOT", "max_vcpus": 16, "min_vcpus": 0, "instance_types": ["c7i.large"], "subnets": ["subnet-1"],
        "security_group_ids": ["sg-1"], "launch_template": {"launch_template_id": template.id, "version": "$Latest"},
    },
)
aws.batch.JobQueue(
    "queue",
    state="ENABLED",
    priority=1,
    compute_environment_orders=[{"order": 1, "compute_environment": environment.arn}],
)
aws.iam.Policy("submitter", policy=document("batch:SubmitJob", "batch:Register*"))
role = aws.iam.Role("person", assume_role_policy=assume)
aws.iam.RolePolicy("submit", role=role.id, policy=document("batch:SubmitJob"))
aws.iam.RolePolicy("pass", role=role.id, policy=document("iam:PassRole"))
aws.s3.Bucket("open")
"""

GOOD = """
import json
import pulumi_aws as aws

template = aws.ec2.LaunchTemplate("workers", metadata_options={"http_tokens": "required"})
policy = aws.batch.SchedulingPolicy("fair", fair_share_policy={"share_decay_seconds": 3600})
bucket = aws.s3.Bucket("closed")
aws.s3.BucketPublicAccessBlock("closed", bucket=bucket.bucket, block_public_acls=True, block_public_policy=True,
                               ignore_public_acls=True, restrict_public_buckets=True)
aws.s3.BucketServerSideEncryptionConfiguration("closed", bucket=bucket.bucket, rules=[
    {"apply_server_side_encryption_by_default": {"sse_algorithm": "AES256"}}])
aws.s3.BucketPolicy("closed", bucket=bucket.bucket, policy=bucket.arn.apply(lambda arn: json.dumps({
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": [arn, arn + "/*"],
                   "Condition": {"Bool": {"aws:SecureTransport": "false"}}}]})))
"""


@pytest.fixture(scope="module")
def project(new_project):
    return new_project("demo-aws")


def test_a_bad_program_fails_its_preview_by_every_rule(project):
    with project.program(BAD):
        run = project.preview().refused()
    assert {name for name, _ in run.violations} == {
        "aws-batch-compute-environment-in-place-updates",
        "aws-batch-job-queue-scheduling-policy",
        "aws-ec2-launch-template-imdsv2",
        "aws-iam-policy-submitter",
        "aws-iam-role-submitter",
        "aws-s3-bucket-closed",
    }
    assert "Remove service_role" in run.text
    assert "Traceback" not in run.text


def test_a_good_program_passes_although_much_is_unknown(project):
    with project.program(GOOD):
        run = project.preview().ok()
    assert run.violations == []
    assert len(run.steps) == 6
