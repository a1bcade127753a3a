"""The rule on made-up stacks. It cannot prove that S3 refuses what such a bucket should refuse."""

import json

import pytest

from policy.rules.aws_s3_bucket_closed import (
    ACCOUNT_BLOCK,
    BUCKET_POLICY,
    BUCKETS,
    ENCRYPTION,
    FLAGS,
    PUBLIC_ACCESS_BLOCK,
    violations,
)

CLOSED = dict.fromkeys(FLAGS, True)
ARN = "arn:aws:s3:::store-1"


def tls_only(**changes):
    statement = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": [ARN, f"{ARN}/*"],
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement | changes]})


def encrypted(algorithm="AES256"):
    return [{"applyServerSideEncryptionByDefault": {"sseAlgorithm": algorithm}}]


def build(stack, block=CLOSED, rules=None, policy=None, kind=BUCKETS[0]):
    """A bucket and its companions; a companion that is given as False is left out."""
    bucket = stack.add(kind, "store", {"bucket": "store-1", "id": "store-1"})
    if block is not False:
        stack.add(PUBLIC_ACCESS_BLOCK, "store", {"bucket": "store-1"} | block)
    if rules is not False:
        stack.add(ENCRYPTION, "store", {"bucket": "store-1", "rules": rules or encrypted()})
    if policy is not False:
        stack.add(BUCKET_POLICY, "store", {"bucket": "store-1", "policy": policy or tls_only()})
    return bucket


@pytest.mark.parametrize(
    "companions",
    [
        {},
        {"rules": encrypted("aws:kms")},
        {"kind": BUCKETS[1]},
        {"policy": tls_only(Principal={"AWS": "*"}, Action=["s3:*"], Resource="*")},
        {"policy": tls_only(Condition={"Bool": {"aws:SecureTransport": False}})},
        {"policy": tls_only(Condition={"BoolIfExists": {"aws:securetransport": ["false"]}}, Action="S3:*")},
        {"policy": tls_only(Resource=f"{ARN}*")},
        {"policy": json.loads(tls_only(Principal={"AWS": ["*"]}))},
        {"block": dict.fromkeys(FLAGS, "true")},
    ],
)
def test_a_closed_bucket_passes(stack, companions):
    build(stack, **companions)
    assert list(violations(stack.args())) == []


@pytest.mark.parametrize(
    ("companions", "named"),
    [
        ({"block": False}, "no BucketPublicAccessBlock"),
        *[({"block": CLOSED | {flag: False}}, f"leaves {flag} off") for flag in FLAGS],
        ({"block": {"blockPublicAcls": True}}, "blockPublicPolicy, ignorePublicAcls, restrictPublicBuckets off"),
        ({"rules": False}, "no BucketServerSideEncryptionConfiguration"),
        ({"rules": [{"bucketKeyEnabled": True}]}, "names no algorithm"),
        ({"rules": encrypted("none")}, "names no algorithm"),
        ({"policy": False}, "plain HTTP"),
        ({"policy": tls_only(Effect="Allow")}, "plain HTTP"),
        ({"policy": tls_only(Action="s3:GetObject")}, "plain HTTP"),
        ({"policy": tls_only(Principal={"AWS": "arn:aws:iam::123456789012:root"})}, "plain HTTP"),
        ({"policy": tls_only(Resource=ARN)}, "plain HTTP"),
        ({"policy": tls_only(Resource=[f"{ARN}/*"])}, "plain HTTP"),
        ({"policy": tls_only(Condition={"Bool": {"aws:SecureTransport": "true"}})}, "plain HTTP"),
        ({"policy": tls_only(Condition={})}, "plain HTTP"),
        (
            {"policy": tls_only(Condition={"Bool": {"aws:SecureTransport": "false"}, "StringEquals": {"a": "b"}})},
            "plain HTTP",
        ),
        ({"policy": "{"}, "not JSON"),
    ],
)
def test_a_bucket_that_is_open_somewhere_fails(stack, companions, named):
    bucket = build(stack, **companions)
    ((message, urn),) = violations(stack.args())
    assert named in message
    assert urn == bucket.urn


def test_a_bucket_may_hold_its_encryption_and_policy_itself(stack):
    inline = {"rule": encrypted()[0]}
    parts = {"bucket": "store-1", "serverSideEncryptionConfiguration": inline, "policy": tls_only()}
    stack.add(BUCKETS[0], "store", parts)
    stack.add(PUBLIC_ACCESS_BLOCK, "store", {"bucket": "store-1"} | CLOSED)
    assert list(violations(stack.args())) == []


@pytest.mark.parametrize(("flags", "open_ones"), [(CLOSED, 0), (CLOSED | {"blockPublicAcls": False}, 1)])
def test_the_block_of_the_account_closes_every_bucket_if_it_is_complete(stack, flags, open_ones):
    build(stack, block=False)
    stack.add(ACCOUNT_BLOCK, "account", flags)
    assert len(list(violations(stack.args()))) == open_ones


def test_a_bare_bucket_fails_in_all_three_ways(stack):
    build(stack, block=False, rules=False, policy=False)
    assert len(list(violations(stack.args()))) == 3


def test_the_companions_of_another_bucket_do_not_count(stack):
    build(stack)
    other = stack.add(BUCKETS[0], "other", {"bucket": "other-1", "id": "other-1"})
    found = list(violations(stack.args()))
    assert len(found) == 3
    assert {urn for _, urn in found} == {other.urn}


def test_companions_of_a_first_preview_are_joined_by_their_dependencies(stack, unknown):
    bucket = stack.add(BUCKETS[0], "store", {"bucket": unknown, "id": unknown})
    stack.add(PUBLIC_ACCESS_BLOCK, "store", {"bucket": unknown} | CLOSED, bucket=bucket)
    stack.add(ENCRYPTION, "store", {"bucket": unknown, "rules": encrypted()}, bucket=bucket)
    stack.add(BUCKET_POLICY, "store", {"bucket": unknown, "policy": unknown}, bucket=bucket)
    assert list(violations(stack.args())) == []


def test_two_unknown_buckets_do_not_lend_each_other_their_companions(stack, unknown):
    build_unknown = {"bucket": unknown, "id": unknown}
    closed = stack.add(BUCKETS[0], "closed", build_unknown)
    bare = stack.add(BUCKETS[0], "bare", build_unknown)
    stack.add(PUBLIC_ACCESS_BLOCK, "closed", {"bucket": unknown} | CLOSED, bucket=closed)
    assert sum(urn == bare.urn for _, urn in violations(stack.args())) == 3
