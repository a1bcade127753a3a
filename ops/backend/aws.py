"""Versions of a bucket of S3.

Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/versioning-workflows.html
"""

from collections.abc import Iterator
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from ops.backend import Bucket, Version


class S3Bucket(Bucket):
    """A bucket of S3.

    Args:
        region: The bucket's; None for the login's.
    """

    refusals: tuple[type[Exception], ...] = (BotoCoreError, ClientError)

    def __init__(self, name: str, region: str | None) -> None:
        self._name = name
        self._s3: Any = boto3.client("s3", region_name=region)

    def versions(self, prefix: str) -> Iterator[Version]:
        for page in self._s3.get_paginator("list_object_versions").paginate(Bucket=self._name, Prefix=prefix):
            for kind in ("Versions", "DeleteMarkers"):
                for one in page.get(kind, []):
                    deletion = kind == "DeleteMarkers"
                    yield Version(one["Key"], one["VersionId"], one["LastModified"], one["IsLatest"], deletion)

    def read(self, version: Version) -> bytes:
        answer = self._s3.get_object(Bucket=self._name, Key=version.name, VersionId=version.id)
        return answer["Body"].read()

    def write(self, name: str, content: bytes) -> None:
        self._s3.put_object(Bucket=self._name, Key=name, Body=content)

    def delete(self, name: str) -> None:
        self._s3.delete_object(Bucket=self._name, Key=name)


opened = S3Bucket
