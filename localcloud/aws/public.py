"""Buckets that the public may read, and buckets of other accounts.

Sources: https://docs.aws.amazon.com/AmazonS3/latest/userguide/access-control-block-public-access.html and
https://docs.aws.amazon.com/AmazonS3/latest/userguide/about-object-ownership.html. A bucket that sets neither of the two
is as new ones are: closed to the public, and without ACLs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from localcloud.aws.accounts import bucket_of, has_bucket
from localcloud.aws.signature import Scope
from localcloud.aws.wsgi import Environ

_foreign: set[str] = set()


def disown(wanted: Mapping[str, Any]) -> None:
    """Make a bucket one of another account, with what is in it."""
    if not has_bucket(wanted["bucket"]):
        raise KeyError(wanted["bucket"])
    _foreign.add(wanted["bucket"])


def is_foreign(resource: str) -> bool:
    """Whether a bucket or object, by its ARN, is of another account."""
    bucket = bucket_of(resource)
    return bucket is not None and bucket.name in _foreign


def is_closed(resource: str) -> bool:
    """Whether a bucket's policy admits neither the public nor other accounts."""
    bucket = bucket_of(resource)
    return bucket is None or bucket.public_access_block is None or bucket.public_access_block.restrict_public_buckets


def admits(action: str, resource: str) -> bool:
    """Whether an ACL lets everybody read an object or list a bucket."""
    bucket = bucket_of(resource)
    if bucket is None or bucket.public_access_block is None or bucket.public_access_block.ignore_public_acls:
        return False
    if bucket.ownership_rule in (None, "BucketOwnerEnforced"):
        return False
    key = bucket.keys.get(resource.partition("/")[2])
    acl = {"s3:GetObject": key and key.acl, "s3:ListBucket": bucket.acl}.get(action)
    return bool(acl and acl.public_read)


def unsigned_scope(environ: Environ) -> Scope | None:
    """Return the scope of a request to a bucket that claims no signature, or None for any other."""
    claims = "HTTP_AUTHORIZATION" in environ or "Signature=" in environ["QUERY_STRING"]
    bucket = environ["PATH_INFO"].split("/")[1]
    if claims or "HTTP_X_AMZ_TARGET" in environ or not bucket or not has_bucket(bucket):
        return None
    return Scope("", "", "us-east-1", "s3", (), "")
