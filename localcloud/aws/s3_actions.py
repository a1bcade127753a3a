"""The IAM actions of S3, whose names differ from the names of its operations.

Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote
from xml.sax.saxutils import unescape

from localcloud.aws.accounts import bucket_key
from localcloud.aws.wsgi import Environ

# IAM action → the operations that it covers in addition to the one with its own name.
COVERS = {
    "ListAllMyBuckets": "ListBuckets",
    "ListBucket": "ListObjects ListObjectsV2 HeadBucket",
    "ListBucketVersions": "ListObjectVersions",
    "ListBucketMultipartUploads": "ListMultipartUploads",
    "ListMultipartUploadParts": "ListParts",
    "GetObject": "HeadObject",
    "PutObject": "CopyObject CreateMultipartUpload UploadPart UploadPartCopy CompleteMultipartUpload",
    "DeleteObject": "DeleteObjects",
    "GetEncryptionConfiguration": "GetBucketEncryption",
    "PutEncryptionConfiguration": "PutBucketEncryption DeleteBucketEncryption",
    "GetLifecycleConfiguration": "GetBucketLifecycle GetBucketLifecycleConfiguration",
    "PutLifecycleConfiguration": "PutBucketLifecycle PutBucketLifecycleConfiguration DeleteBucketLifecycle",
    "GetBucketPublicAccessBlock": "GetPublicAccessBlock",
    "PutBucketPublicAccessBlock": "PutPublicAccessBlock DeletePublicAccessBlock",
    "GetAccelerateConfiguration": "GetBucketAccelerateConfiguration",
    "PutAccelerateConfiguration": "PutBucketAccelerateConfiguration",
    "GetReplicationConfiguration": "GetBucketReplication",
    "PutReplicationConfiguration": "PutBucketReplication DeleteBucketReplication",
    "GetBucketNotification": "GetBucketNotificationConfiguration",
    "PutBucketNotification": "PutBucketNotificationConfiguration",
    "GetBucketObjectLockConfiguration": "GetObjectLockConfiguration",
    "PutBucketObjectLockConfiguration": "PutObjectLockConfiguration",
    "GetBucketCORS": "GetBucketCors",
    "PutBucketCORS": "PutBucketCors DeleteBucketCors",
    "PutBucketOwnershipControls": "DeleteBucketOwnershipControls",
    "PutBucketTagging": "DeleteBucketTagging",
}
ACTIONS = {operation: action for action, covered in COVERS.items() for operation in covered.split()}
VERSIONED = {"GetObject", "DeleteObject", "GetObjectTagging", "PutObjectTagging", "GetObjectAcl"}
# What a bucket that encrypts with a customer key also requires of the caller:
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingKMSEncryption.html
KEY_USE = {
    "GetObject": ("kms:Decrypt",),
    "PutObject": ("kms:GenerateDataKey",),
    "CopyObject": ("kms:GenerateDataKey",),
    "CreateMultipartUpload": ("kms:GenerateDataKey", "kms:Decrypt"),
    "UploadPart": ("kms:GenerateDataKey", "kms:Decrypt"),
}
# Condition keys from the query and from headers.
FROM_QUERY = ("prefix", "delimiter", "max-keys")
FROM_HEADERS = ("x-amz-acl", "x-amz-server-side-encryption", "x-amz-storage-class", "if-none-match", "if-match")


def s3_checks(
    operation: str, params: dict[str, Any], environ: Environ, region: str
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Return the action, resource ARN and condition keys of each thing that a call does."""
    bucket = params.get("Bucket")
    if bucket is None:
        yield f"s3:{ACTIONS.get(operation, operation)}", "*", {}
        return
    context = {f"s3:{name}": params[name] for name in FROM_QUERY if name in params}
    headers = {name: environ.get(f"HTTP_{name.upper().replace('-', '_')}") for name in FROM_HEADERS}
    context |= {f"s3:{name}": value for name, value in headers.items() if value}
    action = ACTIONS.get(operation, operation)
    if action in VERSIONED and "versionId" in params:
        action = re.sub(r"^(Get|Put|Delete)Object", r"\1ObjectVersion", action)
    root = f"arn:aws:s3:::{bucket}"
    keys = [params["Key"]] if "Key" in params else []
    if operation == "DeleteObjects":
        keys = [
            unescape(key) for key in re.findall(r"<Key>(.*?)</Key>", environ["localcloud.body"].decode(), re.DOTALL)
        ]
    for resource in [f"{root}/{key}" for key in keys] or [root]:
        yield f"s3:{action}", resource, context
    if key := bucket_key(bucket):
        for use in KEY_USE.get(operation, ()):
            yield use, key, {"kms:viaservice": f"s3.{region}.amazonaws.com"}
    if source := environ.get("HTTP_X_AMZ_COPY_SOURCE"):
        yield "s3:GetObject", f"arn:aws:s3:::{unquote(source).lstrip('/').partition('?')[0]}", {}
