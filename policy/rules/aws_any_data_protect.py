"""What holds data is protected: buckets, image repositories, keys.

Source: https://www.pulumi.com/docs/iac/concepts/resources/options/protect/
"""

from collections.abc import Iterator

from pulumi_policy import ResourceValidationArgs

from .common.protection import unprotected
from .common.rule import HIGH, resource_rule

LOSSES = {
    "aws:s3/bucket:Bucket": "the jobs and results in it",
    "aws:s3/bucketV2:BucketV2": "the jobs and results in it",
    "aws:ecr/repository:Repository": "the images in it",
    "aws:kms/key:Key": "everything that is encrypted with it",
}


def violations(args: ResourceValidationArgs) -> Iterator[str]:
    yield from unprotected(args, LOSSES[args.resource_type], "purge")


POLICY = resource_rule(
    __name__,
    *LOSSES,
    violations=violations,
    description="Buckets, image repositories and keys are protected from replacement and deletion.",
    severity=HIGH,
)
