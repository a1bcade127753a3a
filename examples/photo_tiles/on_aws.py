"""The demo's AWS on this machine: the team's raw data, a login, a reclaim, and what must not be left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import boto3

from localcloud.cloud import Cloud

PHOTOS = "tidemill-demo-photos"


class Aws:
    """An account.

    Args:
        state: Folder of the cloud.
    """

    title, stack = "An AWS", "demo-aws"
    photos = f"s3://{PHOTOS}"

    def __init__(self, state: Path) -> None:
        self.cloud = Cloud(state)

    def prepare(self) -> None:
        """Nothing beside what every account has."""

    def registry(self) -> str:
        """Where the images of the stack are pushed."""
        return f"{self.cloud.control('batch/registry')['address']}/demo-local"

    def upload(self, tiles: list[Path]) -> None:
        """The team's own bucket of raw data, which the stack may read."""
        env = self.cloud.env
        s3 = _client(env, "s3")
        s3.create_bucket(Bucket=PHOTOS, CreateBucketConfiguration={"LocationConstraint": env["AWS_REGION"]})
        for tile in tiles:
            s3.upload_file(str(tile), PHOTOS, tile.name)

    def submitter(self, outputs: dict[str, Any]) -> dict[str, str]:
        """The environment of a person with data, who may submit and read results, and nothing else."""
        env = self.cloud.env
        role = outputs["submitter_role_arn"]
        credentials = _client(env, "sts").assume_role(RoleArn=role, RoleSessionName="demo")["Credentials"]
        return env | {
            "AWS_ACCESS_KEY_ID": credentials["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": credentials["SecretAccessKey"],
            "AWS_SESSION_TOKEN": credentials["SessionToken"],
        }

    def reclaim(self) -> str:
        """Take a machine away; returns its name."""
        return self.cloud.control("batch/reclaim")["instance"]

    def read(self, env: dict[str, str], uri: str) -> bytes:
        """An object, as somebody who may read it."""
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        return _client(env, "s3").get_object(Bucket=bucket, Key=key)["Body"].read()

    def rest(self, outputs: dict[str, Any]) -> str:
        """Wait until nothing runs that bills: Batch takes its machines away by itself."""
        return ""

    def remove_photographs(self) -> None:
        """Delete the raw data."""
        s3 = _client(self.cloud.env, "s3")
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=PHOTOS):
            s3.delete_objects(Bucket=PHOTOS, Delete={"Objects": [{"Key": entry["Key"]} for entry in page["Contents"]]})
        s3.delete_bucket(Bucket=PHOTOS)

    def left(self) -> dict[str, list[Any]]:
        """What is in the account, by kind."""
        env = self.cloud.env
        return {
            "buckets": _client(env, "s3").list_buckets()["Buckets"],
            "compute environments": _client(env, "batch").describe_compute_environments()["computeEnvironments"],
            "queues": _client(env, "batch").describe_job_queues()["jobQueues"],
            "repositories": _client(env, "ecr").describe_repositories()["repositories"],
            "log groups": _client(env, "logs").describe_log_groups()["logGroups"],
            "roles": [
                role["RoleName"]
                for role in _client(env, "iam").list_roles()["Roles"]
                if not role["Path"].startswith("/aws-service-role/")
            ],
        }


def _client(env: dict[str, str], service: str):
    return boto3.client(
        service,
        endpoint_url=env["AWS_ENDPOINT_URL"],
        region_name=env["AWS_REGION"],
        aws_access_key_id=env["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=env["AWS_SECRET_ACCESS_KEY"],
        aws_session_token=env.get("AWS_SESSION_TOKEN"),
    )
