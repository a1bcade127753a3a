"""Every bucket is closed to the public, encrypted, and refuses plain HTTP.

Since version 4 of the provider these are separate resources, so the rule looks at the whole stack.
Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/security-best-practices.html
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pulumi_policy import PolicyResource

from .common.companions import companions
from .common.documents import UnreadableDocumentError, parse, statements
from .common.rule import CRITICAL, Stack, StackViolations, stack_rule
from .common.values import UNKNOWN, items, look

BUCKETS = ("aws:s3/bucket:Bucket", "aws:s3/bucketV2:BucketV2")
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
    blocks = _of(resources, PUBLIC_ACCESS_BLOCK, bucket)
    if not blocks:
        yield "the bucket has no BucketPublicAccessBlock. Add one with all four flags true."
    for block in blocks:
        open_flags = [f for f in FLAGS if (flag := look(block.props, f)) is not UNKNOWN and flag is not True]
        if open_flags:
            yield f"its BucketPublicAccessBlock leaves {', '.join(open_flags)} off. Set all four flags to true."


def _encryption(resources: Sequence[PolicyResource], bucket: PolicyResource) -> Iterator[str]:
    configurations = _of(resources, ENCRYPTION, bucket)
    if not configurations:
        yield (
            "the bucket has no BucketServerSideEncryptionConfiguration. Add one with AES256, or aws:kms and a key of "
            "yours."
        )
    for configuration in configurations:
        if look(configuration.props, "rules") is UNKNOWN:
            continue
        rules = items(look(configuration.props, "rules"))
        algorithms = [look(r, "applyServerSideEncryptionByDefault", "sseAlgorithm") for r in rules]
        if not any(a is UNKNOWN or a in ALGORITHMS for a in algorithms):
            yield f"its encryption names no algorithm. Set sse_algorithm to one of {', '.join(ALGORITHMS)}."


def _transport(resources: Sequence[PolicyResource], bucket: PolicyResource) -> Iterator[str]:
    policies = _of(resources, BUCKET_POLICY, bucket)
    fix = 'Deny "s3:*" to everybody on the bucket and its objects where aws:SecureTransport is "false".'
    try:
        documents = [parse(look(policy.props, "policy")) for policy in policies]
    except UnreadableDocumentError as error:
        yield f"{error}. {fix}"
        return
    if not any(document is UNKNOWN or _refuses_http(document) for document in documents):
        yield f"the bucket answers plain HTTP: no BucketPolicy denies it. {fix}"


def _refuses_http(document: Any) -> bool:
    resources: list[str] = []
    for statement in statements(document):
        principal = look(statement, "Principal")
        everybody = principal == "*" or "*" in items(look(principal, "AWS"))
        condition = look(statement, "Condition") or {}
        plain_http = str(look(condition, "Bool", "aws:SecureTransport")).lower() == "false" and len(condition) == 1
        every_action = any(action in ("*", "s3:*") for action in items(look(statement, "Action")))
        if look(statement, "Effect") == "Deny" and everybody and plain_http and every_action:
            resources += items(look(statement, "Resource"))
    if "*" in resources:
        return True
    objects = any(r.endswith("/*") for r in resources)
    return objects and any("/" not in r for r in resources)
