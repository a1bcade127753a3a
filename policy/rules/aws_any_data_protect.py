"""Resources that hold data are protected: buckets, file systems, image repositories, keys.

Source: https://www.pulumi.com/docs/iac/concepts/resources/options/protect/
"""

from .common.protection import unprotected
from .common.rule import HIGH, Resource, Violations, resource_rule

LOSSES = {
    "aws:s3/bucket:Bucket": "the jobs and results in it",
    "aws:s3/bucketV2:BucketV2": "the jobs and results in it",
    "aws:ecr/repository:Repository": "the images in it",
    "aws:efs/fileSystem:FileSystem": "the files in it",
    "aws:kms/key:Key": "everything that is encrypted with it",
}


@resource_rule("Buckets, file systems, images and keys are protected from replacement and deletion.", HIGH, *LOSSES)
def violations(args: Resource) -> Violations:
    yield from unprotected(args, LOSSES[args.resource_type], "purge")
