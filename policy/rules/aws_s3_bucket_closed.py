"""Every bucket is closed to the public, encrypted, and refuses plain HTTP.

These are separate resources or, as before version 4 of the provider, parts of the bucket: the rule looks at the whole
stack.
Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/security-best-practices.html
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pulumi_policy import PolicyResource

from .common.companions import companions
from .common.documents import UnreadableDocumentError, denies_plain, parse, statements
from .common.rule import CRITICAL, Stack, StackViolations, stack_rule
from .common.values import UNKNOWN, flag, items, look

BUCKETS = ("aws:s3/bucket:Bucket", "aws:s3/bucketV2:BucketV2")
ACCOUNT_BLOCK = "aws:s3/accountPublicAccessBlock:AccountPublicAccessBlock"
PUBLIC_ACCESS_BLOCK = "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock"
ENCRYPTION = "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration"
BUCKET_POLICY = "aws:s3/bucketPolicy:BucketPolicy"
FLAGS = ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")
ALGORITHMS = ("AES256", "aws:kms", "aws:kms:dsse")


@stack_rule("Every bucket blocks public access, is encrypted and refuses plain HTTP.", CRITICAL, *BUCKETS)
def violations(args: Stack) -> StackViolations:
    resources = args.resources
    for bucket in (r for r in resources if r.resource_type in BUCKETS):
        for check in (_public_access, _encryption, _transport):
            for message in check(resources, bucket):
                yield message, bucket.urn


def _of(resources: Sequence[PolicyResource], kind: str, bucket: PolicyResource) -> list[PolicyResource]:
    return companions(resources, kind, "bucket", bucket, ("bucket", "id"))


def _public_access(resources: Sequence[PolicyResource], bucket: PolicyResource) -> Iterator[str]:
    if any(r.resource_type == ACCOUNT_BLOCK and not _off(r) for r in resources):
        return  # S3 applies the stricter one of the account and the bucket
    blocks = _of(resources, PUBLIC_ACCESS_BLOCK, bucket)
    if not blocks:
        yield "the bucket has no BucketPublicAccessBlock. Add one with all four flags true."
    for off in filter(None, map(_off, blocks)):
        yield f"its BucketPublicAccessBlock leaves {', '.join(off)} off. Set all four flags to true."


def _off(block: PolicyResource) -> list[str]:
    return [f for f in FLAGS if (on := flag(look(block.props, f))) is not UNKNOWN and on is not True]


def _encryption(resources: Sequence[PolicyResource], bucket: PolicyResource) -> Iterator[str]:
    separate = [look(one.props, "rules") for one in _of(resources, ENCRYPTION, bucket)]
    inline = items(look(bucket.props, "serverSideEncryptionConfiguration"))
    configurations = [*separate, *(look(one, "rule") for one in inline)]
    if not configurations:
        yield (
            "the bucket has no BucketServerSideEncryptionConfiguration. Add one with AES256, or aws:kms and a key of "
            "yours."
        )
    for rules in configurations:
        if rules is UNKNOWN:
            continue
        algorithms = [look(r, "applyServerSideEncryptionByDefault", "sseAlgorithm") for r in items(rules)]
        if not any(a is UNKNOWN or a in ALGORITHMS for a in algorithms):
            yield f"its encryption names no algorithm. Set sse_algorithm to one of {', '.join(ALGORITHMS)}."


def _transport(resources: Sequence[PolicyResource], bucket: PolicyResource) -> Iterator[str]:
    policies = [bucket, *_of(resources, BUCKET_POLICY, bucket)]
    fix = 'Deny "s3:*" to everybody on the bucket and its objects where aws:SecureTransport is "false".'
    try:
        documents = [parse(look(policy.props, "policy")) for policy in policies]
    except UnreadableDocumentError as error:
        yield f"{error}. {fix}"
        return
    if not any(document is UNKNOWN or _refuses_http(document) for document in documents):
        yield f"the bucket answers plain HTTP: no BucketPolicy denies it. {fix}"


def _refuses_http(document: Any) -> bool:
    denials = [statement for statement in statements(document) if denies_plain(statement, "s3:*")]
    named = [r for statement in denials for r in items(look(statement, "Resource")) if isinstance(r, str)]
    objects = any(r.endswith("*") for r in named)
    return objects and any("/" not in r for r in named)
